import type { SeededRandom } from '../seeded-random.ts'
import type { AdversaryRequest, StationReplyToAdversary } from './adversary-http-client.ts'

/** An API key with what its holder knows about it. */
export interface AdversaryKey {
  readonly id: string
  readonly secret: string
  readonly agent: AdversaryAgent
  readonly scopes: readonly string[]
  /** Total spend cap in USDC. */
  readonly cap: number | null
  /** The Backpack the key is bound to. */
  readonly backpack: AdversaryBackpack | null
  revoked: boolean
}

export interface AdversaryBackpack {
  readonly id: string
  readonly agent: AdversaryAgent
  /** The highest daily limit its owner ever set, in USDC; null for none. */
  perDay: number | null
  /** Accepted sends, tips, bounties and purchases of its bound keys, at face value. */
  faceValue: number
}

/** An agent of the colluding population. */
export interface AdversaryAgent {
  readonly id: string
  readonly address: string
  readonly keys: AdversaryKey[]
  readonly backpacks: AdversaryBackpack[]
  readonly tasks: string[]
  readonly memories: string[]
  readonly fleets: string[]
  referralCode: string | null
}

export interface AdversaryBounty {
  readonly id: string
  readonly poster: AdversaryAgent
}

export interface AdversaryCommunityTool {
  readonly slug: string
  readonly builder: AdversaryAgent
  readonly endpointUrl: string
}

/** A violated rule with the request that showed it. */
export interface AdversaryRuleViolation {
  readonly rule: string
  readonly description: string
  readonly operation: number
}

/** Advertised terms of a tool, in USDC. */
export interface AdvertisedToolPrice {
  /** Price of a call beyond the free calls. */
  readonly price: number
  /** Free calls per day and address. */
  readonly freeCalls: number
}

/**
 * A result or partial result that reached its reader, whether or not the call succeeded afterwards.
 */
export interface ObservedResultDelivery {
  readonly callId: string
  readonly tool: string
  readonly address: string
  readonly operation: number
}

/** One request of an adversary and how its reply is judged. */
export interface AdversaryOperation {
  readonly kind: string
  readonly request: AdversaryRequest
  /** The holder of the credentials: a key id, or the name of a client without a key. */
  readonly credentialHolder: string
  /** The key that authenticates the request. */
  readonly key: AdversaryKey | null
  /** Updates the state from the reply. */
  readonly learn?: (reply: StationReplyToAdversary) => void
}

/** Creates an operation of one kind; null while the state offers no target for it. */
export type AdversaryOperationGenerator = (world: AdversaryState) => AdversaryOperation | null

/** The shared knowledge of all adversaries. */
export interface AdversaryState {
  readonly chance: SeededRandom
  readonly site: string
  /** The tokens that the website shows as proofs of its origin. */
  readonly tokens: Set<string>
  readonly agents: AdversaryAgent[]
  readonly bounties: AdversaryBounty[]
  readonly strategies: { id: string; author: AdversaryAgent }[]
  readonly listings: { id: string; seller: AdversaryAgent }[]
  readonly communityTools: AdversaryCommunityTool[]
  readonly hiveTexts: string[]
  readonly drops: string[]
  /** Fleets that still need a top-up. */
  readonly unfundedFleets: string[]
  /** Catalogue entries by tool. */
  readonly tools: Map<string, AdvertisedToolPrice>
  /** Follow-up operations, mixed into later batches. */
  readonly followUps: AdversaryOperation[]
  /** Requests that carried an Idempotency-Key. */
  readonly repeatable: AdversaryOperation[]
  /** By call id. */
  readonly deliveries: Map<string, ObservedResultDelivery>
  readonly violations: AdversaryRuleViolation[]
  /** Revoked keys and the schedules they created. */
  readonly orphanedSchedules: { scheduleId: string; keyId: string }[]
  /** Onboarding addresses by agent. */
  readonly onboardingAddresses: Map<string, string>
  /** Secrets of keyrings. */
  readonly keyring: string[]
  /** Ids of keys and clients by the secret they received. */
  readonly secretHolders: Map<string, string>
  /** Number of the operation under judgement. */
  operation: number
  /** Returns a number that is unique in this state. */
  nextNumber(): number
}

