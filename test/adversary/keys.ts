import { randomUUID } from 'node:crypto'
import type { Reply } from './client.ts'
import {
  boundKeys,
  mainKey,
  PERMITTED,
  post,
  socketFrame,
  someKey,
  withKey,
  type Agent,
  type Backpack,
  type Key,
  type Maker,
  type World,
} from './world.ts'

const KEYS = '/api/keys'

const agentOf = ({ chance, agents }: World) => chance.pick(agents)

/** A key that an answer has brought. */
function learnKey(agent: Agent, { status, body }: Reply, backpack: Backpack | null): Key | null {
  if (status >= 300) return null
  const [id, secret, scopes, cap] = [body['id'], body['api_key'], body['scopes'], body['cap_usdc']]
  const key: Key = {
    id: String(id),
    secret: String(secret),
    agent,
    scopes: scopes as string[],
    cap: typeof cap === 'number' ? cap : null,
    backpack,
    revoked: false,
  }
  agent.keys.push(key)
  return key
}

const CALL = { tool: 'hive_trending' }

const KINDS_OF_KEYS = [
  { scopes: ['keys'] },
  { scopes: ['tools', 'read'] },
  { scopes: ['*'], cap_usdc: 0.001 },
  { scopes: ['*'], cap_usdc: 0.02 },
  { scopes: ['tools'], cap_usdc: 0.05 },
  { scopes: ['*'] },
]

/** A narrow or capped key, or a wide one that a narrow one asks for. */
const createKey: Maker = (world) => {
  const agent = agentOf(world)
  const json = world.chance.pick(KINDS_OF_KEYS)
  const asking = someKey(world, agent)
  return withKey('create key', asking, post(KEYS, json), (reply) => {
    if (agent.keys.length < 12) learnKey(agent, reply, null)
  })
}

/** A wide key is made or rotated with an Idempotency-Key; then narrow ones send the same. */
const rotateAndReplay: Maker = (world) => {
  const agent = agentOf(world)
  const name = world.chance.whole(1, 2) === 1 ? randomUUID() : `rotate-${world.next()}`
  const headers = { 'idempotency-key': name }
  const [path, json] = world.chance.pick([
    ['/api/keys/rotate', {}],
    [KEYS, { scopes: ['*'] }],
  ] as const)
  const ask = post(path, json, headers)
  return withKey('rotate', mainKey(agent), ask, ({ status }) => {
    if (status >= 300) return
    for (const key of agent.keys.filter((one) => one !== mainKey(agent) && !one.revoked))
      world.followUps.push(withKey('replay rotate', key, ask))
  })
}

const revokeKey: Maker = (world) => {
  const agent = agentOf(world)
  const key = agent.keys.find((one) => one !== mainKey(agent) && !one.revoked)
  if (key === undefined || agent.keys.length < 5) return null
  const ask = { method: 'DELETE', path: `${KEYS}/${key.id}` } as const
  return withKey('revoke key', mainKey(agent), ask, ({ status }) => {
    if (status === 200) key.revoked = true
  })
}

/** A key that makes a schedule, and is revoked before it runs. */
const orphanSchedule: Maker = (world) => {
  const agent = agentOf(world)
  return withKey('thief key', mainKey(agent), post(KEYS, { scopes: ['*'] }), (reply) => {
    if (reply.status >= 300) return
    const { id, api_key: secret } = reply.body
    const common = { id: String(id), secret: String(secret), agent, scopes: ['*'] }
    const key: Key = { ...common, cap: null, backpack: null, revoked: false }
    const json = { name: 'thief', interval: '5m', tool: 'hive_trending' }
    const made = withKey('schedule', key, post('/api/task/schedule', json), ({ status, body }) => {
      if (status >= 300) return
      const scheduleId = String(body['schedule_id'])
      const ask = { method: 'DELETE', path: `${KEYS}/${key.id}` } as const
      const end = withKey('revoke key', mainKey(agent), ask, ({ status: ended }) => {
        if (ended === 200) world.orphaned.push({ scheduleId, keyId: key.id })
      })
      world.followUps.push(end)
    })
    world.followUps.push(made)
  })
}

