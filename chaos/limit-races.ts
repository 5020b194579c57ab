import {
  apiKeyHeader,
  usdcToMicros,
  expectSuccessReply,
  onboardAgents,
  CHAOS_PAID_TOOL_REQUEST_BODY,
  CHAOS_PAID_TOOL_PRICE_USDC,
  type AgentIdAndApiKey,
  type StationReply,
  type StationHttpClient,
} from './station-http-client.ts'
import type { SeededRandom } from './seeded-random.ts'

/** The outcome of a race and its expected values. */
export interface LimitRaceResult {
  readonly name: string
  readonly nodes: number
  readonly asked: number
  readonly allowed: number
  readonly served: number
  /** Served beyond the limit. */
  readonly overserved: number
  /** Rejected below the limit, or for another reason than the limit. */
  readonly wronglyRejected: number
  /** Other violations. */
  readonly faults: readonly string[]
}

interface RaceContext {
  readonly clients: readonly StationHttpClient[]
  readonly chance: SeededRandom
  readonly starter: number
  /** Runs no further race after one for which it returns true. */
  readonly endsAfter?: ((race: LimitRaceResult) => boolean) | undefined
}

const RACERS = 64
/** A paid tool that costs more than a per-call fuse of two prices allows. */
const EXPENSIVE_CALL = { tool: 'swarm_broadcast', topic: 'race', message: 'too dear for this fuse' }

/** Races each limit once with a random size, concurrently over all stations. */
export async function runLimitRaces(course: RaceContext): Promise<LimitRaceResult[]> {
  const races: LimitRaceResult[] = []
  const runs = [balanceRace, taskRace, dayRace, monthRace, callRace, keyRace, sendRace]
  for (const run of [...runs, conservationRace]) {
    const race = await run(course)
    races.push(race)
    if (course.endsAfter?.(race) === true) break
  }
  return races
}

/** Sends all requests concurrently, spread over the stations. */
function sendAllAtOnce(
  { clients }: RaceContext,
  request: (client: StationHttpClient, at: number) => Promise<StationReply>,
  racers = RACERS,
): Promise<StationReply[]> {
  const turn = (at: number) => clients[at % clients.length] as StationHttpClient
  return Promise.all(Array.from({ length: racers }, (_, at) => request(turn(at), at)))
}

const firstClient = ({ clients }: RaceContext): StationHttpClient => clients[0] as StationHttpClient

async function onboardAgent(course: RaceContext): Promise<AgentIdAndApiKey> {
  const [agent] = await onboardAgents(firstClient(course), 1)
  return agent as AgentIdAndApiKey
}

const paidCall =
  (
    agent: AgentIdAndApiKey,
    headers: Record<string, string> = {},
    body: object = CHAOS_PAID_TOOL_REQUEST_BODY,
  ) =>
  (client: StationHttpClient): Promise<StationReply> =>
    client.send('POST', '/api/refuel', { ...apiKeyHeader(agent), ...headers }, body)

/** Calls at one price by turns: one command admits and charges the first, the next is held meanwhile. */
const mixedPaidCalls = (agent: AgentIdAndApiKey, headers: Record<string, string> = {}) => {
  const instant = paidCall(agent, headers)
  const held = paidCall(agent, headers, {
    tool: 'agent_ping',
    target_agent_id: agent.id,
    message: 'race',
  })
  return (client: StationHttpClient, at: number): Promise<StationReply> =>
    at % 3 === 0 ? held(client) : instant(client)
}

async function spendableMicros(course: RaceContext, agent: AgentIdAndApiKey): Promise<number> {
  const { balance_usdc } = await expectSuccessReply(
    firstClient(course).send('GET', '/api/credits/balance', apiKeyHeader(agent)),
  )
  return usdcToMicros(balance_usdc)
}

interface RaceExpectation {
  readonly name: string
  readonly allowed: number
  readonly refusal: string
  readonly faults: readonly string[]
}

function evaluateRace(
  { clients }: RaceContext,
  answers: readonly StationReply[],
  rule: RaceExpectation,
): LimitRaceResult {
  const { name, allowed, refusal, faults } = rule
  const served = answers.filter(({ status }) => status === 200).length
  const odd = answers.filter(({ status, code }) => status !== 200 && code !== refusal)
  return {
    name,
    nodes: clients.length,
    asked: answers.length,
    allowed,
    served,
    overserved: Math.max(0, served - allowed),
    wronglyRejected: Math.max(0, allowed - served, odd.length),
    faults: [...faults, ...new Set(odd.map(({ status, code }) => `answered ${status} ${code}`))],
  }
}

const faultUnless = (holds: boolean, fault: string): string[] => (holds ? [] : [fault])

