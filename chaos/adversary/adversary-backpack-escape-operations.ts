import { randomUUID } from 'node:crypto'
import type { AdversaryRequest, StationReplyToAdversary } from './adversary-http-client.ts'
import {
  addAdversaryAgent,
  listUsableAdversaryKeysWithBackpack,
  mainKeyOfAdversaryAgent,
  ADVERSARY_BACKPACK_TOOLS,
  adversaryPostRequest,
  adversarySocketCallRequest,
  adversaryOperationWithKey,
  type AdversaryAgent,
  type AdversaryBackpack,
  type AdversaryKey,
  type AdversaryOperationGenerator,
  type AdversaryOperation,
  type AdversaryState,
} from './adversary-state.ts'

/** Operations of keys bound to a Backpack that try to act outside it. */

type UnauthenticatedRequest = Omit<AdversaryRequest, 'key' | 'address'>

const KEYS = '/api/keys'
const CALL = { tool: 'hive_trending' }
const get = (path: string) => ({ method: 'GET', path }) as const
const remove = (path: string, json: object = {}) => ({ method: 'DELETE', path, json }) as const

/** Requests that change the limits of a Backpack or read another one. */
function limitEscapes(own: string, elsewhere: string | null): UnauthenticatedRequest[] {
  const limits = [
    { method: 'PATCH', path: `/api/backpack/${own}`, json: { fuse: { per_day_usdc: 100 } } },
    { method: 'PATCH', path: `/api/backpack/${own}`, json: { remove: ['tools'] } },
    adversaryPostRequest(`/api/backpack/${own}/renew`, { expiry_days: 300 }),
    adversaryPostRequest(`/api/backpack/${own}/revoke`),
    adversaryPostRequest(`/api/backpack/${own}/keyring`, {
      name: 'X',
      secret: 'x',
      hosts: ['a.example'],
    }),
    remove(`/api/backpack/${own}/keyring`, { name: 'X' }),
    adversaryPostRequest('/api/backpack/create', { agent_name: 'free' }),
  ] as const
  if (elsewhere === null) return [...limits]
  const there = { 'x-backpack-id': elsewhere }
  return [
    ...limits,
    adversaryPostRequest('/api/refuel', CALL, there),
    adversaryPostRequest('/api/refuel/stream', CALL, there),
    adversaryPostRequest('/api/t/hive-trending', {}, there),
    adversaryPostRequest('/api/pipeline', { calls: [CALL] }, there),
    adversaryPostRequest('/api/task/start', { name: 'free', budget_usdc: 1 }, there),
    { ...get('/api/credits/balance'), headers: there },
    get(`/api/backpack/${elsewhere}/state`),
    get(`/api/backpack/${elsewhere}/spend`),
    adversarySocketCallRequest({ ...CALL, backpack_id: elsewhere }),
  ]
}

/** Requests reserved for the owner: keys, contact, wallet, webhooks, fleets, referrals. */
const ownerOnlyRequests = (key: AdversaryKey): UnauthenticatedRequest[] => [
  get(KEYS),
  adversaryPostRequest(KEYS, {}),
  adversaryPostRequest(KEYS, { backpack_id: key.backpack?.id }),
  adversaryPostRequest('/api/keys/rotate'),
  adversaryPostRequest('/api/keys/rotate', { compromised: true }),
  remove(`${KEYS}/${key.id}`),
  remove(`${KEYS}/${mainKeyOfAdversaryAgent(key.agent).id}`),
  adversaryPostRequest('/api/agent/set-contact', { owner_email: 'thief@example.com' }),
  adversaryPostRequest('/api/agent/recommend'),
  adversaryPostRequest('/api/wallet/export', { confirm: true }),
  get('/api/wallet/deposits'),
  adversaryPostRequest('/api/webhook/register', {
    url: 'https://thief.example/',
    events: ['topup'],
  }),
  get('/api/webhook'),
  adversaryPostRequest('/api/webhook/test'),
  adversaryPostRequest('/api/fleet/create', { name: 'mine' }),
  get('/api/fleet/list'),
  adversaryPostRequest('/api/referrals/create'),
  get('/api/referrals/me'),
  get('/api/bounties/mine'),
]

/** A Backpack the key is not bound to: preferably of its own agent, else of any agent. */
function findOtherBackpack(
  { chance, agents }: AdversaryState,
  { agent, backpack }: AdversaryKey,
): string | null {
  const others = agent.backpacks.filter((one) => one !== backpack)
  const foreign = chance.pick(agents).backpacks.at(-1)
  const found = others.at(-1) ?? (foreign === backpack ? undefined : foreign)
  return found?.id ?? null
}

/** Every request that a bound key must never be allowed. */
const allEscapes = (world: AdversaryState, key: AdversaryKey): UnauthenticatedRequest[] => [
  ...limitEscapes(key.backpack?.id ?? '', findOtherBackpack(world, key)),
  ...ownerOnlyRequests(key),
]

/** An operation for which every success counts as an escape. */
const escapeOperation = (key: AdversaryKey, ask: UnauthenticatedRequest): AdversaryOperation =>
  adversaryOperationWithKey('escape', key, ask)

/** One escape attempt with any bound key. */
const escape: AdversaryOperationGenerator = (world) => {
  const bound = listUsableAdversaryKeysWithBackpack(world)
  if (bound.length === 0) return null
  const key = world.chance.pick(bound)
  return escapeOperation(key, world.chance.pick(allEscapes(world, key)))
}

const LISTS = ['/api/calls', '/api/tasks', '/api/backpacks', '/api/task/schedules']

