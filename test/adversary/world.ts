import type { Chance } from '../../scripts/prove/chance.ts'
import type { Ask, Reply } from './client.ts'

/** A key of an agent, as its holder knows it. */
export interface Key {
  readonly id: string
  readonly secret: string
  readonly agent: Agent
  readonly scopes: readonly string[]
  /** What it may spend in all, in USDC. */
  readonly cap: number | null
  /** The Backpack that it cannot leave. */
  readonly backpack: Backpack | null
  revoked: boolean
}

export interface Backpack {
  readonly id: string
  readonly agent: Agent
  /** The highest limit a day its owner has ever set, in USDC; null for none. */
  perDay: number | null
  /** Accepted sends, tips, bounties and purchases of its bound keys, at face value. */
  faceValue: number
}

/** An agent of the colluding population. */
export interface Agent {
  readonly id: string
  readonly address: string
  readonly keys: Key[]
  readonly backpacks: Backpack[]
  readonly tasks: string[]
  readonly memories: string[]
  readonly fleets: string[]
  referralCode: string | null
}

export interface Bounty {
  readonly id: string
  readonly poster: Agent
}

/** What a rule found, with the request that showed it. */
export interface Violation {
  readonly rule: string
  readonly says: string
  readonly operation: number
}

/** The terms that the catalogue sells a tool on, in USDC. */
export interface Terms {
  /** What a call costs that takes no free slot. */
  readonly price: number
  /** Free calls of a day and address. */
  readonly freeCalls: number
}

/** A result, or a part of one, that reached its reader, whatever became of the call afterwards. */
export interface Delivery {
  readonly callId: string
  readonly tool: string
  readonly address: string
  readonly operation: number
}

/** One thing that an adversary tries. */
export interface Operation {
  readonly kind: string
  readonly ask: Ask
  /** Which holder of credentials asks: the id of a key, or the name of a client without one. */
  readonly who: string
  /** The key it asks with. */
  readonly by: Key | null
  /** Learns from the answer. */
  readonly learn?: (reply: Reply) => void
}

/** Makes one operation of a kind; null when the world has nothing for it yet. */
export type Maker = (world: World) => Operation | null

/** Everything the adversaries know together. */
export interface World {
  readonly chance: Chance
  readonly site: string
  readonly agents: Agent[]
  readonly bounties: Bounty[]
  readonly strategies: { id: string; author: Agent }[]
  readonly hiveTexts: string[]
  readonly drops: string[]
  /** Fleets that an operator has yet to put money into. */
  readonly poorFleets: string[]
  /** What the catalogue says of each tool. */
  readonly tools: Map<string, Terms>
  /** What follows an earlier operation, to be mixed among later ones. */
  readonly followUps: Operation[]
  /** Requests that carried an Idempotency-Key. */
  readonly repeatable: Operation[]
  /** By the id of the call. */
  readonly deliveries: Map<string, Delivery>
  readonly violations: Violation[]
  /** Keys that were revoked, and the schedules they had made. */
  readonly orphaned: { scheduleId: string; keyId: string }[]
  /** The addresses that agents were onboarded from. */
  readonly origins: Map<string, string>
  /** Secrets of keyrings. */
  readonly keyring: string[]
  /** The ids of keys and clients by the secret that each has been given. */
  readonly holders: Map<string, string>
  /** The number of the operation that is judged now. */
  operation: number
  /** A number that no other object of this world has. */
  next(): number
}

/** An empty world that draws from `chance` alone. */
export function createWorld(chance: Chance, site: string): World {
  let last = 0
  return {
    chance,
    site,
    agents: [],
    bounties: [],
    strategies: [],
    hiveTexts: [],
    drops: [],
    poorFleets: [],
    tools: new Map(),
    followUps: [],
    repeatable: [],
    deliveries: new Map(),
    violations: [],
    orphaned: [],
    origins: new Map(),
    keyring: [],
    holders: new Map(),
    operation: 0,
    next: () => (last += 1),
  }
}

/** An agent with the key that its onboarding answered. */
export function addAgent(world: World, reply: Reply['body'], address: string): Agent {
  const { agent_id: id, api_key: secret } = reply
  const agent: Agent = {
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

export const mainKey = (agent: Agent): Key => agent.keys[0] as Key

/** A key that works; mostly the first one of its agent. */
export function someKey({ chance }: World, agent: Agent): Key {
  const usable = agent.keys.filter(({ revoked }) => !revoked)
  return chance.whole(1, 3) === 1 ? chance.pick(usable) : mainKey(agent)
}

/** Keys that cannot leave a Backpack, and work. */
export const boundKeys = ({ agents }: World): Key[] =>
  agents.flatMap(({ keys }) => keys.filter((key) => key.backpack !== null && !key.revoked))

/** What a worker may call, and every way in which it may spend. */
export const PERMITTED = [
  ...['hive_trending', 'hive_read', 'x402_parse', 'agent_ping', 'signal_publish'],
  'data_retrieval',
  ...['agent_send', 'tip', 'bounty', 'purchase'],
]

/** An operation with a key from the address of its agent. */
export function withKey(
  kind: string,
  key: Key,
  ask: Omit<Ask, 'key' | 'address'>,
  learn?: Operation['learn'],
): Operation {
  const whole = { ...ask, key: key.secret, address: key.agent.address }
  const told = learn === undefined ? {} : { learn }
  return { kind, ask: whole, who: key.id, by: key, ...told }
}

export const post = (path: string, json: object = {}, headers = {}) =>
  ({ method: 'POST', path, json, headers }) as const

/** A call over a WebSocket. */
export const socketFrame = (fields: object) =>
  ({ method: 'GET', path: '/api/ws', frame: { type: 'refuel', ...fields } }) as const
