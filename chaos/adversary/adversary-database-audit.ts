import { setTimeout as pause } from 'node:timers/promises'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { verifyDatabaseInvariants } from '../../persistence/verify/verify-database-invariants.ts'
import { findAccountStatementFaults } from '../../test/support/ledger/find-account-statement-faults.ts'
import { auditPromoAndCashFlows } from './promo-and-cash-flow-audit.ts'
import type {
  AdversaryBackpack,
  ObservedResultDelivery,
  AdversaryState,
} from './adversary-state.ts'

/** Audits the database after an adversary run. */

/** Longer responses of free calls are not stored. */
const MAX_FREE_REPLY_BYTES = 65_536
const CALL_END_TIMEOUT_MS = 30_000
const POLL_MS = 50

export interface AuditQuietTimeAndStarterLimit {
  /** Only schedules ran after this time. */
  readonly quietSince: Date
  /** Agents per address and hour that receive starter credits. */
  readonly startersAnAddress: number
}

export interface AdversaryAuditTotals {
  /**
   * Total price of the results that reached stream readers, and the amount paid for them, in USDC.
   */
  readonly offered: number
  readonly paid: number
  readonly cashIn: number
  readonly promoGranted: number
  readonly verified: number
}

/** Checks all rows once every operation has ended. */
export async function auditAdversaryRun(
  sql: Sql,
  world: AdversaryState,
  terms: AuditQuietTimeAndStarterLimit,
): Promise<AdversaryAuditTotals> {
  const say = (rule: string, description: string) =>
    world.violations.push({ rule, description, operation: 0 })
  const value = await auditDeliveries(sql, world)
  const flows = await auditPromoAndCashFlows(sql)
  for (const { rule, says } of flows.faults) say(rule, says)
  if (flows.granted !== flows.spent + flows.held)
    say('promo-unbalanced', `${flows.granted} granted, ${flows.spent} spent, ${flows.held} held`)
  if (flows.cashOut > flows.cashIn) say('cash-out', `${flows.cashOut} of ${flows.cashIn}`)
  await auditStarters(sql, world, terms, say)
  await auditKeys(sql, world, terms, say)
  await auditBindings(sql, say)
  for (const agent of world.agents)
    for (const backpack of agent.backpacks) await auditFuse(sql, backpack, say)
  await auditStorage(sql, say)
  for (const says of await findAccountStatementFaults(sql)) say('statement', says)
  const findings = await verifyDatabaseInvariants(sql)
  for (const { rule, says, broken } of findings)
    if (broken.length > 0) say('verify', `${rule} ${says}: ${stringifyRow(broken[0])}`)
  const usdc = (amount: bigint) => Number(amount) / 1e6
  const { cashIn, granted } = flows
  return {
    ...value,
    cashIn: usdc(cashIn),
    promoGranted: usdc(granted),
    verified: findings.length,
  }
}

const stringifyRow = (row: unknown) =>
  JSON.stringify(row, (_, one: unknown) => (typeof one === 'bigint' ? String(one) : one))

type ReportViolation = (rule: string, says: string) => void

interface CallRow {
  readonly call: string
  readonly status: string
  readonly rail: string
  readonly cost: bigint
}

/** The rows of all calls that delivered something, read after each has ended. */
async function endedCalls(sql: Sql, ids: readonly string[]): Promise<Map<string, CallRow>> {
  const deadline = performance.now() + CALL_END_TIMEOUT_MS
  for (;;) {
    const rows = await sql<CallRow[]>`
      select call_id::text as call, status, rail, cost_micros as cost from calls
       where call_id = any(${[...ids]}::uuid[])`
    if (rows.length >= ids.length || performance.now() > deadline)
      return new Map(rows.map((row) => [row.call, row]))
    await pause(POLL_MS)
  }
}

/** Each delivery was paid, or used one of the free calls of its address. */
async function auditDeliveries(
  sql: Sql,
  world: AdversaryState,
): Promise<{ offered: number; paid: number }> {
  const deliveries = [...world.deliveries.values()]
  const ids = deliveries.map(({ callId }) => callId)
  const rows = await endedCalls(sql, ids)
  const say = (description: string, operation: number) =>
    world.violations.push({ rule: 'delivered-unpaid', description, operation })
  const slots = new Map<string, number>()
  const sums = { offered: 0, paid: 0 }
  for (const delivery of deliveries) {
    const row = rows.get(delivery.callId)
    if (row?.status === 'ok' && row.rail === 'free') countFreeSlot(slots, delivery)
    else assertCharged(world, sums, delivery, row, say)
  }
  for (const [slot, calls] of slots)
    if (calls > freeCallsOf(world, slot)) say(`${slot}: ${calls} free calls`, 0)
  return { offered: sums.offered / 1e6, paid: sums.paid / 1e6 }
}

function countFreeSlot(
  slots: Map<string, number>,
  { tool, address }: ObservedResultDelivery,
): void {
  const slot = `${tool} ${address}`
  slots.set(slot, (slots.get(slot) ?? 0) + 1)
}

