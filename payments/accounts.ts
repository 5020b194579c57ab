import { createWallet } from '../chain/wallets.ts'
import type { Clock } from '../core/clock.ts'
import type { SealingKey } from '../core/crypto.ts'
import { newApiKey, newId } from '../core/ids.ts'
import type { Micros } from '../core/money.ts'
import type { Actors } from '../actors/command.ts'
import { invalid } from '../core/errors.ts'
import { ALL_SCOPES, stagedKey } from '../persistence/keys.ts'
import { stagedProfile } from '../persistence/profiles.ts'
import type { ReferralStore } from '../persistence/referrals.ts'
import { agentCreate } from './commands/purse.ts'

/** What an agent says about itself when it joins (spec 2.1). */
export interface NewAgent {
  readonly name: string
  readonly description: string | null
  readonly framework: string | null
  readonly tool_category: string | null
  readonly preferred_payment: string | null
  readonly referral_code: string | null
  readonly contact_email: string | null
  readonly owner_email: string | null
  readonly owner_telegram: string | null
  readonly source: string | null
}

export interface Onboarded {
  readonly agentId: string
  /** Shown once: only its HMAC is kept. */
  readonly apiKey: string
  readonly walletAddress: string
}

export interface AccountParts {
  readonly actors: Actors
  readonly clock: Clock
  readonly starter: Micros
  readonly pepper: Buffer
  readonly walletKey: SealingKey
  readonly referrals: Pick<ReferralStore, 'ownerOf'>
}

/** How agents come into being: key, wallet, profile and starter credits in one commit. */
export function accounts(parts: AccountParts) {
  const { actors, clock, starter, pepper, walletKey, referrals } = parts

  /** The agent that a code names; rejects a code that names none. */
  async function referrerOf(code: string | null, pointer = '/referral_code') {
    if (code === null) return null
    const referrer = await referrals.ownerOf(code)
    if (referrer === null) throw invalid(pointer, `names no referral code: ${code}`)
    return referrer
  }

  return {
    referrerOf,

    async onboard(profile: NewAgent): Promise<Onboarded> {
      const referrer = await referrerOf(profile.referral_code)
      const at = new Date(clock.now())
      const [agentId, apiKey] = [newId(at.getTime()), newApiKey()]
      const wallet = createWallet(walletKey, agentId)
      const key = {
        id: newId(at.getTime()),
        agentId,
        secret: apiKey,
        name: 'first key',
        scopes: [ALL_SCOPES],
        cap: null,
        expiresAt: null,
        createdAt: at,
      }
      const walletRow = {
        agent_id: agentId,
        address: wallet.address,
        sealed: `\\x${wallet.sealed.toString('hex')}`,
        key_id: wallet.keyId,
        created_at: at.toISOString(),
        status: 'active',
      }
      const rows = [
        { table: 'agents', row: stagedProfile({ ...named(profile), agentId, createdAt: at }) },
        { table: 'api_keys', row: stagedKey(pepper, key) },
        { table: 'wallets', row: walletRow },
      ]
      await actors.ask(agentId, agentCreate, { agentId, starter, referrer, rows }, { fresh: true })
      return { agentId, apiKey, walletAddress: wallet.address }
    },
  }
}
export type Accounts = ReturnType<typeof accounts>

const named = (profile: NewAgent) => ({
  name: profile.name,
  description: profile.description,
  framework: profile.framework,
  toolCategory: profile.tool_category,
  preferredPayment: profile.preferred_payment,
  referralCode: profile.referral_code,
  contactEmail: profile.contact_email,
  ownerEmail: profile.owner_email,
  ownerTelegram: profile.owner_telegram,
  source: profile.source,
})
