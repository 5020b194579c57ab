import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { verifyDatabaseInvariants } from '../../persistence/verify/verify-database-invariants.ts'
import type { BackgroundLoad } from './cluster-background-load.ts'
import {
  CLUSTER_PROOF_SIGNAL_CHANNEL,
  CHAOS_PAID_TOOL_PRICE_MICROS,
  type ClusterRoundAgents,
} from './cluster-client-load.ts'
import type { TestWebhookReceiver } from '../accepting-webhook-receiver.ts'
import {
  compareOperationsWithLedger,
  type OperationsLedgerComparison,
} from '../compare-operations-with-ledger.ts'
import type { RetriedAgentRequest } from '../chaos-agent-operations-with-retries.ts'

/** The agents of one round and their operations. */
export interface ClusterRoundOperations {
  readonly cast: ClusterRoundAgents
  readonly operations: readonly RetriedAgentRequest[]
}

/** Compares the replies to clients with the data of the stations. */
export interface ClusterAuditResult extends OperationsLedgerComparison {
  readonly unanswered: number
  /** Micro-USDC served beyond a task, a fuse or a balance. */
  readonly overspent: number
  /** Calls rejected by a limit and charged nevertheless. */
  readonly refusedAndCharged: number
  /** Bounties paid twice, or paid to another agent than the acknowledged one. */
  readonly bounties: number
  readonly signals: { readonly published: number; readonly missed: number; readonly twice: number }
  readonly webhooks: { readonly due: number; readonly lost: number; readonly again: number }
  readonly slots: { readonly ran: number; readonly wrong: number; readonly left: number }
  readonly violations: readonly string[]
  /** Rejections without a cause. */
  readonly refusals: readonly string[]
}

export interface ClusterAuditInput {
  readonly sql: Sql
  readonly backgroundLoad: BackgroundLoad
  readonly receiver: TestWebhookReceiver
  readonly rounds: readonly ClusterRoundOperations[]
  readonly slotsLeft: number
}

export async function auditClusterRepliesAgainstDatabase(
  audited: ClusterAuditInput,
): Promise<ClusterAuditResult> {
  const { sql, rounds, slotsLeft } = audited
  const operations = rounds.flatMap((one) => one.operations)
  // A claim is stored with its bounty, not with its claimant.
  const compared = await compareOperationsWithLedger(
    sql,
    operations.filter(({ kind }) => kind !== 'claim'),
  )
  const broken = (await verifyDatabaseInvariants(sql)).filter(
    (finding) => finding.broken.length > 0,
  )
  return {
    ...compared,
    operations: operations.length,
    acknowledged: operations.filter(({ acknowledged }) => acknowledged !== null).length,
    wronglyRejected: operations.filter(({ refused }) => refused !== null).length,
    unanswered: operations.filter(
      (one) => (one.acknowledged ?? one.limited ?? one.refused) === null,
    ).length,
    overspent: rounds.reduce((sum, one) => sum + overspentMicros(one), 0),
    refusedAndCharged: await countRejectedAndCharged(sql, operations),
    bounties: await countWrongBounties(sql, operations),
    signals: await auditSignals(audited, operations),
    webhooks: await auditWebhooks(audited, operations),
    slots: { ...(await auditScheduleSlots(sql)), left: slotsLeft },
    violations: broken.map(({ rule, broken: [sample] }) => `${rule} ${stringifyRow(sample)}`),
    refusals: operations.flatMap(({ kind, refused }) =>
      refused === null ? [] : [`${kind} was refused: ${refused}`],
    ),
  }
}

const stringifyRow = (row: unknown): string =>
  JSON.stringify(row, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part))

function overspentMicros({ cast, operations }: ClusterRoundOperations): number {
  const beyond = cast.limits.map(({ kind, maxMicros }) => {
    const served = operations.filter((one) => one.kind === kind && one.acknowledged !== null)
    return Math.max(0, served.length * CHAOS_PAID_TOOL_PRICE_MICROS - maxMicros)
  })
  return beyond.reduce((sum, one) => sum + one, 0)
}

