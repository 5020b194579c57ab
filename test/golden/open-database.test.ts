import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import { hydrateActor } from '../../actors/loaded-aggregate-state.ts'
import { fromUsdc } from '../../core/money.ts'
import { settleCallCommand } from '../../payments/commands/call-commands.ts'
import { settlementLoadOptions } from '../../payments/commands/payment-claim-commands.ts'
import { recordPaymentSettledCommand } from '../../payments/commands/settlement-commands.ts'
import { LEDGER_MOVEMENT_RULES } from '../../domain/ledger-movements.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import {
  createTestClock,
  findInvariantViolations,
  sampleCallAdmissionRequest,
  settleCallInputOfAdmission,
  touchedAggregatesOfAdmission,
} from '../support/actors/test-actor-node.ts'
import { compareLedgerMovements } from '../support/ledger/ledger-movements-in-database.ts'
import { compareStoredActorsWithJournal } from '../support/random-commands/compare-journal-with-states.ts'
import {
  createScheduleSlotDriver,
  waitUntilTrue,
} from '../support/schedules/make-schedule-slots-due.ts'
import { startInProcessTestStation, type TestAgent } from '../support/station/start-test-station.ts'
import { loadGoldenDatabase } from './database.ts'

/**
 * The database that version 1.0.0 left opens, migrates, verifies and replays with this code, and its open
 * work ends. No change may need another file: it is what stations in use have.
 */

const golden = await loadGoldenDatabase(t)
const { sql, database, open, archiveDir } = golden

/** Kinds of actors of version 1.0.0. */
const KINDS =
  'agent backpack bounty drop fleet listing payer quota schedule settlement tally taskPasses taskSession tool visitor watchList'

/** Reorganisations, ended passes and payouts have suites of their own. A new movement has none and fails here. */
const MOVEMENTS_OF_OTHER_TESTS = 'refund reorg loss pass_back breakage payout'

t.test('no migration that a station has run was edited', async (t) => {
  const folder = join(REPOSITORY_ROOT, 'persistence/migrations')
  const hash = (text: string) => createHash('sha256').update(text).digest('hex')
  for (const { name, text } of golden.migrations)
    t.equal(hash(readFileSync(join(folder, name), 'utf8')), hash(text), name)
  t.equal(golden.migrations.length, 24)
})

t.test('its rules hold and its journal makes every actor', async (t) => {
  t.strictSame(await findInvariantViolations(sql, archiveDir), {})
  const { compared, different } = await compareStoredActorsWithJournal(sql, archiveDir)
  t.strictSame(different, [], `${compared} actors equal their journal`)
})

t.test('the table of ledger movements has each of its movements', async (t) => {
  const { unknown, missing } = await compareLedgerMovements(sql)
  t.strictSame(unknown, [])
  t.strictSame(missing.join(' '), MOVEMENTS_OF_OTHER_TESTS)
  const sources = ['payments', 'persistence']
    .flatMap((folder) =>
      readdirSync(join(REPOSITORY_ROOT, folder), { recursive: true }).map((name) =>
        join(REPOSITORY_ROOT, folder, String(name)),
      ),
    )
    .filter((path) => path.endsWith('.ts'))
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n')
  for (const kind of Object.keys(LEDGER_MOVEMENT_RULES))
    t.match(sources, new RegExp(`'${kind}'`), `${kind} is booked by the code`)
})

t.test('every actor hydrates', async (t) => {
  const rows = await sql<{ kind: string; id: string; version: number; state: string }[]>`
    select kind, id, machine_version as version, state::text as state from actors`
  for (const { kind, id, version, state } of rows)
    hydrateActor({ kind, id, machineVersion: version, state })
  t.strictSame([...new Set(rows.map(({ kind }) => kind))].sort().join(' '), KINDS)
  t.comment(`${rows.length} actors`)
})