/** Reads of a bound key; everything returned must belong to its Backpack. */
const look: AdversaryOperationGenerator = (world) => {
  const bound = listUsableAdversaryKeysWithBackpack(world)
  if (bound.length === 0) return null
  return adversaryOperationWithKey(
    'bound look',
    world.chance.pick(bound),
    get(world.chance.pick(LISTS)),
  )
}

/** Onboards an agent with a bound key, then tries every escape with that key. */
const onboardBound: AdversaryOperationGenerator = (world) => {
  const { chance } = world
  const address = `198.51.100.${chance.integer(1, 250)}`
  const perDay = chance.pick([0.01, 0.02, 0.06])
  const terms = { tools: ADVERSARY_BACKPACK_TOOLS, fuse: { per_day_usdc: perDay }, expiry_days: 30 }
  const json = { name: `bound-${world.nextNumber()}`, agent_key: terms }
  return {
    kind: 'onboard bound',
    credentialHolder: `newcomer ${world.nextNumber()}`,
    key: null,
    request: { ...adversaryPostRequest('/api/onboard', json), address },
    learn: ({ status, body }) => {
      if (status !== 201) return
      const agent = addAdversaryAgent(world, body, address)
      const backpack = { id: String(body['backpack_id']), agent, perDay, faceValue: 0 }
      agent.backpacks.push(backpack)
      const secret = String(body['agent_key'])
      const listed = (reply: StationReplyToAdversary) =>
        learnBound(world, { agent, backpack, secret }, reply)
      world.followUps.push(
        adversaryOperationWithKey('list keys', mainKeyOfAdversaryAgent(agent), get(KEYS), listed),
      )
    },
  }
}

interface BoundKeyGrant {
  readonly agent: AdversaryAgent
  readonly backpack: AdversaryBackpack
  readonly secret: string
}

/** Learns the id of the bound key from its owner's list, because the key itself cannot read it. */
function learnBound(
  world: AdversaryState,
  { agent, backpack, secret }: BoundKeyGrant,
  { body }: StationReplyToAdversary,
): void {
  const listed = body['keys'] as readonly { id: string; backpack_id: string | null }[]
  const found = listed.find((one) => one.backpack_id === backpack.id)
  if (found === undefined) throw new Error(`the owner's list lacks the key of ${backpack.id}`)
  const scopes = ['tools', 'read', 'tasks', 'backpacks', 'funds']
  const key = { id: found.id, secret, agent, scopes, cap: null, backpack, revoked: false }
  agent.keys.push(key)
  world.followUps.push(...ownerOperationsToReuse(world, key))
}

/**
 * Objects the owner creates outside the Backpack, attempts of the key to use them, and all other
 * escapes.
 */
function ownerOperationsToReuse(world: AdversaryState, key: AdversaryKey): AdversaryOperation[] {
  const owner = mainKeyOfAdversaryAgent(key.agent)
  const then =
    (asks: (reply: StationReplyToAdversary) => readonly UnauthenticatedRequest[]) =>
    (reply: StationReplyToAdversary) => {
      if (reply.status < 300)
        world.followUps.push(...asks(reply).map((ask) => escapeOperation(key, ask)))
    }
  const repeated = [
    adversaryPostRequest(KEYS, { scopes: ['*'] }),
    adversaryPostRequest('/api/refuel', CALL),
    EXPORT,
  ].map((ask) => {
    const named = { ...ask, headers: { 'idempotency-key': randomUUID() } }
    return adversaryOperationWithKey(
      'repeatable',
      owner,
      named,
      then(() => [named]),
    )
  })
  const task = adversaryPostRequest('/api/task/start', { name: 'of the owner', budget_usdc: 0.2 })
  const plan = adversaryPostRequest('/api/task/schedule', {
    name: 'of the owner',
    interval: '1d',
    ...CALL,
  })
  const free = adversaryPostRequest('/api/backpack/create', { agent_name: 'free' })
  return [
    ...repeated,
    adversaryOperationWithKey(
      'task',
      owner,
      task,
      then(({ body }) => withTask(String(body['task_id']))),
    ),
    adversaryOperationWithKey(
      'schedule',
      owner,
      plan,
      then(({ body }) => withPlan(String(body['schedule_id']))),
    ),
    adversaryOperationWithKey('backpack', owner, free, (reply) => {
      const id = reply.body['backpack_id']
      if (typeof id === 'string')
        key.agent.backpacks.push({ id, agent: key.agent, perDay: null, faceValue: 0 })
      world.followUps.push(...allEscapes(world, key).map((ask) => escapeOperation(key, ask)))
    }),
  ]
}

const EXPORT = adversaryPostRequest('/api/wallet/export', { confirm: true })

const withTask = (id: string): UnauthenticatedRequest[] => [
  adversaryPostRequest('/api/refuel', CALL, { 'x-task-id': id }),
  adversaryPostRequest('/api/task/end', { task_id: id }),
  { method: 'PATCH', path: `/api/task/${id}/budget`, json: { budget_usdc: 0.5 } },
  get(`/api/task/${id}`),
  adversarySocketCallRequest({ ...CALL, task_id: id }),
]

const withPlan = (id: string): UnauthenticatedRequest[] => [
  get(`/api/task/schedule/${id}`),
  { method: 'PATCH', path: `/api/task/schedule/${id}`, json: { enabled: true } },
  remove(`/api/task/schedule/${id}`),
]

/** Bound keys and every escape from their Backpack. */
export const adversaryBackpackEscapeGenerators: Readonly<
  Record<string, AdversaryOperationGenerator>
> = {
  escape,
  look,
  onboardBound,
}