const schedule: Maker = (world) => {
  const key = someKey(world, agentOf(world))
  const json = { name: `runs ${world.next()}`, interval: '5m', tool: 'hive_trending' }
  return withKey('schedule', key, post('/api/task/schedule', json))
}

const startTask: Maker = (world) => {
  const agent = agentOf(world)
  const json = { name: 'task', budget_usdc: world.chance.pick([0.01, 0.05, 0.2]) }
  return withKey('task', someKey(world, agent), post('/api/task/start', json), ({ body }) => {
    if (typeof body['task_id'] === 'string') agent.tasks.push(body['task_id'])
  })
}

const changeTask: Maker = (world) => {
  const agent = agentOf(world)
  const task = agent.tasks.at(-1)
  if (task === undefined) return null
  const key = someKey(world, agent)
  if (world.chance.whole(1, 3) === 1)
    return withKey('end task', key, post('/api/task/end', { task_id: task }))
  const path = `/api/task/${task}/budget`
  return withKey('task budget', key, { method: 'PATCH', path, json: { budget_usdc: 0.1 } })
}

/** A Backpack with a fuse, and a key that must stay inside it. */
const createBackpack: Maker = (world) => {
  const agent = agentOf(world)
  const perDay = world.chance.pick([0.01, 0.02, 0.06])
  const allowed = world.chance.whole(1, 4) === 1 ? {} : { tools: PERMITTED }
  const json = { agent_name: 'worker', fuse: { per_day_usdc: perDay }, ...allowed }
  return withKey('backpack', mainKey(agent), post('/api/backpack/create', json), ({ body }) => {
    if (typeof body['backpack_id'] !== 'string') return
    const backpack = { id: body['backpack_id'], agent, perDay, faceValue: 0 }
    agent.backpacks.push(backpack)
    const bound = post(KEYS, { backpack_id: backpack.id })
    world.followUps.push(
      withKey('bind key', mainKey(agent), bound, (reply) => learnKey(agent, reply, backpack)),
    )
  })
}

/** Value leaves a Backpack at face value: calls, sends, tips and bounties of its bound keys. */
const spendBound: Maker = (world) => {
  const { chance } = world
  const bound = boundKeys(world)
  if (bound.length === 0) return null
  const key = chance.pick(bound)
  const backpack = key.backpack as Backpack
  const friend = chance.pick(world.agents.filter((one) => one !== key.agent))
  const gift = { to_agent_id: friend.id, amount_usdc: 0.01 }
  const about = { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.05, ttl_hours: 1 }
  const [usdc, ask] = chance.pick([
    [0.01, post('/api/agent/send', gift)],
    [0.01, post('/api/tip', gift)],
    [0.05, post('/api/bounties', about)],
    [0, post('/api/refuel', CALL)],
    [0, post('/api/t/hive-trending')],
    [0, post('/api/signal/publish', { channel: 'x', type: 'ping', payload: {} })],
    [0, post('/api/packs/install', { slug: 'focus-stack' })],
    [0, post('/api/pipeline', { calls: [CALL, CALL] })],
    [0, post('/api/task/schedule', { name: 'bound', interval: '5m', ...CALL })],
    [0, socketFrame(CALL)],
  ] as const)
  return withKey('bound spend', key, ask, ({ status }) => {
    if (status < 300) backpack.faceValue += usdc
  })
}

/** Keys, the limits of keys, and what lives on after a key. */
export const keyMakers: Readonly<Record<string, Maker>> = {
  createKey,
  rotateAndReplay,
  revokeKey,
  orphanSchedule,
  schedule,
  startTask,
  changeTask,
  createBackpack,
  spendBound,
}
