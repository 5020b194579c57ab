import { setTimeout as sleep } from 'node:timers/promises'
import {
  apiKeyHeader,
  expectSuccessReply,
  onboardAgents,
  CHAOS_PAID_TOOL_REQUEST_BODY,
  CHAOS_PAID_TOOL_PRICE_USDC,
  type AgentIdAndApiKey,
  type StationHttpClient,
} from '../station-http-client.ts'
import type { SeededRandom } from '../seeded-random.ts'
import { CLUSTER_STARTER_USDC, type ClusterEnvironment } from './start-three-station-cluster.ts'
import {
  createAgentRequestsByOperationKind,
  createRetriedAgentRequest,
  sendAgentRequestAttempt,
  type AgentRequestWithAllowedErrors,
  type ChaosAgentOperationKind,
  type RetriedAgentRequest,
} from '../chaos-agent-operations-with-retries.ts'

/** A spend limit and the calls made under it. */
export interface SpendLimitCase {
  readonly kind: 'task' | 'pack' | 'poor'
  readonly agent: AgentIdAndApiKey
  readonly request: AgentRequestWithAllowedErrors
  /** Micro-USDC. */
  readonly maxMicros: number
}

/** The agents of a round and their limits. */
export interface ClusterRoundAgents {
  readonly agents: readonly AgentIdAndApiKey[]
  readonly limits: readonly SpendLimitCase[]
  /** Posted by the first agent, for the others. */
  readonly bounties: readonly string[]
}

export const CLUSTER_PROOF_SIGNAL_CHANNEL = 'prove:cluster'
const AGENTS = 6
const BOUNTIES = 4
/** The unit price of all calls. */
export const CHAOS_PAID_TOOL_PRICE_MICROS = Math.round(CHAOS_PAID_TOOL_PRICE_USDC * 1_000_000)
const CLIENTS = 14
/** Clients that bypass nginx and use each node in turn: the worst case of routing. */
const DIRECT_CLIENTS = 4
const THINK_TIME_MS = { least: 10, most: 70 }
const RETRY_PAUSE_MS = 50
const RETRY_TIMEOUT_MS = 90_000

const OPERATION_MIX: readonly ChaosAgentOperationKind[] = [
  ...Array<ChaosAgentOperationKind>(5).fill('call'),
  ...Array<ChaosAgentOperationKind>(2).fill('ping'),
  ...Array<ChaosAgentOperationKind>(2).fill('send'),
  ...Array<ChaosAgentOperationKind>(1).fill('tip'),
  ...Array<ChaosAgentOperationKind>(3).fill('task'),
  ...Array<ChaosAgentOperationKind>(3).fill('pack'),
  ...Array<ChaosAgentOperationKind>(2).fill('poor'),
  ...Array<ChaosAgentOperationKind>(3).fill('publish'),
  ...Array<ChaosAgentOperationKind>(1).fill('claim'),
]

const call = (headers: Record<string, string>, refusal: string): AgentRequestWithAllowedErrors => ({
  path: '/api/refuel',
  body: CHAOS_PAID_TOOL_REQUEST_BODY,
  headers,
  allowed: [refusal],
})

