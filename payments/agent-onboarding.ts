import { createCustodialWallet } from '../chain/custody/custodial-wallets.ts'
import { DAY, type Clock } from '../core/clock.ts'
import type { EncryptionKeys } from '../core/key-derivation-and-encryption.ts'
import { newApiKey, newUuidV7, newPrefixedId } from '../core/ids-and-api-keys.ts'
import { UNLIMITED_API_KEY_SPENDING } from '../domain/api-key-spending-limits.ts'
import { ZERO_MICROS, type Micros } from '../core/money.ts'
import type { ActorSystem } from '../actors/aggregate-command-types.ts'
import type { NewBackpack } from '../actors/commands/backpacks-commands.ts'
import { invalidInputError } from '../core/errors.ts'
import {
  WILDCARD_SCOPE,
  SCOPES_ALLOWED_FOR_BACKPACK_KEYS,
  toApiKeyRow,
} from '../persistence/agents/api-key-store.ts'
import { toAgentRow } from '../persistence/agents/agent-profile-store.ts'
import type { ReferralStore } from '../persistence/agents/referral-store.ts'
import { createAgentCommand } from './commands/agent-account-commands.ts'

/** Profile fields an agent provides when it joins. */
export interface AgentProfileInput {
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
  readonly discoverable: boolean
}

export interface OnboardedAgent {
  readonly agentId: string
  /** Returned once; only its HMAC is stored. */
  readonly apiKey: string
  readonly walletAddress: string
  /** A key for the agent itself, restricted to its Backpack; null unless requested. */
  readonly agentKey: { readonly secret: string; readonly backpackId: string } | null
  /** Starter credits granted. */
  readonly starter: Micros
}

/** The random values of a new agent, as plain JSON. */
export interface GeneratedAgentCredentials {
  readonly agentId: string
  readonly apiKey: string
  readonly keyId: string
  /** Milliseconds since the epoch. */
  readonly at: number
  /** When agents of this address get starter credits again; null if this agent got them. */
  readonly startersFrom: number | null
  readonly wallet: Readonly<Record<'address' | 'sealed' | 'keyId', string>>
  /** The bound key and its Backpack; absent unless requested. */
  readonly agentKey?: Readonly<Record<'secret' | 'keyId' | 'backpackId', string>>
}

/** The Backpack created with an agent for a key bound to it. */
export type BoundKeyBackpackTerms = Omit<NewBackpack, 'agentName' | 'expiresAt'> & {
  readonly expiryDays: number
}

export interface AgentOnboardingDeps {
  readonly actors: ActorSystem
  readonly clock: Clock
  readonly starter: Micros
  readonly pepper: Buffer
  readonly walletKey: EncryptionKeys
  readonly referrals: Pick<ReferralStore, 'ownerOf' | 'creatorOfBundle'>
}

