import {
  as,
  micro,
  must,
  onboard,
  PAID,
  PRICE,
  type Agent,
  type Answer,
  type Client,
} from './agents.ts'
import type { Chance } from './chance.ts'

/** What a race came to, against what it had to. */
export interface Race {
  readonly name: string
  readonly nodes: number
  readonly asked: number
  readonly allowed: number
  readonly served: number
  /** Served beyond what was allowed. */
  readonly over: number
  /** Not served although allowed, or refused for another reason than the limit. */
  readonly wrong: number
  /** What else was not as it must be. */
  readonly faults: readonly string[]
}

interface Course {
  readonly clients: readonly Client[]
  readonly chance: Chance
  readonly starter: number
}

const RACERS = 64
/** A paid tool that costs more than a fuse per call of two prices lets through. */
const DEAR = { tool: 'swarm_broadcast', topic: 'race', message: 'too dear for this fuse' }

/** Each limit once, at a random size, with all racers at once over all stations. */
export async function race(course: Course): Promise<Race[]> {
  const races: Race[] = []
  for (const run of [balanceRace, taskRace, dayRace, monthRace, callRace, keyRace, sendRace]) {
    races.push(await run(course))
  }
  races.push(await bank(course))
  return races
}

/** Sends all requests at once, by turns to each station. */
function volley(
  { clients }: Course,
  request: (client: Client, at: number) => Promise<Answer>,
  racers = RACERS,
): Promise<Answer[]> {
  const turn = (at: number) => clients[at % clients.length] as Client
  return Promise.all(Array.from({ length: racers }, (_, at) => request(turn(at), at)))
}

const firstOf = ({ clients }: Course): Client => clients[0] as Client

async function newcomer(course: Course): Promise<Agent> {
  const [agent] = await onboard(firstOf(course), 1)
  return agent as Agent
}

const pay =
  (agent: Agent, headers: Record<string, string> = {}, body: object = PAID) =>
  (client: Client): Promise<Answer> =>
    client.send('POST', '/api/refuel', { ...as(agent), ...headers }, body)

async function spendable(course: Course, agent: Agent): Promise<number> {
  const { balance_usdc } = await must(
    firstOf(course).send('GET', '/api/credits/balance', as(agent)),
  )
  return micro(balance_usdc)
}

interface Rule {
  readonly name: string
  readonly allowed: number
  readonly refusal: string
  readonly faults: readonly string[]
}

function judge({ clients }: Course, answers: readonly Answer[], rule: Rule): Race {
  const { name, allowed, refusal, faults } = rule
  const served = answers.filter(({ status }) => status === 200).length
  const odd = answers.filter(({ status, code }) => status !== 200 && code !== refusal)
  return {
    name,
    nodes: clients.length,
    asked: answers.length,
    allowed,
    served,
    over: Math.max(0, served - allowed),
    wrong: Math.max(0, allowed - served, odd.length),
    faults: [...faults, ...new Set(odd.map(({ status, code }) => `answered ${status} ${code}`))],
  }
}

const unless = (holds: boolean, fault: string): string[] => (holds ? [] : [fault])

/** An agent whose balance is exactly `calls` calls: the rest goes to another one. */
async function purseOf(course: Course, calls: number): Promise<Agent> {
  const [agent, sink] = (await onboard(firstOf(course), 2)) as [Agent, Agent]
  const surplus = micro(course.starter) - calls * micro(PRICE)
  const gift = { to_agent_id: sink.id, amount_usdc: surplus / 1_000_000 }
  await must(firstOf(course).send('POST', '/api/agent/send', as(agent), gift))
  return agent
}

async function balanceRace(course: Course): Promise<Race> {
  const allowed = course.chance.whole(1, RACERS - 1)
  const agent = await purseOf(course, allowed)
  const answers = await volley(course, pay(agent))
  const left = await spendable(course, agent)
  const unfunded = answers.filter(({ code, body }) => code !== '' && body['fund_url'] === undefined)
  const faults = [
    ...unless(left === 0, `balance ends at ${left} micros`),
    ...unless(unfunded.length === 0, `${unfunded.length} refusals without fund_url`),
  ]
  return judge(course, answers, { name: 'balance', allowed, refusal: 'payment_required', faults })
}

async function taskRace(course: Course): Promise<Race> {
  const allowed = course.chance.whole(1, RACERS - 1)
  const agent = await newcomer(course)
  const budget = { name: 'race', budget_usdc: (allowed * micro(PRICE)) / 1_000_000 }
  const started = await must(firstOf(course).send('POST', '/api/task/start', as(agent), budget))
  const taskId = String(started['task_id'])
  const answers = await volley(course, pay(agent, { 'x-task-id': taskId }))
  const { spent_usdc, held_usdc } = await must(
    firstOf(course).send('GET', `/api/task/${taskId}`, as(agent)),
  )
  const faults = unless(
    micro(spent_usdc) === allowed * micro(PRICE) && micro(held_usdc) === 0,
    `task ends with ${String(spent_usdc)} spent and ${String(held_usdc)} held`,
  )
  return judge(course, answers, {
    name: 'task budget',
    allowed,
    refusal: 'task_budget_exceeded',
    faults,
  })
}

async function packed(course: Course, fuse: object): Promise<{ agent: Agent; backpack: string }> {
  const agent = await newcomer(course)
  const asked = { agent_name: 'racer', fuse }
  const made = await must(firstOf(course).send('POST', '/api/backpack/create', as(agent), asked))
  return { agent, backpack: String(made['backpack_id']) }
}

