import { failScheduleRunCommand } from '../../actors/commands/schedule-aggregate-commands.ts'
import { DAY } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import type { CallAdmissionRequest } from '../../payments/agent-call-admission-request-types.ts'
import { admitCallCommand } from '../../payments/commands/call-commands.ts'
import {
  getAgentBalanceCommand,
  sendCreditsCommand,
} from '../../payments/commands/agent-account-commands.ts'
import { drawFromFleetCommand } from '../../payments/commands/fleet-commands.ts'
import { sampleCreditTransferInput } from '../support/actors/test-actor-node-pairs.ts'
import {
  createTestActorNode,
  sampleCallAdmissionRequest,
  touchedAggregatesOfAdmission,
} from '../support/actors/test-actor-node.ts'
import {
  addFleetMember,
  bookFleetTopUps,
  createTestFleet,
} from '../support/agents/create-test-fleets.ts'
import { createWriteRouteFixtures } from '../support/agents/write-route-fixtures.ts'
import type { TestDatabase } from '../support/postgres/test-database.ts'
import { insertArrivedDeposit } from '../support/payments/insert-test-deposit.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
  type TestAgent,
} from '../support/station/start-test-station.ts'
import { startTestToolBuilderServer, sendJson } from '../support/tools/test-tool-builder-server.ts'
import { openCreditDrop } from '../../app/cli/operator/cli-credit-drops.ts'
import { writeRouteCases } from '../support/write-routes/write-route-cases.ts'

/** Leaves one piece of open work of every kind to a station that continues later. */

interface OpenCall {
  readonly agentId: string
  readonly callId: string
  readonly usdc: number
  readonly taskId: string | null
}

export interface OpenWork {
  readonly poster: TestAgent
  readonly claimer: TestAgent
  readonly bountyId: string
  /** An agent with an active task, whose call holds credits. */
  readonly worker: TestAgent
  readonly taskId: string
  readonly taskCall: OpenCall
  readonly backpackId: string
  readonly webhookId: string
  readonly enabledSchedule: string
  readonly pausedSchedule: string
  /** A member of a fleet, which has lent it the price of a running call. */
  readonly member: TestAgent
  readonly fleetId: string
  readonly loanCall: OpenCall
  /** An agent that was sent credits and has not been asked since. */
  readonly receiver: TestAgent
  readonly sentUsdc: number
  readonly listingId: string
  readonly drop: string
  readonly toolSlug: string
  /** An address that has used two of its free calls. */
  readonly visitor: string
}

const VISITOR = '198.51.100.7'

type Scope = Parameters<typeof startInProcessTestStation>[0]

/** One request of every operation that writes; some are refused. */
async function useEveryWriteRoute(main: InProcessStation): Promise<void> {
  const agent = await main.onboard()
  const fixtures = await createWriteRouteFixtures(main, agent)
  for (const { path, method = 'POST', body } of Object.values(writeRouteCases(fixtures)))
    await main.ask(method, path, { key: agent.key, ...(body === undefined ? {} : { json: body }) })
}

