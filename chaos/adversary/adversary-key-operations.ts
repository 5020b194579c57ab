import { randomUUID } from 'node:crypto'
import type { StationReplyToAdversary } from './adversary-http-client.ts'
import {
  listUsableAdversaryKeysWithBackpack,
  mainKeyOfAdversaryAgent,
  ADVERSARY_BACKPACK_TOOLS,
  adversaryPostRequest,
  adversarySocketCallRequest,
  pickUsableAdversaryKey,
  adversaryOperationWithKey,
  type AdversaryAgent,
  type AdversaryBackpack,
  type AdversaryKey,
  type AdversaryOperationGenerator,
  type AdversaryState,
} from './adversary-state.ts'

/** Operations on keys, key limits, and what outlives a key. */

const KEYS = '/api/keys'

const agentOf = ({ chance, agents }: AdversaryState) => chance.pick(agents)

/** Records a key from a reply. */
function learnKey(
  agent: AdversaryAgent,
  { status, body }: StationReplyToAdversary,
  backpack: AdversaryBackpack | null,
): AdversaryKey | null {
  if (status >= 300) return null
  const [id, secret, scopes, cap] = [body['id'], body['api_key'], body['scopes'], body['cap_usdc']]
  const key: AdversaryKey = {
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

const KEY_VARIANTS = [
  { scopes: ['keys'] },
  { scopes: ['tools', 'read'] },
  { scopes: ['*'], cap_usdc: 0.001 },
  { scopes: ['*'], cap_usdc: 0.02 },
  { scopes: ['tools'], cap_usdc: 0.05 },
  { scopes: ['*'] },
]

/** Creates a narrow or capped key, or asks for a wide key with a narrow one. */
const createKey: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const json = world.chance.pick(KEY_VARIANTS)
  const asking = pickUsableAdversaryKey(world, agent)
  return adversaryOperationWithKey(
    'create key',
    asking,
    adversaryPostRequest(KEYS, json),
    (reply) => {
      if (agent.keys.length < 12) learnKey(agent, reply, null)
    },
  )
}

/** Creates or rotates a wide key with an Idempotency-Key; then narrow keys repeat the request. */
const rotateAndReplay: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const name = world.chance.integer(1, 2) === 1 ? randomUUID() : `rotate-${world.nextNumber()}`
  const headers = { 'idempotency-key': name }
  const [path, json] = world.chance.pick([
    ['/api/keys/rotate', {}],
    [KEYS, { scopes: ['*'] }],
  ] as const)
  const ask = adversaryPostRequest(path, json, headers)
  return adversaryOperationWithKey('rotate', mainKeyOfAdversaryAgent(agent), ask, ({ status }) => {
    if (status >= 300) return
    for (const key of agent.keys.filter(
      (one) => one !== mainKeyOfAdversaryAgent(agent) && !one.revoked,
    ))
      world.followUps.push(adversaryOperationWithKey('replay rotate', key, ask))
  })
}

const revokeKey: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const key = agent.keys.find((one) => one !== mainKeyOfAdversaryAgent(agent) && !one.revoked)
  if (key === undefined || agent.keys.length < 5) return null
  const ask = { method: 'DELETE', path: `${KEYS}/${key.id}` } as const
  return adversaryOperationWithKey(
    'revoke key',
    mainKeyOfAdversaryAgent(agent),
    ask,
    ({ status }) => {
      if (status === 200) key.revoked = true
    },
  )
}

/** A key creates a schedule and is revoked before the schedule runs. */
const orphanSchedule: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  return adversaryOperationWithKey(
    'thief key',
    mainKeyOfAdversaryAgent(agent),
    adversaryPostRequest(KEYS, { scopes: ['*'] }),
    (reply) => {
      if (reply.status >= 300) return
      const { id, api_key: secret } = reply.body
      const common = { id: String(id), secret: String(secret), agent, scopes: ['*'] }
      const key: AdversaryKey = { ...common, cap: null, backpack: null, revoked: false }
      const json = { name: 'thief', interval: '5m', tool: 'hive_trending' }
      const made = adversaryOperationWithKey(
        'schedule',
        key,
        adversaryPostRequest('/api/task/schedule', json),
        ({ status, body }) => {
          if (status >= 300) return
          const scheduleId = String(body['schedule_id'])
          const ask = { method: 'DELETE', path: `${KEYS}/${key.id}` } as const
          const end = adversaryOperationWithKey(
            'revoke key',
            mainKeyOfAdversaryAgent(agent),
            ask,
            ({ status: ended }) => {
              if (ended === 200) world.orphanedSchedules.push({ scheduleId, keyId: key.id })
            },
          )
          world.followUps.push(end)
        },
      )
      world.followUps.push(made)
    },
  )
}