/** Creates agents, a task, a Backpack, an agent with a small balance, and bounties. */
export async function createRoundAgents({
  client,
  chance,
  receiver,
}: ClusterEnvironment): Promise<ClusterRoundAgents> {
  const [poor, ...agents] = (await onboardAgents(client, AGENTS + 1)) as [
    AgentIdAndApiKey,
    ...AgentIdAndApiKey[],
  ]
  const [first, second, third] = agents as [AgentIdAndApiKey, AgentIdAndApiKey, AgentIdAndApiKey]
  const post = (agent: AgentIdAndApiKey, path: string, body: object) =>
    expectSuccessReply(client.send('POST', path, apiKeyHeader(agent), body))
  const [ofTask, ofPack, ofPoor] = [1, 2, 3].map(() => chance.integer(5, 60)) as [
    number,
    number,
    number,
  ]
  const usdc = (calls: number) => (calls * CHAOS_PAID_TOOL_PRICE_MICROS) / 1_000_000
  const task = await post(first, '/api/task/start', { name: 'c', budget_usdc: usdc(ofTask) })
  const fuse = { per_day_usdc: usdc(ofPack) }
  const pack = await post(second, '/api/backpack/create', { agent_name: 'c', fuse })
  const surplus = Math.round((CLUSTER_STARTER_USDC - usdc(ofPoor)) * 1e6) / 1e6
  const gift = { to_agent_id: third.id, amount_usdc: surplus }
  const once = { ...apiKeyHeader(poor), 'idempotency-key': 'surplus' }
  await expectSuccessReply(client.send('POST', '/api/agent/send', once, gift))
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
  const limit = (
    kind: SpendLimitCase['kind'],
    agent: AgentIdAndApiKey,
    calls: number,
    request: AgentRequestWithAllowedErrors,
  ): SpendLimitCase => ({
    kind,
    agent,
    request,
    maxMicros: calls * CHAOS_PAID_TOOL_PRICE_MICROS,
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

function randomClusterOperation(
  { agents, limits, bounties }: ClusterRoundAgents,
  key: string,
  chance: SeededRandom,
): RetriedAgentRequest {
  const kind = chance.pick(OPERATION_MIX)
  const limit = limits.find((one) => one.kind === kind)
  if (limit !== undefined) return createRetriedAgentRequest(limit.agent, key, kind, limit.request)
  const at = chance.integer(kind === 'claim' ? 1 : 0, agents.length - 1)
  const agent = agents[at] as AgentIdAndApiKey
  const forms: Partial<Record<ChaosAgentOperationKind, AgentRequestWithAllowedErrors>> = {
    ...createAgentRequestsByOperationKind(agents[(at + 1) % agents.length] as AgentIdAndApiKey),
    publish: {
      path: '/api/signal/publish',
      body: { channel: CLUSTER_PROOF_SIGNAL_CHANNEL, type: 'insight', payload: { key } },
    },
    claim: {
      path: `/api/bounties/${chance.pick(bounties)}/claim`,
      body: { content: 'fuel' },
      allowed: ['already_claimed'],
    },
  }
  return createRetriedAgentRequest(agent, key, kind, forms[kind] as AgentRequestWithAllowedErrors)
}

export interface RunningClientLoad {
  readonly operations: readonly RetriedAgentRequest[]
  /** Resolves when every started request has its reply. */
  stop(): Promise<void>
  /** Time of the slowest request from the first attempt to the reply. */
  slowestMs(): number
}

/** Starts clients that retry with the same key until a reply arrives. */
export function startClientLoad(
  ground: ClusterEnvironment,
  cast: ClusterRoundAgents,
  name: string,
): RunningClientLoad {
  const { chance, client, direct } = ground
  const operations: RetriedAgentRequest[] = []
  let stopping = false
  let slowest = 0
  const run = async (next: () => StationHttpClient): Promise<void> => {
    while (!stopping) {
      const one = randomClusterOperation(cast, `${name}-${operations.length}`, chance)
      operations.push(one)
      await retryOverClients(next, one)
      slowest = Math.max(slowest, performance.now() - one.startedAt)
      await sleep(chance.integer(THINK_TIME_MS.least, THINK_TIME_MS.most))
    }
  }
  const running = Promise.all([
    ...Array.from({ length: CLIENTS }, () => run(() => client)),
    ...Array.from({ length: DIRECT_CLIENTS }, () => run(() => chance.pick(direct))),
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

async function retryOverClients(
  next: () => StationHttpClient,
  one: RetriedAgentRequest,
): Promise<void> {
  const until = performance.now() + RETRY_TIMEOUT_MS
  while (performance.now() < until) {
    await sendAgentRequestAttempt(next(), one)
    if ((one.acknowledged ?? one.limited ?? one.refused) !== null) return
    await sleep(RETRY_PAUSE_MS)
  }
}