async function windowRace(course: Course, name: string, limit: string): Promise<Race> {
  const allowed = course.chance.whole(1, RACERS - 1)
  const { agent, backpack } = await packed(course, {
    [limit]: (allowed * micro(PRICE)) / 1_000_000,
  })
  const before = await spendable(course, agent)
  const answers = await volley(course, pay(agent, { 'x-backpack-id': backpack }))
  const charged = before - (await spendable(course, agent))
  const told = await tripsOf(course, agent, backpack)
  const faults = [
    ...unless(charged === allowed * micro(PRICE), `${charged} micros charged`),
    ...unless(told === 1, `fuse.tripped told ${told} times`),
  ]
  return judge(course, answers, { name, allowed, refusal: 'FUSE_TRIPPED', faults })
}
const dayRace = (course: Course) => windowRace(course, 'fuse per day', 'per_day_usdc')
const monthRace = (course: Course) => windowRace(course, 'fuse per month', 'per_month_usdc')

async function callRace(course: Course): Promise<Race> {
  const allowed = course.chance.whole(1, RACERS - 1)
  const { agent, backpack } = await packed(course, { per_call_usdc: 2 * PRICE })
  const headers = { 'x-backpack-id': backpack }
  const [cheap, dear] = [pay(agent, headers), pay(agent, headers, DEAR)]
  const answers = await volley(course, (client, at) =>
    at < allowed ? cheap(client) : dear(client),
  )
  const told = await tripsOf(course, agent, backpack)
  const faults = unless(told === 1, `fuse.tripped told ${told} times`)
  return judge(course, answers, { name: 'fuse per call', allowed, refusal: 'FUSE_TRIPPED', faults })
}

async function tripsOf(course: Course, agent: Agent, backpack: string): Promise<number> {
  const path = `/api/backpack/${backpack}/notifications?limit=200`
  const { notifications } = await must(firstOf(course).send('GET', path, as(agent)))
  return (notifications as { type: string }[]).filter(({ type }) => type === 'fuse.tripped').length
}

/** Repeats what another station still runs, as a client that was told 409 does; its last answer counts. */
async function insist(request: () => Promise<Answer>): Promise<Answer> {
  let answer = await request()
  for (let left = 50; left > 0 && answer.code === 'idempotency_in_flight'; left--) {
    answer = await request()
  }
  return answer
}

async function equalRace(
  course: Course,
  name: string,
  agent: Agent,
  cost: number,
  request: (client: Client) => Promise<Answer>,
): Promise<Race> {
  const before = await spendable(course, agent)
  const answers = await volley(course, (client) => insist(() => request(client)))
  const charges = (before - (await spendable(course, agent))) / cost
  const kinds = new Set(answers.map(({ body }) => JSON.stringify(body))).size
  const faults = unless(kinds === 1, `${kinds} different answers`)
  const judged = judge(course, answers, { name, allowed: RACERS, refusal: '', faults })
  return { ...judged, allowed: 1, served: charges, over: Math.max(0, charges - 1) }
}

async function keyRace(course: Course): Promise<Race> {
  const agent = await newcomer(course)
  const request = pay(agent, { 'idempotency-key': 'one-call' })
  return equalRace(course, 'one key, 64 equal calls', agent, micro(PRICE), request)
}

async function sendRace(course: Course): Promise<Race> {
  const [agent, friend] = (await onboard(firstOf(course), 2)) as [Agent, Agent]
  const body = { to_agent_id: friend.id, amount_usdc: 0.01 }
  const headers = { ...as(agent), 'idempotency-key': 'one-transfer' }
  return equalRace(course, 'one key, 64 equal transfers', agent, 10_000, (client) =>
    client.send('POST', '/api/agent/send', headers, body),
  )
}

/** Agents send, tip and call at once: what leaves one balance is exactly what arrives elsewhere. */
async function bank(course: Course): Promise<Race> {
  const agents = await onboard(firstOf(course), 8)
  const moves = Array.from({ length: 4 * RACERS }, () => ({
    from: course.chance.pick(agents),
    to: course.chance.pick(agents),
    kind: course.chance.pick(['send', 'tip', 'call']),
    cents: course.chance.whole(1, 3),
  })).filter(({ from, to }) => from !== to)
  let [fees, spent] = [0, 0]
  const answers = await volley(
    course,
    async (client, at) => {
      const { from, to, kind, cents } = moves[at] as (typeof moves)[number]
      if (kind === 'call') return pay(from)(client)
      const path = kind === 'send' ? '/api/agent/send' : '/api/tip'
      return client.send('POST', path, as(from), { to_agent_id: to.id, amount_usdc: cents / 100 })
    },
    moves.length,
  )
  answers.forEach(({ status, body }, at) => {
    if (status !== 200) return
    if (moves[at]?.kind === 'call') spent += micro(PRICE)
    else fees += micro(body['fee_usdc'])
  })
  const balances = await Promise.all(agents.map((agent) => spendable(course, agent)))
  const drift =
    agents.length * micro(course.starter) - fees - spent - balances.reduce((a, b) => a + b)
  const poor = answers.filter(({ code }) => code === 'payment_required').length
  const faults = [
    ...unless(drift === 0, `${drift} micros drifted`),
    ...unless(
      balances.every((balance) => balance >= 0),
      'a balance is negative',
    ),
  ]
  const name = 'bank: transfers, tips, calls'
  const judged = judge(course, answers, {
    name,
    allowed: answers.length - poor,
    refusal: 'payment_required',
    faults,
  })
  return { ...judged, over: drift < 0 ? 1 : 0 }
}