/** What the body that `genesis_forge` prepares has as `source`. */
const BUNDLE_SOURCE = /^genesis:([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/

/** Creates agents: key, wallet, profile and starter credits in one commit. */
export function createAgentOnboarding(parts: AgentOnboardingDeps) {
  const { actors, clock, starter, pepper, walletKey, referrals } = parts

  /** Returns the agent that owns a referral code; throws if no agent owns it. */
  async function referrerOf(code: string | null, pointer = '/referral_code') {
    if (code === null) return null
    const referrer = await referrals.ownerOf(code)
    if (referrer === null) throw invalidInputError(pointer, `names no referral code: ${code}`)
    return referrer
  }

  /** The creator of the bundle that the source names; null for any other source. */
  async function parentOf(source: string | null): Promise<string | null> {
    const bundleId = BUNDLE_SOURCE.exec(source ?? '')?.[1]
    return bundleId === undefined ? null : referrals.creatorOfBundle(bundleId)
  }

  return {
    referrerOf,

    /** Draws the random values; with `bound`, also for a Backpack and a key bound to it. */
    draw(startersFrom: number | null, bound = false): GeneratedAgentCredentials {
      const at = clock.now()
      const agentId = newUuidV7(at)
      const { address, sealed, keyId } = createCustodialWallet(walletKey, agentId)
      const wallet = { address, sealed: sealed.toString('hex'), keyId }
      const newcomer = {
        agentId,
        apiKey: newApiKey(),
        keyId: newUuidV7(at),
        at,
        startersFrom,
        wallet,
      }
      if (!bound) return newcomer
      const agentKey = {
        secret: newApiKey(),
        keyId: newUuidV7(at),
        backpackId: newPrefixedId('bp'),
      }
      return { ...newcomer, agentKey }
    },

    /** Creates an agent; with `again`, an existing agent is left unchanged. */
    async onboard(
      profile: AgentProfileInput,
      newcomer: GeneratedAgentCredentials,
      { again = false, agentKey: terms = null }: OnboardingOptions = {},
    ): Promise<OnboardedAgent> {
      const [referrer, parent] = await Promise.all([
        referrerOf(profile.referral_code),
        parentOf(profile.source),
      ])
      const { agentId, apiKey, wallet, startersFrom, agentKey } = newcomer
      const given = startersFrom === null ? starter : ZERO_MICROS
      const rows = toAgentRows(pepper, profile, newcomer)
      const backpack =
        terms === null || agentKey === undefined
          ? {}
          : { backpack: toInitialBackpack(profile, newcomer, agentKey.backpackId, terms) }
      const birth = { agentId, starter: given, referrer, parent, rows, ...backpack }
      await actors.ask(agentId, createAgentCommand, birth, again ? {} : { fresh: true })
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

interface OnboardingOptions {
  /** The agent may already exist. */
  readonly again?: boolean
  readonly agentKey?: BoundKeyBackpackTerms | null
}

/** Its days count from the draw, so a repeated request produces the same Backpack. */
function toInitialBackpack(
  { name: agentName }: AgentProfileInput,
  { at }: GeneratedAgentCredentials,
  id: string,
  { expiryDays, ...terms }: BoundKeyBackpackTerms,
) {
  return { id, terms: { agentName, ...terms, expiresAt: at + expiryDays * DAY } }
}

/** The rows of a new agent: profile, keys and wallet. */
function toAgentRows(
  pepper: Buffer,
  profile: AgentProfileInput,
  newcomer: GeneratedAgentCredentials,
) {
  const { agentId, apiKey: secret, keyId: id, at, wallet } = newcomer
  const createdAt = new Date(at)
  const terms = {
    name: 'first key',
    scopes: [WILDCARD_SCOPE],
    ...UNLIMITED_API_KEY_SPENDING,
    expiresAt: null,
  }
  const walletRow = {
    agent_id: agentId,
    address: wallet.address,
    sealed: `\\x${wallet.sealed}`,
    key_id: wallet.keyId,
    created_at: createdAt.toISOString(),
    status: 'active',
  }
  return [
    { table: 'agents', row: toAgentRow({ ...toProfileFields(profile), agentId, createdAt }) },
    { table: 'api_keys', row: toApiKeyRow(pepper, { id, agentId, secret, createdAt, ...terms }) },
    ...toBoundKeyRows(pepper, newcomer),
    { table: 'wallets', row: walletRow },
  ]
}

function toBoundKeyRows(pepper: Buffer, { agentId, at, agentKey }: GeneratedAgentCredentials) {
  if (agentKey === undefined) return []
  const { keyId: id, secret, backpackId } = agentKey
  const terms = { name: 'agent key', scopes: SCOPES_ALLOWED_FOR_BACKPACK_KEYS, expiresAt: null }
  const key = { ...UNLIMITED_API_KEY_SPENDING, ...terms, id, agentId, secret, backpackId }
  return [{ table: 'api_keys', row: toApiKeyRow(pepper, { ...key, createdAt: new Date(at) }) }]
}
export type AgentOnboarding = ReturnType<typeof createAgentOnboarding>

const toProfileFields = (profile: AgentProfileInput) => ({
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
  discoverable: profile.discoverable,
})