/** Creates an agent with a balance for exactly `calls` calls; the rest goes to another agent. */
async function agentWithBalanceFor(course: RaceContext, calls: number): Promise<AgentIdAndApiKey> {
  const [agent, sink] = (await onboardAgents(firstClient(course), 2)) as [
    AgentIdAndApiKey,
    AgentIdAndApiKey,
  ]
  const surplus = usdcToMicros(course.starter) - calls * usdcToMicros(CHAOS_PAID_TOOL_PRICE_USDC)
  const gift = { to_agent_id: sink.id, amount_usdc: surplus / 1_000_000 }
  await expectSuccessReply(
    firstClient(course).send('POST', '/api/agent/send', apiKeyHeader(agent), gift),
  )
  return agent
}

async function balanceRace(course: RaceContext): Promise<LimitRaceResult> {
  const allowed = course.chance.integer(1, RACERS - 1)
  const agent = await agentWithBalanceFor(course, allowed)
  const answers = await sendAllAtOnce(course, mixedPaidCalls(agent))
  const left = await spendableMicros(course, agent)
  const unfunded = answers.filter(({ code, body }) => code !== '' && body['fund_url'] === undefined)
  const faults = [
    ...faultUnless(left === 0, `balance ends at ${left} micros`),
    ...faultUnless(unfunded.length === 0, `${unfunded.length} refusals without fund_url`),
  ]
  return evaluateRace(course, answers, {
    name: 'balance',
    allowed,
    refusal: 'payment_required',
    faults,
  })
}

async function taskRace(course: RaceContext): Promise<LimitRaceResult> {
  const allowed = course.chance.integer(1, RACERS - 1)
  const agent = await onboardAgent(course)
  const budget = {
    name: 'race',
    budget_usdc: (allowed * usdcToMicros(CHAOS_PAID_TOOL_PRICE_USDC)) / 1_000_000,
  }
  const started = await expectSuccessReply(
    firstClient(course).send('POST', '/api/task/start', apiKeyHeader(agent), budget),
  )
  const taskId = String(started['task_id'])
  const answers = await sendAllAtOnce(course, mixedPaidCalls(agent, { 'x-task-id': taskId }))
  const { spent_usdc, held_usdc } = await expectSuccessReply(
    firstClient(course).send('GET', `/api/task/${taskId}`, apiKeyHeader(agent)),
  )
  const faults = faultUnless(
    usdcToMicros(spent_usdc) === allowed * usdcToMicros(CHAOS_PAID_TOOL_PRICE_USDC) &&
      usdcToMicros(held_usdc) === 0,
    `task ends with ${String(spent_usdc)} spent and ${String(held_usdc)} held`,
  )
  return evaluateRace(course, answers, {
    name: 'task budget',
    allowed,
    refusal: 'task_budget_exceeded',
    faults,
  })
}

async function agentWithBackpack(
  course: RaceContext,
  fuse: object,
): Promise<{ agent: AgentIdAndApiKey; backpack: string }> {
  const agent = await onboardAgent(course)
  const asked = { agent_name: 'racer', fuse }
  const made = await expectSuccessReply(
    firstClient(course).send('POST', '/api/backpack/create', apiKeyHeader(agent), asked),
  )
  return { agent, backpack: String(made['backpack_id']) }
}

async function windowRace(
  course: RaceContext,
  name: string,
  limit: string,
): Promise<LimitRaceResult> {
  const allowed = course.chance.integer(1, RACERS - 1)
  const { agent, backpack } = await agentWithBackpack(course, {
    [limit]: (allowed * usdcToMicros(CHAOS_PAID_TOOL_PRICE_USDC)) / 1_000_000,
  })
  const before = await spendableMicros(course, agent)
  const answers = await sendAllAtOnce(course, mixedPaidCalls(agent, { 'x-backpack-id': backpack }))
  const charged = before - (await spendableMicros(course, agent))
  const told = await countFuseTrips(course, agent, backpack)
  const faults = [
    ...faultUnless(
      charged === allowed * usdcToMicros(CHAOS_PAID_TOOL_PRICE_USDC),
      `${charged} micros charged`,
    ),
    ...faultUnless(told === 1, `fuse.tripped told ${told} times`),
  ]
  return evaluateRace(course, answers, { name, allowed, refusal: 'FUSE_TRIPPED', faults })
}
const dayRace = (course: RaceContext) => windowRace(course, 'fuse per day', 'per_day_usdc')
const monthRace = (course: RaceContext) => windowRace(course, 'fuse per month', 'per_month_usdc')

async function callRace(course: RaceContext): Promise<LimitRaceResult> {
  const allowed = course.chance.integer(1, RACERS - 1)
  const { agent, backpack } = await agentWithBackpack(course, {
    per_call_usdc: 2 * CHAOS_PAID_TOOL_PRICE_USDC,
  })
  const headers = { 'x-backpack-id': backpack }
  const [cheap, dear] = [paidCall(agent, headers), paidCall(agent, headers, EXPENSIVE_CALL)]
  const answers = await sendAllAtOnce(course, (client, at) =>
    at < allowed ? cheap(client) : dear(client),
  )
  const told = await countFuseTrips(course, agent, backpack)
  const faults = faultUnless(told === 1, `fuse.tripped told ${told} times`)
  return evaluateRace(course, answers, {
    name: 'fuse per call',
    allowed,
    refusal: 'FUSE_TRIPPED',
    faults,
  })
}

