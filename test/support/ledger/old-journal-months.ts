import { updateBackpackCommand } from '../../../actors/commands/backpacks-commands.ts'
import { startTaskCommand } from '../../../actors/commands/task-session-actor-commands.ts'
import { createActorHistory } from '../../../actors/inspection/actor-history.ts'
import { fromUsdc } from '../../../core/money.ts'
import { sendCreditsCommand } from '../../../payments/commands/agent-account-commands.ts'
import { admitCallCommand, settleCallCommand } from '../../../payments/commands/call-commands.ts'
import { createJournalHistoryStore } from '../../../persistence/inspector/journal-history-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { verifyDatabaseInvariants } from '../../../persistence/verify/verify-database-invariants.ts'
import {
  sampleCallAdmissionRequest,
  settleCallInputOfAdmission,
  touchedAggregatesOfAdmission,
  type TestActorNode,
} from '../actors/test-actor-node.ts'
import {
  createTestBackpack,
  sampleCreditTransferInput,
  sampleTaskInput,
} from '../actors/test-actor-node-pairs.ts'

/** A journal with old months, and what reads it. */

export async function payCall(at: TestActorNode, id: string): Promise<void> {
  const asked = sampleCallAdmissionRequest(0.001)
  const touch = touchedAggregatesOfAdmission(asked)
  await at.ask(id, admitCallCommand, asked, touch)
  await at.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id), touch)
}

export async function createJournalMonths(sql: Sql): Promise<void> {
  for (const [month, end] of [
    ['2026-01', '2026-02'],
    ['2026-02', '2026-03'],
    ['2026-03', '2026-04'],
  ] as const)
    await sql.unsafe(
      `create table journal_${month.replace('-', '_')} partition of journal
       for values from ('${month}-01T00:00:00Z') to ('${end}-01T00:00:00Z')`,
    )
}

/** Dates versions of an aggregate back to a month, a second apart. */
export const moveJournalTo = (sql: Sql, id: string, month: string, from: number, to: number) => sql`
  update journal set at = ${`${month}-10T00:00:00Z`}::timestamptz + make_interval(secs => version)
   where aggregate_id = ${id} and version between ${from} and ${to}`

export async function findViolations(
  sql: Sql,
  dir: string | null,
): Promise<Record<string, unknown>> {
  const findings = await verifyDatabaseInvariants(sql, dir)
  return Object.fromEntries(
    findings.filter(({ broken }) => broken.length > 0).map(({ rule, broken }) => [rule, broken]),
  )
}

export const journalPartitionsOf = async (sql: Sql) =>
  (
    await sql<{ name: string }[]>`
      select inhrelid::regclass::text as name from pg_inherits
       where inhparent = 'journal'::regclass and inhrelid::regclass::text like 'journal_2026_0%' order by 1`
  ).map(({ name }) => name)

/** All entries of the agent, by pages of an odd size. */
export async function readAgentHistory(sql: Sql, dir: string, id: string, version: number) {
  const history = createActorHistory(createJournalHistoryStore(sql, dir))
  const actor = { kind: 'agent', id, aggregateId: id }
  const entries = []
  for (let next: number | null = version + 1; next !== null;) {
    const page = await history.page(actor, next, 7)
    entries.push(...page.entries)
    next = page.next
  }
  return entries
}

export const versionOf = async (sql: Sql, id: string): Promise<number> =>
  (await sql<{ version: number }[]>`select version::int from aggregates where id = ${id}`)[0]
    ?.version ?? 0

/** An agent with two old months and newer rows, one at rest since then, and a receiver of credits. */
export async function createOldAgents(sql: Sql, one: TestActorNode) {
  await createJournalMonths(sql)
  const [agent, resting, receiver] = [await one.born(5), await one.born(1), await one.born(0.0005)]
  const { backpackId } = await createTestBackpack(one, agent, 1)
  await one.ask(agent, updateBackpackCommand, { backpackId, fuse: { perCall: fromUsdc(2) } })
  await one.ask(agent, startTaskCommand, sampleTaskInput('old'))
  for (let calls = 0; calls < 130; calls++) await payCall(one, agent)
  await payCall(one, resting)
  await one.ask(agent, sendCreditsCommand, sampleCreditTransferInput(receiver, 0.5))
  // It absorbs the message when it lacks credits.
  await payCall(one, receiver)
  await moveJournalTo(sql, agent, '2026-01', 1, 40)
  await moveJournalTo(sql, agent, '2026-02', 41, 110)
  await moveJournalTo(sql, resting, '2026-02', 1, 100)
  await moveJournalTo(sql, receiver, '2026-02', 1, 100)
  return { agent, resting, receiver }
}