t.test('its open work ends', async (t) => {
  const clock = createTestClock(golden.at)
  // Slots fall due by the time of the database, which is later than that of this station.
  await sql`update timers set due_at = 'infinity' where command = 'schedule.run'`
  const main = await startInProcessTestStation(t, {}, { database, clock })
  const { actors } = main.station
  const ask = (method: string, path: string, { key }: TestAgent, json?: object) => {
    clock.pass(1)
    return main.ask(method, path, { key, ...(json === undefined ? {} : { json }) })
  }
  const ends = async (work: ReturnType<typeof ask>, status = 200) => {
    const reply = await work
    t.equal(reply.status, status, reply.text.slice(0, 300))
    return reply.body
  }

  const { poster, claimer, worker, member, receiver } = open
  t.equal(await main.balance(receiver), 0.55, 'the inbox is absorbed')
  const before = await main.balance(claimer)
  const content = 'Gas is cheapest on weekends, when fewer agents send their batches.'
  await ends(ask('POST', `/api/bounties/${open.bountyId}/claim`, claimer, { content }))
  t.equal(((await main.balance(claimer)) - before).toFixed(2), '0.20', 'the bounty is paid')

  for (const { agentId, callId, usdc, taskId } of [open.taskCall, open.loanCall]) {
    const call = sampleCallAdmissionRequest(usdc, { callId, taskId })
    const lent = taskId === null ? { lent: fromUsdc(usdc) } : {}
    const settled = settleCallInputOfAdmission(call, agentId, call.amount, lent)
    await actors.ask(agentId, settleCallCommand, settled, touchedAggregatesOfAdmission(call))
  }
  const task = await ends(ask('POST', '/api/task/end', worker, { task_id: open.taskId }))
  t.equal(task.spent_usdc, 0.1, 'the call of the task is charged')
  await ends(ask('GET', '/api/fleet/list', member))

  await settleDuePayments()
  await ends(
    ask('PATCH', `/api/backpack/${open.backpackId}`, worker, { fuse: { per_day_usdc: 2 } }),
  )
  await ends(ask('GET', `/api/backpack/${open.backpackId}/clipboard?key=k`, worker))
  await ends(ask('POST', `/api/backpack/${open.backpackId}/revoke`, worker))
  await ends(ask('POST', `/api/marketplace/buy/${open.listingId}`, claimer))
  await ends(ask('POST', '/api/radio-drop/redeem', claimer, { code: open.drop }))
  await ends(ask('PATCH', `/api/tools/${open.toolSlug}`, poster, { description: 'The weather.' }))
  await ends(ask('DELETE', `/api/tools/${open.toolSlug}`, poster))
  await ends(ask('DELETE', `/api/webhook/${open.webhookId}`, worker))
  await ends(ask('GET', '/api/vault/stats', worker))
  const strategy = { tool: 'strategy_publish', title: 'Weekends', description: 'Wait for them.' }
  const paid = await ends(ask('POST', '/api/refuel', worker, strategy))
  t.equal(paid._meta.rail, 'pass', 'the task pass pays')
  const address = { 'x-forwarded-for': open.visitor }
  const free = await main.call(null, 'hive_read', { query: 'gas' }, address)
  t.match(free, { status: 200 }, 'the free calls of an address go on')

  const path = `/api/task/schedule/${open.pausedSchedule}`
  t.match(await ends(ask('GET', path, worker)), { state: 'paused' })
  t.match(await ends(ask('PATCH', path, worker, { enabled: true })), { state: 'enabled' })
  await createScheduleSlotDriver(t, database).pass(open.enabledSchedule)
  await waitUntilTrue('the schedule runs', async () => {
    const { body } = await ask('GET', `/api/task/schedule/${open.enabledSchedule}`, worker)
    return body['runs'] === 1
  })

  t.strictSame(await findInvariantViolations(sql, archiveDir), {}, 'the rules hold afterwards')
  const { different } = await compareStoredActorsWithJournal(sql, archiveDir)
  t.strictSame(different, [], 'the journal makes every actor afterwards')

  async function settleDuePayments(): Promise<void> {
    const due = await sql<{ payer: string; id: string }[]>`
      select aggregate_id as payer, id from actors
       where kind = 'settlement' and state->'value'->>'money' = 'due'`
    t.ok(due.length > 0, `${due.length} payments are due`)
    for (const { payer, id } of due) {
      const settled = { settlement: id, tx: `tx ${id}`, logIndex: 0, block: 101n }
      const command = recordPaymentSettledCommand as AggregateCommand<typeof settled, unknown>
      await actors.ask(payer, command, settled, settlementLoadOptions(id))
    }
  }
})
