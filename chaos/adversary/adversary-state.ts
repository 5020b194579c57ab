import type { SeededRandom } from '../seeded-random.ts'
import type { AdversaryRequest, AdversaryReply } from './http-client.ts'

/** A key of an agent, as its holder knows it. */
export interface AdversaryKey {
  readonly id: string
  readonly secret: string
  readonly agent: AdversaryAgent
  readonly scopes: readonly string[]
  /** What it may spend in all, in USDC. */
  readonly cap: number | null
  /** The Backpack that it cannot leave. */
  readonly backpack: AdversaryBackpack | null
  revoked: boolean
}

export interface AdversaryBackpack {
  readonly id: string
  readonly agent: AdversaryAgent
  /** The highest limit a day its owner has ever set, in USDC; null for none. */
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

/** What a rule found, with the request that showed it. */
export interface RuleViolation {
  readonly rule: string
  readonly description: string
  readonly operation: number
}

/** The terms that the catalogue sells a tool on, in USDC. */
export interface AdvertisedToolPrice {
  /** What a call costs that takes no free slot. */
  readonly price: number
  /** Free calls of a day and address. */
  readonly freeCalls: number
}

/** A result, or a part of one, that reached its reader, whatever became of the call afterwards. */
export interface ObservedDelivery {
  readonly callId: string
  readonly tool: string
  readonly address: string
  readonly operation: number
}

/** One thing that an adversary tries. */
export interface AdversaryOperation {
  readonly kind: string
  readonly request: AdversaryRequest
  /** Which holder of credentials asks: the id of a key, or the name of a client without one. */
  readonly credentialHolder: string
  /** The key it asks with. */
  readonly key: AdversaryKey | null
  /** Learns from the answer. */
  readonly learn?: (reply: AdversaryReply) => void
}

/** Makes one operation of a kind; null when the world has nothing for it yet. */
export type OperationGenerator = (world: AdversaryState) => AdversaryOperation | null

/** Everything the adversaries know together. */
export interface AdversaryState {
  readonly chance: SeededRandom
  readonly site: string
  readonly agents: AdversaryAgent[]
  readonly bounties: AdversaryBounty[]
  readonly strategies: { id: string; author: AdversaryAgent }[]
  readonly hiveTexts: string[]
  readonly drops: string[]
  /** Fleets that an operator has yet to put money into. */
  readonly unfundedFleets: string[]
  /** What the catalogue says of each tool. */
  readonly tools: Map<string, AdvertisedToolPrice>
  /** What follows an earlier operation, to be mixed among later ones. */
  readonly followUps: AdversaryOperation[]
  /** Requests that carried an Idempotency-Key. */
  readonly repeatable: AdversaryOperation[]
  /** By the id of the call. */
  readonly deliveries: Map<string, ObservedDelivery>
  readonly violations: RuleViolation[]
  /** Keys that were revoked, and the schedules they had made. */
  readonly orphanedSchedules: { scheduleId: string; keyId: string }[]
  /** The addresses that agents were onboarded from. */
  readonly onboardingAddresses: Map<string, string>
  /** Secrets of keyrings. */
  readonly keyring: string[]
  /** The ids of keys and clients by the secret that each has been given. */
  readonly secretHolders: Map<string, string>
  /** The number of the operation that is judged now. */
  operation: number
  /** A number that no other object of this world has. */
  nextNumber(): number
}

/** An empty world that draws from `chance` alone. */
export function createAdversaryState(chance: SeededRandom, site: string): AdversaryState {
  let last = 0
  return {
    chance,
    site,
    agents: [],
    bounties: [],
    strategies: [],
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

/** An agent with the key that its onboarding answered. */
export function addAdversaryAgent(
  world: AdversaryState,
  reply: AdversaryReply['body'],
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

export const mainKeyOf = (agent: AdversaryAgent): AdversaryKey => agent.keys[0] as AdversaryKey

/** A key that works; mostly the first one of its agent. */
export function randomUsableKey({ chance }: AdversaryState, agent: AdversaryAgent): AdversaryKey {
  const usable = agent.keys.filter(({ revoked }) => !revoked)
  return chance.integer(1, 3) === 1 ? chance.pick(usable) : mainKeyOf(agent)
}

/** Keys that cannot leave a Backpack, and work. */
export const usableBoundKeys = ({ agents }: AdversaryState): AdversaryKey[] =>
  agents.flatMap(({ keys }) => keys.filter((key) => key.backpack !== null && !key.revoked))

/** What a worker may call, and every way in which it may spend. */
export const BACKPACK_PERMITTED_TOOLS = [
  ...['hive_trending', 'hive_read', 'x402_parse', 'agent_ping', 'signal_publish'],
  'data_retrieval',
  ...['agent_send', 'tip', 'bounty', 'purchase'],
]

/** An operation with a key from the address of its agent. */
export function operationWithKey(
  kind: string,
  key: AdversaryKey,
  ask: Omit<AdversaryRequest, 'key' | 'address'>,
  learn?: AdversaryOperation['learn'],
): AdversaryOperation {
  const whole = { ...ask, key: key.secret, address: key.agent.address }
  const told = learn === undefined ? {} : { learn }
  return { kind, request: whole, credentialHolder: key.id, key: key, ...told }
}

export const postRequest = (path: string, json: object = {}, headers = {}) =>
  ({ method: 'POST', path, json, headers }) as const

/** A call over a WebSocket. */
export const socketCallRequest = (fields: object) =>
  ({ method: 'GET', path: '/api/ws', frame: { type: 'refuel', ...fields } }) as const