async function countRejectedAndCharged(
  sql: Sql,
  operations: readonly RetriedAgentRequest[],
): Promise<number> {
  const refused = operations.filter(({ limited, kind }) => limited !== null && kind !== 'claim')
  const rows = await sql<{ owner: string; key: string }[]>`
    select owner, idempotency_key as key from calls
     where idempotency_key is not null and status = 'ok' and cost_micros > 0`
  const charged = new Set(rows.map(({ owner, key }) => `${owner} ${key}`))
  return refused.filter(({ agent, key }) => charged.has(`${agent.id} ${key}`)).length
}

async function countWrongBounties(
  sql: Sql,
  operations: readonly RetriedAgentRequest[],
): Promise<number> {
  const rows = await sql<{ id: string; claimer: string | null }[]>`
    select bounty_id::text as id, claimed_by::text as claimer from bounties`
  const claims = operations.filter(({ kind }) => kind === 'claim')
  const wrong = rows.filter(({ id, claimer }) => {
    const paid = claims.filter(({ acknowledged }) => acknowledged === id)
    return (
      paid.length !== (claimer === null ? 0 : 1) || paid.some(({ agent }) => agent.id !== claimer)
    )
  })
  return wrong.length
}

async function auditSignals(
  { sql, backgroundLoad }: ClusterAuditInput,
  operations: readonly RetriedAgentRequest[],
) {
  const rows = await sql<{ id: string; call: string }[]>`
    select id::text, call_id::text as call from signals where channel = ${CLUSTER_PROOF_SIGNAL_CHANNEL} order by id`
  const stored = new Set(rows.map(({ call }) => call))
  const told = operations.filter(
    ({ kind, acknowledged }) => kind === 'publish' && acknowledged !== null,
  )
  const unstored = told.filter(({ acknowledged }) => !stored.has(acknowledged ?? '')).length
  const missed = backgroundLoad.readers.map(({ ids, gaps }) => {
    const seen = new Set(ids)
    return gaps + rows.filter(({ id }) => !seen.has(id)).length
  })
  const twice = backgroundLoad.readers.map(
    ({ ids }) => ids.filter((id, at) => !isAfter(id, ids[at - 1])).length,
  )
  const sum = (counts: readonly number[]) => counts.reduce((all, one) => all + one, 0)
  return { published: rows.length, missed: unstored + sum(missed), twice: sum(twice) }
}

/** Signals of a channel arrive in id order, so a repeated signal is out of order. */
const isAfter = (id: string, before: string | undefined): boolean =>
  before === undefined || BigInt(id) > BigInt(before)

async function auditWebhooks(
  { sql, receiver }: ClusterAuditInput,
  operations: readonly RetriedAgentRequest[],
) {
  const due = await sql<{ id: string; state: string }[]>`select id, state from deliveries`
  const agents = await sql<{ id: string }[]>`
    select distinct agent_id::text as id from webhooks where backpack_id is null`
  const listening = new Set(agents.map(({ id }) => id))
  const told: readonly string[] = ['call', 'ping', 'task', 'pack']
  const untold = operations.filter(
    ({ agent, kind, acknowledged }) =>
      acknowledged !== null &&
      told.includes(kind) &&
      listening.has(agent.id) &&
      !receiver.reportedCalls.has(acknowledged),
  )
  const lost = due.filter(
    ({ id, state }) => state !== 'delivered' || !receiver.deliveryCounts.has(id),
  )
  const again = [...receiver.deliveryCounts.values()].reduce((sum, times) => sum + times - 1, 0)
  return { due: due.length, lost: lost.length + untold.length, again }
}

/** Slots not charged exactly once, failed, or missing between two others. */
async function auditScheduleSlots(sql: Sql): Promise<{ ran: number; wrong: number }> {
  const [row] = await sql<{ ran: number; wrong: number }[]>`
    with runs as (
      select r.schedule_id, r.slot, r.ok,
             lag(r.slot) over (partition by r.schedule_id order by r.slot) as before,
             (select count(*) from calls c where c.owner = r.agent_id::text and c.status = 'ok'
                 and c.idempotency_key = 'schedule ' || r.schedule_id || ' '
                   || (extract(epoch from r.slot) * 1000)::bigint) as charged
        from schedule_runs r)
    select count(*)::int as ran,
           (count(*) filter (where not ok or charged <> 1
              or slot - before <> interval '5 minutes'))::int as wrong from runs`
  return row ?? { ran: 0, wrong: 0 }
}