const schedule: AdversaryOperationGenerator = (world) => {
  const key = pickUsableAdversaryKey(world, agentOf(world))
  const json = { name: `runs ${world.nextNumber()}`, interval: '5m', tool: 'hive_trending' }
  return adversaryOperationWithKey(
    'schedule',
    key,
    adversaryPostRequest('/api/task/schedule', json),
  )
}

const startTask: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const json = { name: 'task', budget_usdc: world.chance.pick([0.01, 0.05, 0.2]) }
  return adversaryOperationWithKey(
    'task',
    pickUsableAdversaryKey(world, agent),
    adversaryPostRequest('/api/task/start', json),
    ({ body }) => {
      if (typeof body['task_id'] === 'string') agent.tasks.push(body['task_id'])
    },
  )
}

const changeTask: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const task = agent.tasks.at(-1)
  if (task === undefined) return null
  const key = pickUsableAdversaryKey(world, agent)
  if (world.chance.integer(1, 3) === 1)
    return adversaryOperationWithKey(
      'end task',
      key,
      adversaryPostRequest('/api/task/end', { task_id: task }),
    )
  const path = `/api/task/${task}/budget`
  return adversaryOperationWithKey('task budget', key, {
    method: 'PATCH',
    path,
    json: { budget_usdc: 0.1 },
  })
}

/** Creates a Backpack with a fuse and a key bound to it. */
const createBackpack: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const perDay = world.chance.pick([0.01, 0.02, 0.06])
  const allowed = world.chance.integer(1, 4) === 1 ? {} : { tools: ADVERSARY_BACKPACK_TOOLS }
  const json = { agent_name: 'worker', fuse: { per_day_usdc: perDay }, ...allowed }
  return adversaryOperationWithKey(
    'backpack',
    mainKeyOfAdversaryAgent(agent),
    adversaryPostRequest('/api/backpack/create', json),
    ({ body }) => {
      if (typeof body['backpack_id'] !== 'string') return
      const backpack = { id: body['backpack_id'], agent, perDay, faceValue: 0 }
      agent.backpacks.push(backpack)
      const bound = adversaryPostRequest(KEYS, { backpack_id: backpack.id })
      world.followUps.push(
        adversaryOperationWithKey('bind key', mainKeyOfAdversaryAgent(agent), bound, (reply) =>
          learnKey(agent, reply, backpack),
        ),
      )
    },
  )
}

/** Spends from a Backpack at face value: calls, sends, tips and bounties of its bound keys. */
const spendBound: AdversaryOperationGenerator = (world) => {
  const { chance } = world
  const bound = listUsableAdversaryKeysWithBackpack(world)
  if (bound.length === 0) return null
  const key = chance.pick(bound)
  const backpack = key.backpack as AdversaryBackpack
  const friend = chance.pick(world.agents.filter((one) => one !== key.agent))
  const gift = { to_agent_id: friend.id, amount_usdc: 0.01 }
  const about = { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.05, ttl_hours: 1 }
  const [usdc, ask] = chance.pick([
    [0.01, adversaryPostRequest('/api/agent/send', gift)],
    [0.01, adversaryPostRequest('/api/tip', gift)],
    [0.05, adversaryPostRequest('/api/bounties', about)],
    [0, adversaryPostRequest('/api/refuel', CALL)],
    [0, adversaryPostRequest('/api/t/hive-trending')],
    [0, adversaryPostRequest('/api/signal/publish', { channel: 'x', type: 'ping', payload: {} })],
    [0, adversaryPostRequest('/api/packs/install', { slug: 'focus-stack' })],
    [0, adversaryPostRequest('/api/pipeline', { calls: [CALL, CALL] })],
    [0, adversaryPostRequest('/api/task/schedule', { name: 'bound', interval: '5m', ...CALL })],
    [0, adversarySocketCallRequest(CALL)],
  ] as const)
  return adversaryOperationWithKey('bound spend', key, ask, ({ status }) => {
    if (status < 300) backpack.faceValue += usdc
  })
}

/** Keys, their limits, and what outlives them. */
export const adversaryKeyOperationGenerators: Readonly<
  Record<string, AdversaryOperationGenerator>
> = {
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