async function countFuseTrips(
  course: RaceContext,
  agent: AgentIdAndApiKey,
  backpack: string,
): Promise<number> {
  const path = `/api/backpack/${backpack}/notifications?limit=200`
  const { notifications } = await expectSuccessReply(
    firstClient(course).send('GET', path, apiKeyHeader(agent)),
  )
  return (notifications as { type: string }[]).filter(({ type }) => type === 'fuse.tripped').length
}

/** Retries 409 while another station runs the request, as a client does; returns the last reply. */
async function retryWhileInFlight(request: () => Promise<StationReply>): Promise<StationReply> {
  let answer = await request()
  for (let left = 50; left > 0 && answer.code === 'idempotency_in_flight'; left--) {
    answer = await request()
  }
  return answer
}

async function duplicateRequestRace(
  course: RaceContext,
  name: string,
  agent: AgentIdAndApiKey,
  cost: number,
  request: (client: StationHttpClient) => Promise<StationReply>,
): Promise<LimitRaceResult> {
  const before = await spendableMicros(course, agent)
  const answers = await sendAllAtOnce(course, (client) => retryWhileInFlight(() => request(client)))
  const charges = (before - (await spendableMicros(course, agent))) / cost
  const kinds = new Set(answers.map(({ body }) => JSON.stringify(body))).size
  const faults = faultUnless(kinds === 1, `${kinds} different answers`)
  const judged = evaluateRace(course, answers, { name, allowed: RACERS, refusal: '', faults })
  return { ...judged, allowed: 1, served: charges, overserved: Math.max(0, charges - 1) }
}

async function keyRace(course: RaceContext): Promise<LimitRaceResult> {
  const agent = await onboardAgent(course)
  const request = paidCall(agent, { 'idempotency-key': 'one-call' })
  return duplicateRequestRace(
    course,
    'one key, 64 equal calls',
    agent,
    usdcToMicros(CHAOS_PAID_TOOL_PRICE_USDC),
    request,
  )
}

async function sendRace(course: RaceContext): Promise<LimitRaceResult> {
  const [agent, friend] = (await onboardAgents(firstClient(course), 2)) as [
    AgentIdAndApiKey,
    AgentIdAndApiKey,
  ]
  const body = { to_agent_id: friend.id, amount_usdc: 0.01 }
  const headers = { ...apiKeyHeader(agent), 'idempotency-key': 'one-transfer' }
  return duplicateRequestRace(course, 'one key, 64 equal transfers', agent, 10_000, (client) =>
    client.send('POST', '/api/agent/send', headers, body),
  )
}

/** Agents send, tip and call concurrently: debits must equal credits. */
async function conservationRace(course: RaceContext): Promise<LimitRaceResult> {
  const agents = await onboardAgents(firstClient(course), 8)
  const moves = Array.from({ length: 4 * RACERS }, () => ({
    from: course.chance.pick(agents),
    to: course.chance.pick(agents),
    kind: course.chance.pick(['send', 'tip', 'call']),
    cents: course.chance.integer(1, 3),
  })).filter(({ from, to }) => from !== to)
  let [fees, spent] = [0, 0]
  const answers = await sendAllAtOnce(
    course,
    async (client, at) => {
      const { from, to, kind, cents } = moves[at] as (typeof moves)[number]
      if (kind === 'call') return paidCall(from)(client)
      const path = kind === 'send' ? '/api/agent/send' : '/api/tip'
      return client.send('POST', path, apiKeyHeader(from), {
        to_agent_id: to.id,
        amount_usdc: cents / 100,
      })
    },
    moves.length,
  )
  answers.forEach(({ status, body }, at) => {
    if (status !== 200) return
    if (moves[at]?.kind === 'call') spent += usdcToMicros(CHAOS_PAID_TOOL_PRICE_USDC)
    else fees += usdcToMicros(body['fee_usdc'])
  })
  const balances = await Promise.all(agents.map((agent) => spendableMicros(course, agent)))
  const drift =
    agents.length * usdcToMicros(course.starter) - fees - spent - balances.reduce((a, b) => a + b)
  const poor = answers.filter(({ code }) => code === 'payment_required').length
  const faults = [
    ...faultUnless(drift === 0, `${drift} micros drifted`),
    ...faultUnless(
      balances.every((balance) => balance >= 0),
      'a balance is negative',
    ),
  ]
  const name = 'bank: transfers, tips, calls'
  const judged = evaluateRace(course, answers, {
    name,
    allowed: answers.length - poor,
    refusal: 'payment_required',
    faults,
  })
  return { ...judged, overserved: drift < 0 ? 1 : 0 }
}
