import { randomUUID } from 'node:crypto'
import type { Ask, Reply } from './client.ts'
import {
  addAgent,
  boundKeys,
  mainKey,
  PERMITTED,
  post,
  socketFrame,
  withKey,
  type Agent,
  type Backpack,
  type Key,
  type Maker,
  type Operation,
  type World,
} from './world.ts'

type Asked = Omit<Ask, 'key' | 'address'>

const KEYS = '/api/keys'
const CALL = { tool: 'hive_trending' }
const get = (path: string) => ({ method: 'GET', path }) as const
const remove = (path: string, json: object = {}) => ({ method: 'DELETE', path, json }) as const

/** Whatever changes the limits of a Backpack, or shows one that is not the key's own. */
function aroundLimits(own: string, elsewhere: string | null): Asked[] {
  const limits = [
    { method: 'PATCH', path: `/api/backpack/${own}`, json: { fuse: { per_day_usdc: 100 } } },
    { method: 'PATCH', path: `/api/backpack/${own}`, json: { tools: null } },
    post(`/api/backpack/${own}/renew`, { expiry_days: 300 }),
    post(`/api/backpack/${own}/revoke`),
    post(`/api/backpack/${own}/keyring`, { name: 'X', secret: 'x', hosts: ['a.example'] }),
    remove(`/api/backpack/${own}/keyring`, { name: 'X' }),
    post('/api/backpack/create', { agent_name: 'free' }),
  ] as const
  if (elsewhere === null) return [...limits]
  const there = { 'x-backpack-id': elsewhere }
  return [
    ...limits,
    post('/api/refuel', CALL, there),
    post('/api/refuel/stream', CALL, there),
    post('/api/t/hive-trending', {}, there),
    post('/api/pipeline', { calls: [CALL] }, there),
    post('/api/task/start', { name: 'free', budget_usdc: 1 }, there),
    { ...get('/api/credits/balance'), headers: there },
    get(`/api/backpack/${elsewhere}/state`),
    get(`/api/backpack/${elsewhere}/spend`),
    socketFrame({ ...CALL, backpack_id: elsewhere }),
  ]
}

/** What is its owner's: keys, contact, wallet, webhooks, fleets, referrals. */
const ofTheOwner = (key: Key): Asked[] => [
  get(KEYS),
  post(KEYS, {}),
  post(KEYS, { backpack_id: key.backpack?.id }),
  post('/api/keys/rotate'),
  post('/api/keys/rotate', { compromised: true }),
  remove(`${KEYS}/${key.id}`),
  remove(`${KEYS}/${mainKey(key.agent).id}`),
  post('/api/agent/set-contact', { owner_email: 'thief@example.com' }),
  post('/api/agent/recommend'),
  post('/api/wallet/export', { confirm: true }),
  get('/api/wallet/deposits'),
  post('/api/webhook/register', { url: 'https://thief.example/', events: ['topup'] }),
  get('/api/webhook'),
  post('/api/webhook/test'),
  post('/api/fleet/create', { name: 'mine' }),
  get('/api/fleet/list'),
  post('/api/referrals/create'),
  get('/api/referrals/me'),
  get('/api/bounties/mine'),
]

/** A Backpack that the key is not bound to: of its own agent, else of anybody. */
function elsewhereOf({ chance, agents }: World, { agent, backpack }: Key): string | null {
  const others = agent.backpacks.filter((one) => one !== backpack)
  const foreign = chance.pick(agents).backpacks.at(-1)
  const found = others.at(-1) ?? (foreign === backpack ? undefined : foreign)
  return found?.id ?? null
}

/** Everything that a key that is bound to a Backpack must never be allowed. */
const escapesOf = (world: World, key: Key): Asked[] => [
  ...aroundLimits(key.backpack?.id ?? '', elsewhereOf(world, key)),
  ...ofTheOwner(key),
]

/** The kind by which an answer is judged: every success is an escape. */
const tried = (key: Key, ask: Asked): Operation => withKey('escape', key, ask)

/** One way out, with any key that is bound to a Backpack. */
const escape: Maker = (world) => {
  const bound = boundKeys(world)
  if (bound.length === 0) return null
  const key = world.chance.pick(bound)
  return tried(key, world.chance.pick(escapesOf(world, key)))
}

const LISTS = ['/api/calls', '/api/tasks', '/api/backpacks', '/api/task/schedules']

