import { createWallet } from '../chain/wallets.ts'
import { DAY, type Clock } from '../core/clock.ts'
import type { SealingKeys } from '../core/crypto.ts'
import { newApiKey, newId, newName } from '../core/ids.ts'
import { UNLIMITED_KEY } from '../core/key-terms.ts'
import { ZERO, type Micros } from '../core/money.ts'
import type { Actors } from '../actors/command.ts'
import type { NewBackpack } from '../actors/commands/backpacks.ts'
import { invalid } from '../core/errors.ts'
import { ALL_SCOPES, BOUND_SCOPES, stagedKey } from '../persistence/keys.ts'
import { stagedProfile } from '../persistence/profiles.ts'
import type { ReferralStore } from '../persistence/referrals.ts'
import { agentCreate } from './commands/purse.ts'

/** What an agent says about itself when it joins. */
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
  /** The key for the agent itself, where one was asked for: it acts in its Backpack only. */
  readonly agentKey: { readonly secret: string; readonly backpackId: string } | null
  /** The credits it began with. */
  readonly starter: Micros
}

/** What an agent is born with that is left to chance; as JSON can say it. */
export interface Newcomer {
  readonly agentId: string
  readonly apiKey: string
  readonly keyId: string
  /** Milliseconds since the epoch. */
  readonly at: number
  /** Null with starter credits; else from when on agents of its address begin with some again. */
  readonly startersFrom: number | null
  readonly wallet: Readonly<Record<'address' | 'sealed' | 'keyId', string>>
  /** The bound key and its Backpack; absent where none was asked for. */
  readonly agentKey?: Readonly<Record<'secret' | 'keyId' | 'backpackId', string>>
}

/** The Backpack that an agent is born with, for a key bound to it. */
export type AgentKeyTerms = Omit<NewBackpack, 'agentName' | 'expiresAt'> & {
  readonly expiryDays: number
}

export interface AccountParts {
  readonly actors: Actors
  readonly clock: Clock
  readonly starter: Micros
  readonly pepper: Buffer
  readonly walletKey: SealingKeys
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

    /** Draws what is left to chance; `bound`: a Backpack and a key bound to it as well. */
    draw(startersFrom: number | null, bound = false): Newcomer {
      const at = clock.now()
      const agentId = newId(at)
      const { address, sealed, keyId } = createWallet(walletKey, agentId)
      const wallet = { address, sealed: sealed.toString('hex'), keyId }
      const newcomer = { agentId, apiKey: newApiKey(), keyId: newId(at), at, startersFrom, wallet }
      if (!bound) return newcomer
      const agentKey = { secret: newApiKey(), keyId: newId(at), backpackId: newName('bp') }
      return { ...newcomer, agentKey }
    },

    /** Brings an agent into being; `again` where it may have been before, and then it is left as it is. */
    async onboard(
      profile: NewAgent,
      newcomer: Newcomer,
      { again = false, agentKey: terms = null }: Joining = {},
    ): Promise<Onboarded> {
      const referrer = await referrerOf(profile.referral_code)
      const { agentId, apiKey, wallet, startersFrom, agentKey } = newcomer
      const given = startersFrom === null ? starter : ZERO
      const rows = rowsOf(pepper, profile, newcomer)
      const backpack =
        terms === null || agentKey === undefined
          ? {}
          : { backpack: backpackOf(profile, newcomer, agentKey.backpackId, terms) }
      const birth = { agentId, starter: given, referrer, rows, ...backpack }
      await actors.ask(agentId, agentCreate, birth, again ? {} : { fresh: true })
      return {
        agentId,
        apiKey,
        walletAddress: wallet.address,
        starter: given,
        agentKey: agentKey ?? null,
      }
    },
  }
}

/** How an agent joins. */
interface Joining {
  /** It may have joined before. */
  readonly again?: boolean
  readonly agentKey?: AgentKeyTerms | null
}

/** Its days count from the draw, so that a repetition means the same. */
function backpackOf(
  { name: agentName }: NewAgent,
  { at }: Newcomer,
  id: string,
  { expiryDays, ...terms }: AgentKeyTerms,
) {
  return { id, terms: { agentName, ...terms, expiresAt: at + expiryDays * DAY } }
}

/** The rows that describe a new agent: its profile, its keys, its wallet. */
function rowsOf(pepper: Buffer, profile: NewAgent, newcomer: Newcomer) {
  const { agentId, apiKey: secret, keyId: id, at, wallet } = newcomer
  const createdAt = new Date(at)
  const terms = { name: 'first key', scopes: [ALL_SCOPES], ...UNLIMITED_KEY, expiresAt: null }
  const walletRow = {
    agent_id: agentId,
    address: wallet.address,
    sealed: `\\x${wallet.sealed}`,
    key_id: wallet.keyId,
    created_at: createdAt.toISOString(),
    status: 'active',
  }
  return [
    { table: 'agents', row: stagedProfile({ ...named(profile), agentId, createdAt }) },
    { table: 'api_keys', row: stagedKey(pepper, { id, agentId, secret, createdAt, ...terms }) },
    ...boundRows(pepper, newcomer),
    { table: 'wallets', row: walletRow },
  ]
}

function boundRows(pepper: Buffer, { agentId, at, agentKey }: Newcomer) {
  if (agentKey === undefined) return []
  const { keyId: id, secret, backpackId } = agentKey
  const terms = { name: 'agent key', scopes: BOUND_SCOPES, expiresAt: null }
  const key = { ...UNLIMITED_KEY, ...terms, id, agentId, secret, backpackId }
  return [{ table: 'api_keys', row: stagedKey(pepper, { ...key, createdAt: new Date(at) }) }]
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
