import { setTimeout as sleep } from 'node:timers/promises'
import { as, must, onboard, PAID, PRICE, type Agent, type Client } from './agents.ts'
import type { Chance } from './chance.ts'
import { STARTER_USDC, type Ground } from './cluster-ground.ts'
import { formsTo, operation, send, type Form, type Kind, type Operation } from './operations.ts'

/** A limit that calls stand under: what it lets through, and what it was asked. */
export interface Limit {
  readonly kind: 'task' | 'pack' | 'poor'
  readonly agent: Agent
  readonly form: Form
  /** Micro-USDC. */
  readonly most: number
}

/** The agents of a round, and what limits them. */
export interface Cast {
  readonly agents: readonly Agent[]
  readonly limits: readonly Limit[]
  /** Posted by the first agent, for the others. */
  readonly bounties: readonly string[]
}

export const CHANNEL = 'prove:cluster'
const AGENTS = 6
const BOUNTIES = 4
/** What the prices of calls are counted in. */
export const PRICE_MICROS = Math.round(PRICE * 1_000_000)
const CLIENTS = 14
/** Go past nginx, each time to another node: a route that is wrong as often as it can be. */
const STRAYS = 4
const THINKING_MS = { least: 10, most: 70 }
const PAUSE_MS = 50
const PATIENCE_MS = 90_000

const MIX: readonly Kind[] = [
  ...Array<Kind>(5).fill('call'),
  ...Array<Kind>(2).fill('ping'),
  ...Array<Kind>(2).fill('send'),
  ...Array<Kind>(1).fill('tip'),
  ...Array<Kind>(3).fill('task'),
  ...Array<Kind>(3).fill('pack'),
  ...Array<Kind>(2).fill('poor'),
  ...Array<Kind>(3).fill('publish'),
  ...Array<Kind>(1).fill('claim'),
]

const call = (headers: Record<string, string>, refusal: string): Form => ({
  path: '/api/refuel',
  body: PAID,
  headers,
  allowed: [refusal],
})

/** New agents, a task, a Backpack, an agent with little money, and bounties. */
export async function newCast({ client, chance, receiver }: Ground): Promise<Cast> {
  const [poor, ...agents] = (await onboard(client, AGENTS + 1)) as [Agent, ...Agent[]]
  const [first, second, third] = agents as [Agent, Agent, Agent]
  const post = (agent: Agent, path: string, body: object) =>
    must(client.send('POST', path, as(agent), body))
  const [ofTask, ofPack, ofPoor] = [1, 2, 3].map(() => chance.whole(5, 60)) as [
    number,
    number,
    number,
  ]
  const usdc = (calls: number) => (calls * PRICE_MICROS) / 1_000_000
  const task = await post(first, '/api/task/start', { name: 'c', budget_usdc: usdc(ofTask) })
  const fuse = { per_day_usdc: usdc(ofPack) }
  const pack = await post(second, '/api/backpack/create', { agent_name: 'c', fuse })
  const surplus = Math.round((STARTER_USDC - usdc(ofPoor)) * 1e6) / 1e6
  const gift = { to_agent_id: third.id, amount_usdc: surplus }
  const once = { ...as(poor), 'idempotency-key': 'surplus' }
  await must(client.send('POST', '/api/agent/send', once, gift))
  for (const agent of [first, second])
    await post(agent, '/api/webhook/register', {
      url: receiver.url,
      events: ['tool_call', 'topup'],
    })
  const bounty = { title: 'c', description: 'c', domain: 'base', required_keywords: ['fuel'] }
  const posted = Array.from({ length: BOUNTIES }, () =>
    post(first, '/api/bounties', { ...bounty, reward_usdc: 0.05 }),
  )
  const [taskId, packId] = [String(task['task_id']), String(pack['backpack_id'])]
  const limit = (kind: Limit['kind'], agent: Agent, calls: number, form: Form): Limit => ({
    kind,
    agent,
    form,
    most: calls * PRICE_MICROS,
  })
  return {
    agents,
    limits: [
      limit('task', first, ofTask, call({ 'x-task-id': taskId }, 'task_budget_exceeded')),
      limit('pack', second, ofPack, call({ 'x-backpack-id': packId }, 'FUSE_TRIPPED')),
      limit('poor', poor, ofPoor, call({}, 'payment_required')),
    ],
    bounties: (await Promise.all(posted)).map(({ bounty_id: id }) => String(id)),
  }
}

function newOperation({ agents, limits, bounties }: Cast, key: string, chance: Chance): Operation {
  const kind = chance.pick(MIX)
  const limit = limits.find((one) => one.kind === kind)
  if (limit !== undefined) return operation(limit.agent, key, kind, limit.form)
  const at = chance.whole(kind === 'claim' ? 1 : 0, agents.length - 1)
  const agent = agents[at] as Agent
  const forms: Partial<Record<Kind, Form>> = {
    ...formsTo(agents[(at + 1) % agents.length] as Agent),
    publish: {
      path: '/api/signal/publish',
      body: { channel: CHANNEL, type: 'insight', payload: { key } },
    },
    claim: {
      path: `/api/bounties/${chance.pick(bounties)}/claim`,
      body: { content: 'fuel' },
      allowed: ['already_claimed'],
    },
  }
  return operation(agent, key, kind, forms[kind] as Form)
}

export interface Load {
  readonly operations: readonly Operation[]
  /** Resolves when everything that was begun has its answer. */
  stop(): Promise<void>
  /** From the first try to the answer, of the slowest. */
  slowestMs(): number
}

/** Clients that do what careful ones do: they repeat under the same key until they are answered. */
export function underLoad(ground: Ground, cast: Cast, name: string): Load {
  const { chance, client, direct } = ground
  const operations: Operation[] = []
  let stopping = false
  let slowest = 0
  const run = async (next: () => Client): Promise<void> => {
    while (!stopping) {
      const one = newOperation(cast, `${name}-${operations.length}`, chance)
      operations.push(one)
      await insist(next, one)
      slowest = Math.max(slowest, performance.now() - one.startedAt)
      await sleep(chance.whole(THINKING_MS.least, THINKING_MS.most))
    }
  }
  const running = Promise.all([
    ...Array.from({ length: CLIENTS }, () => run(() => client)),
    ...Array.from({ length: STRAYS }, () => run(() => chance.pick(direct))),
  ])
  return {
    operations,
    slowestMs: () => slowest,
    async stop() {
      stopping = true
      await running
    },
  }
}

async function insist(next: () => Client, one: Operation): Promise<void> {
  const until = performance.now() + PATIENCE_MS
  while (performance.now() < until) {
    await send(next(), one)
    if ((one.acknowledged ?? one.limited ?? one.refused) !== null) return
    await sleep(PAUSE_MS)
  }
}