/** Runs a station on this database, and stops it with its work open. */
export async function leaveOpenWork(t: Scope, database: TestDatabase): Promise<OpenWork> {
  const { sql } = database
  const builder = await startTestToolBuilderServer(t)
  builder.on('/weather', (_, reply) => sendJson(reply, { celsius: 21.5 }))
  const settings = { SSRF_ALLOW: `127.0.0.1:${builder.port}`, PROMO_TRANSFERABLE: 'true' }
  const main = await startInProcessTestStation(t, settings, { database })
  const send = async (method: string, path: string, { key }: TestAgent, json?: object) => {
    const { status, text, body } = await main.ask(method, path, {
      key,
      ...(json === undefined ? {} : { json }),
    })
    if (status >= 300) throw new Error(`${path} answered ${status}: ${text}`)
    return body
  }
  const create = (path: string, agent: TestAgent, json: object) => send('POST', path, agent, json)

  await useEveryWriteRoute(main)
  const [poster, claimer, worker, owner] = [
    await main.onboard(),
    await main.onboard(),
    await main.onboard(),
    await main.onboard(),
  ]
  const [member, receiver, sender] = [
    await main.onboard(0.002),
    await main.onboard(),
    await main.onboard(),
  ]
  for (const { id } of [poster, worker, sender]) await insertArrivedDeposit(main, id, 5)
  for (const agent of [poster, worker, sender]) await main.balance(agent)

  const bounty = await create('/api/bounties', poster, {
    ...{ title: 'Gas', description: 'When is gas cheap?', domain: 'gas', reward_usdc: 0.2 },
    ...{ required_keywords: ['gas'], min_quality_score: 1 },
  })
  const task = await create('/api/task/start', worker, { name: 'work', budget_usdc: 0.4 })
  const backpack = await create('/api/backpack/create', worker, {
    agent_name: 'scout',
    fuse: { per_day_usdc: 1 },
  })
  await create(`/api/backpack/${backpack.backpack_id}/keyring`, worker, {
    ...{ name: 'TOKEN', secret: 's3cret', hosts: ['a.example'] },
  })
  await create(`/api/backpack/${backpack.backpack_id}/clipboard`, worker, { key: 'k', value: 1 })
  const webhook = await create('/api/webhook/register', worker, { url: 'https://hooks.invalid/' })
  const [enabled, paused] = [
    await create('/api/task/schedule', worker, { interval: '1d', tool: 'hive_trending' }),
    await create('/api/task/schedule', worker, { interval: '1d', tool: 'hive_trending' }),
  ]
  await create('/api/task/passes/buy', worker, { pass: 'micro' })
  const memory = await create('/api/vault/write', worker, {
    content: 'The gateway is deployed on Tuesdays.',
    type: 'fact',
  })
  const listing = await create('/api/marketplace/list', worker, {
    ...{ name: 'notes', description: 'notes', price_usdc: 0.1, accepts_promo: true },
    entry_ids: [(memory['pack'] as { id: string }).id],
  })
  await create('/api/strategies', worker, { title: 'Weekends', description: 'Send on weekends.' })
  await create('/api/hive/write', worker, {
    content: 'Ethereum validators exit through a queue whose length depends on the churn limit.',
  })
  await create('/api/refuel', sender, { tool: 'hive_read', query: 'ethereum validators' })
  await create('/api/refuel', sender, { tool: 'hive_watch', action: 'subscribe', keyword: 'gas' })
  await create('/api/signal/publish', sender, { channel: 'test', type: 'ping', payload: { x: 1 } })
  await create('/api/messages', sender, { to: worker.id, message: 'hello' })
  for (let call = 0; call < 2; call += 1)
    await main.call(null, 'hive_read', { query: 'gas' }, { 'x-forwarded-for': VISITOR })
  const drop = (await openCreditDrop(sql))[0]?.code ?? ''
  const toolSlug = await sellTool()
  const fleetId = await createTestFleet(main, owner)
  await addFleetMember(main, owner, fleetId, member)
  await bookFleetTopUps(main, fleetId, [1.5])
  await main.balance(member)
  await main.station.close()

  async function sellTool(): Promise<string> {
    const slug = 'weather-later'
    const tool = {
      ...{ slug, name: 'Weather', description: 'The temperature of a city.' },
      ...{ endpoint_url: builder.url('/weather'), price_per_call_usdc: 0.01 },
    }
    const { challenge } = await create('/api/tools/register', poster, tool)
    builder.tokens.add((challenge as { token: string }).token)
    await send('PATCH', `/api/tools/${slug}`, poster, { endpoint_url: tool.endpoint_url })
    await create(`/api/tools/${slug}/invoke`, sender, {})
    return slug
  }

  const { ask, close } = createTestActorNode(t, sql)
  const admit = async (agentId: string, usdc: number, more: Partial<CallAdmissionRequest>) => {
    const asked = sampleCallAdmissionRequest(usdc, { expiresAt: Date.now() + 30 * DAY, ...more })
    await ask(agentId, admitCallCommand, asked, touchedAggregatesOfAdmission(asked))
    return { agentId, callId: asked.callId, usdc, taskId: asked.taskId }
  }
  const taskCall = await admit(worker.id, 0.1, { taskId: task.task_id })
  const callId = newUuidV7(Date.now())
  const loan = { id: newUuidV7(Date.now()), agentId: member.id, callId, amount: fromUsdc(0.1) }
  await ask(fleetId, drawFromFleetCommand, loan)
  await ask(member.id, getAgentBalanceCommand, {})
  const loanCall = await admit(member.id, 0.1, { callId, lent: fromUsdc(0.1) })
  await ask(sender.id, sendCreditsCommand, sampleCreditTransferInput(receiver.id, 0.05))
  const [noPay, nothing] = [
    { code: 'payment_required', needed: fromUsdc(1_000_000) } as const,
    { callId: null, cost: ZERO_MICROS, budget: ZERO_MICROS, result: null },
  ]
  const [pausedId, slot] = [
    String(paused['schedule_id']),
    Date.parse(String(paused['next_run_at'])),
  ]
  const failed = { scheduleId: pausedId, slot, at: slot, error: noPay, ...nothing }
  await ask(worker.id, failScheduleRunCommand, failed)
  await close()
  return {
    ...{ poster, claimer, worker, member, receiver, fleetId, taskCall, loanCall, drop, toolSlug },
    bountyId: String(bounty['bounty_id']),
    taskId: task.task_id,
    backpackId: backpack.backpack_id,
    webhookId: String(webhook['id'] ?? webhook['webhook_id']),
    enabledSchedule: String(enabled['schedule_id']),
    pausedSchedule: pausedId,
    listingId: String(listing['pack_id'] ?? listing['id']),
    sentUsdc: 0.05,
    visitor: VISITOR,
  }
}