/** The website that adversaries make the station call. */
export interface AdversaryWebsite {
  readonly base: string
  readonly tokens: Set<string>
}

/** Creates an empty state whose randomness comes from `chance` alone. */
export function createAdversaryState(
  chance: SeededRandom,
  { base: site, tokens }: AdversaryWebsite,
): AdversaryState {
  let last = 0
  return {
    chance,
    site,
    tokens,
    agents: [],
    bounties: [],
    strategies: [],
    listings: [],
    communityTools: [],
    hiveTexts: [],
    drops: [],
    unfundedFleets: [],
    tools: new Map(),
    followUps: [],
    repeatable: [],
    deliveries: new Map(),
    violations: [],
    orphanedSchedules: [],
    onboardingAddresses: new Map(),
    keyring: [],
    secretHolders: new Map(),
    operation: 0,
    nextNumber: () => (last += 1),
  }
}

/** Adds an agent with the key from its onboarding reply. */
export function addAdversaryAgent(
  world: AdversaryState,
  reply: StationReplyToAdversary['body'],
  address: string,
): AdversaryAgent {
  const { agent_id: id, api_key: secret } = reply
  const agent: AdversaryAgent = {
    id: String(id),
    address,
    keys: [],
    backpacks: [],
    tasks: [],
    memories: [],
    fleets: [],
    referralCode: null,
  }
  const own = { id: `first of ${agent.id}`, secret: String(secret), agent, scopes: ['*'] }
  agent.keys.push({ ...own, cap: null, backpack: null, revoked: false })
  world.agents.push(agent)
  return agent
}

export const mainKeyOfAdversaryAgent = (agent: AdversaryAgent): AdversaryKey =>
  agent.keys[0] as AdversaryKey

/** A usable key, mostly the first one of its agent. */
export function pickUsableAdversaryKey(
  { chance }: AdversaryState,
  agent: AdversaryAgent,
): AdversaryKey {
  const usable = agent.keys.filter(({ revoked }) => !revoked)
  return chance.integer(1, 3) === 1 ? chance.pick(usable) : mainKeyOfAdversaryAgent(agent)
}

/** Usable keys bound to a Backpack. */
export const listUsableAdversaryKeysWithBackpack = ({ agents }: AdversaryState): AdversaryKey[] =>
  agents.flatMap(({ keys }) => keys.filter((key) => key.backpack !== null && !key.revoked))

/** Tools a worker may call, and every way in which it may spend. */
export const ADVERSARY_BACKPACK_TOOLS = [
  ...['hive_trending', 'hive_read', 'x402_parse', 'agent_ping', 'signal_publish'],
  'data_retrieval',
  ...['agent_send', 'tip', 'bounty', 'purchase'],
]

/** An operation with a key, sent from the address of its agent. */
export function adversaryOperationWithKey(
  kind: string,
  key: AdversaryKey,
  ask: Omit<AdversaryRequest, 'key' | 'address'>,
  learn?: AdversaryOperation['learn'],
): AdversaryOperation {
  const whole = { ...ask, key: key.secret, address: key.agent.address }
  const told = learn === undefined ? {} : { learn }
  return { kind, request: whole, credentialHolder: key.id, key: key, ...told }
}

export const adversaryPostRequest = (path: string, json: object = {}, headers = {}) =>
  ({ method: 'POST', path, json, headers }) as const

/** A call over a WebSocket. */
export const adversarySocketCallRequest = (fields: object) =>
  ({ method: 'GET', path: '/api/ws', frame: { type: 'refuel', ...fields } }) as const