const freeCallsOf = ({ tools }: AdversaryState, slot: string): number =>
  tools.get(slot.split(' ')[0] ?? '')?.freeCalls ?? 0

function assertCharged(
  { tools }: AdversaryState,
  sums: { offered: number; paid: number },
  { callId, tool, operation }: ObservedResultDelivery,
  row: CallRow | undefined,
  say: (says: string, operation: number) => void,
): void {
  const price = Math.round((tools.get(tool)?.price ?? 0) * 1e6)
  const cost = Number(row?.cost ?? 0n)
  sums.offered += price
  sums.paid += cost
  if (row?.status === 'ok' && cost === price) return
  const became = row === undefined ? 'has no row' : `${row.status}, ${cost} micro-USDC`
  say(`${tool} ${callId} was delivered: ${became}`, operation)
}

/**
 * Starter credits go to a limited number of agents per hour and address; the others start with
 * zero.
 */
async function auditStarters(
  sql: Sql,
  world: AdversaryState,
  terms: AuditQuietTimeAndStarterLimit,
  say: ReportViolation,
): Promise<void> {
  const granted = await sql<{ agent: string }[]>`
    select distinct split_part(credit, ':', 2) as agent from transfers
     where debit = 'grants:promo' and kind = 'grant'`
  const gifted = new Map<string, number>()
  for (const { agent } of granted) {
    const address = world.onboardingAddresses.get(agent)
    if (address !== undefined) gifted.set(address, (gifted.get(address) ?? 0) + 1)
  }
  for (const [address, agents] of gifted)
    if (agents > terms.startersAnAddress) say('starter-credits', `${address}: ${agents} agents`)
}

/** No key spent beyond its cap, and no schedule ran for a revoked key. */
async function auditKeys(
  sql: Sql,
  { agents, orphanedSchedules }: AdversaryState,
  { quietSince }: AuditQuietTimeAndStarterLimit,
  say: ReportViolation,
): Promise<void> {
  const capped = agents.flatMap(({ keys }) => keys.filter(({ cap }) => cap !== null))
  const spent = await sql<{ key: string; spent: bigint }[]>`
    select key_id::text as key, sum(cost_micros)::bigint as spent from calls
     where key_id is not null group by key_id`
  for (const { key, spent: sum } of spent) {
    const cap = capped.find(({ id }) => id === key)?.cap ?? null
    if (cap !== null && Number(sum) > Math.round(cap * 1e6)) say('cap-exceeded', `${key}: ${sum}`)
  }
  const ran = await sql<{ schedule: string }[]>`
    select distinct schedule_id::text as schedule from schedule_runs
     where ok and at > ${quietSince}
       and schedule_id = any(${orphanedSchedules.map(({ scheduleId }) => scheduleId)}::uuid[])`
  for (const { schedule } of ran) say('revoked-key-ran', schedule)
}

/** Every call of a bound key is recorded in its Backpack, on every transport. */
async function auditBindings(sql: Sql, say: ReportViolation): Promise<void> {
  const outside = await sql<{ call: string; bound: string; backpack: string | null }[]>`
    select c.call_id::text as call, k.backpack_id as bound, c.backpack_id as backpack
      from calls c join api_keys k on k.id = c.key_id
     where k.backpack_id is not null and c.backpack_id is distinct from k.backpack_id
       and (c.tool is not null or c.cost_micros > 0)`
  for (const { call, bound, backpack } of outside)
    say('bound-key-escaped', `call ${call} of a key of ${bound} stands in ${backpack}`)
}

/** Spend of a Backpack today: its calls, and transfers of its bound keys at face value. */
async function auditFuse(
  sql: Sql,
  backpack: AdversaryBackpack,
  say: ReportViolation,
): Promise<void> {
  const { id, perDay, faceValue } = backpack
  if (perDay === null) return
  const [row] = await sql<{ spent: bigint }[]>`
    select coalesce(sum(cost_micros), 0)::bigint as spent from calls
     where backpack_id = ${id} and tool is not null
       and tool not in ('agent_send', 'tip', 'bounty')`
  const spent = Number(row?.spent ?? 0n) + Math.round(faceValue * 1e6)
  if (spent > Math.round(perDay * 1e6)) say('fuse-exceeded', `${id}: ${spent} of ${perDay} USDC`)
}

async function auditStorage(sql: Sql, say: ReportViolation): Promise<void> {
  const kept = await sql<{ call: string; bytes: number }[]>`
    select call_id::text as call, octet_length(response) as bytes from calls
     where cost_micros = 0 and octet_length(response) > ${MAX_FREE_REPLY_BYTES + 4_096}`
  if (kept.length > 0)
    say('bytes-kept', `${kept.length} free calls, the first with ${kept[0]?.bytes} bytes`)
  const doubles = await sql<{ content: string; authors: number; entries: number }[]>`
    select content, count(distinct agent_id)::int as authors, count(*)::int as entries
      from hive_entries where is_public group by content having count(*) > 1`
  for (const { content, authors, entries } of doubles)
    say('hive-duplicate', `${entries} entries of ${authors} authors: ${content.slice(0, 30)}`)
}