/** What a bound key is shown of its agent, which must all belong to its Backpack. */
const look: Maker = (world) => {
  const bound = boundKeys(world)
  if (bound.length === 0) return null
  return withKey('bound look', world.chance.pick(bound), get(world.chance.pick(LISTS)))
}

/** An agent whose onboarding also brings a key for the agent itself, which then tries every way out. */
const onboardBound: Maker = (world) => {
  const { chance } = world
  const address = `198.51.100.${chance.whole(1, 250)}`
  const perDay = chance.pick([0.01, 0.02, 0.06])
  const terms = { tools: PERMITTED, fuse: { per_day_usdc: perDay }, expiry_days: 30 }
  const json = { name: `bound-${world.next()}`, agent_key: terms }
  return {
    kind: 'onboard bound',
    who: `newcomer ${world.next()}`,
    by: null,
    ask: { ...post('/api/onboard', json), address },
    learn: ({ status, body }) => {
      if (status !== 201) return
      const agent = addAgent(world, body, address)
      const backpack = { id: String(body['backpack_id']), agent, perDay, faceValue: 0 }
      agent.backpacks.push(backpack)
      const secret = String(body['agent_key'])
      const listed = (reply: Reply) => learnBound(world, { agent, backpack, secret }, reply)
      world.followUps.push(withKey('list keys', mainKey(agent), get(KEYS), listed))
    },
  }
}

interface Given {
  readonly agent: Agent
  readonly backpack: Backpack
  readonly secret: string
}

/** Its owner's list names the id of the key; the key itself is never told it. */
function learnBound(world: World, { agent, backpack, secret }: Given, { body }: Reply): void {
  const listed = body['keys'] as readonly { id: string; backpack_id: string | null }[]
  const found = listed.find((one) => one.backpack_id === backpack.id)
  if (found === undefined) throw new Error(`the owner's list lacks the key of ${backpack.id}`)
  const scopes = ['tools', 'read', 'tasks', 'backpacks', 'funds']
  const key = { id: found.id, secret, agent, scopes, cap: null, backpack, revoked: false }
  agent.keys.push(key)
  world.followUps.push(...ofAnother(world, key))
}

/** What the owner does outside the Backpack, and the key then tries to use; then every other way out. */
function ofAnother(world: World, key: Key): Operation[] {
  const owner = mainKey(key.agent)
  const then = (asks: (reply: Reply) => readonly Asked[]) => (reply: Reply) => {
    if (reply.status < 300) world.followUps.push(...asks(reply).map((ask) => tried(key, ask)))
  }
  const repeated = [post(KEYS, { scopes: ['*'] }), post('/api/refuel', CALL), EXPORT].map((ask) => {
    const named = { ...ask, headers: { 'idempotency-key': randomUUID() } }
    return withKey(
      'repeatable',
      owner,
      named,
      then(() => [named]),
    )
  })
  const task = post('/api/task/start', { name: 'of the owner', budget_usdc: 0.2 })
  const plan = post('/api/task/schedule', { name: 'of the owner', interval: '1d', ...CALL })
  const free = post('/api/backpack/create', { agent_name: 'free' })
  return [
    ...repeated,
    withKey(
      'task',
      owner,
      task,
      then(({ body }) => withTask(String(body['task_id']))),
    ),
    withKey(
      'schedule',
      owner,
      plan,
      then(({ body }) => withPlan(String(body['schedule_id']))),
    ),
    withKey('backpack', owner, free, (reply) => {
      const id = reply.body['backpack_id']
      if (typeof id === 'string')
        key.agent.backpacks.push({ id, agent: key.agent, perDay: null, faceValue: 0 })
      world.followUps.push(...escapesOf(world, key).map((ask) => tried(key, ask)))
    }),
  ]
}

const EXPORT = post('/api/wallet/export', { confirm: true })

const withTask = (id: string): Asked[] => [
  post('/api/refuel', CALL, { 'x-task-id': id }),
  post('/api/task/end', { task_id: id }),
  { method: 'PATCH', path: `/api/task/${id}/budget`, json: { budget_usdc: 0.5 } },
  get(`/api/task/${id}`),
  socketFrame({ ...CALL, task_id: id }),
]

const withPlan = (id: string): Asked[] => [
  get(`/api/task/schedule/${id}`),
  { method: 'PATCH', path: `/api/task/schedule/${id}`, json: { enabled: true } },
  remove(`/api/task/schedule/${id}`),
]

/** Keys that are bound to a Backpack, and every way out of it. */
export const escapeMakers: Readonly<Record<string, Maker>> = { escape, look, onboardBound }
