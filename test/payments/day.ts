import type { Command } from '../../actors/command.ts'
import { backpackCreate } from '../../actors/commands/backpacks.ts'
import { endRun, scheduleCreate, scheduleMiss } from '../../actors/commands/schedules.ts'
import { taskStart } from '../../actors/commands/tasks.ts'
import { changeWatches } from '../../actors/commands/watches.ts'
import { DAY, HOUR, utcDay } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { UNLIMITED_KEY } from '../../core/key-terms.ts'
import { fromUsdc } from '../../core/money.ts'
import { appraise } from '../../payments/appraisal.ts'
import { bountyCancel, bountyClaim, bountyPost } from '../../payments/commands/bounty.ts'
import { callAdmit, callFail, callForget, callSettle } from '../../payments/commands/call.ts'
import { absorbDeposit } from '../../payments/commands/deposit.ts'
import { dropOpen, dropRedeem } from '../../payments/commands/drop.ts'
import { fleetCreate, fleetDraw, fleetJoin, fleetTopUp } from '../../payments/commands/fleet.ts'
import { paymentDeliver, type Claim } from '../../payments/commands/payment.ts'
import { grantGive } from '../../payments/commands/grant.ts'
import { agentCreate, balance, tip, transferSend } from '../../payments/commands/purse.ts'
import { pendingOf, worldOf } from '../../payments/ledger.ts'
import { royaltyStore } from '../../persistence/hive-royalties.ts'
import type { Sql } from '../../persistence/plane.ts'
import { testDatabase } from '../support/database.ts'
import { remembered } from './vault-day.ts'
import { about, claim, claimOf, outcomeOf, paymentOf, settle } from '../support/payments.ts'
import { send, UNLIMITED } from '../support/nodes.ts'
import { admission, failure, node, settlement, touch, type Node } from '../support/runtime.ts'

const NO_KEY = { keyId: null, backpackId: null, sealed: null }

/** A day's work of two agents: every rule has something to look at. */
export async function day(t: Parameters<typeof testDatabase>[0]) {
  const { sql } = await testDatabase(t)
  const one = node(t, sql)
  const { ask, born } = one
  const [id, other] = [await born(0.5), await born(0.5)]
  const fuse = { perCall: fromUsdc(0.2), perDay: fromUsdc(0.4), perMonth: null }
  const pager = { webhookUrl: null, ownerEmail: null, ownerTelegram: null }
  const { backpackId } = await ask(id, backpackCreate, {
    agentName: 'scout',
    tools: null,
    fuse,
    pager,
    expiresAt: Date.now() + 90 * DAY,
  })
  const { taskId } = await ask(id, taskStart, { name: 'work', budget: fromUsdc(0.4) })
  const limits = { taskId, backpackId, idempotencyKey: 'k1' }
  const [soft, durable, open, failed] = [
    admission(0.05, limits),
    admission(0.1, { ...limits, idempotencyKey: null, expiresAt: Date.now() + DAY }),
    admission(0.02, { expiresAt: Date.now() + DAY }),
    admission(0.01),
  ]
  for (const one of [soft, durable, open, failed]) await ask(id, callAdmit, one, touch(one))
  await ask(id, callSettle, settlement(soft, id), touch(soft))
  await ask(id, callSettle, settlement(durable, id, fromUsdc(0.07)), touch(durable))
  await ask(id, callFail, failure(failed, id))
  const payment = send(id, 0.1)
  await ask(other, transferSend, payment)
  await ask(id, balance, {})
  await ask(other, tip, payment)
  await payments(one)
  await gifts(one, await born(0.5))
  await rewards(one, await born(0.5), other)
  await bounded(one, await born(0.5), other)
  await scheduled(one, await born(0.5))
  await shared(one, sql, await born(0.5), other)
  await remembered(one, await born(0.5))
  await stopped(one)
  await brought(one, other)
  return { sql, id, other, taskId, backpackId }
}
/** A fleet with a bonus that has lent both of its parts and has them back, and a drop with one slot taken. */
async function gifts({ ask }: Node, agentId: string): Promise<void> {
  const [fleetId, tx] = [newId(Date.now()), `0x${'f'.repeat(64)}`]
  await ask(fleetId, fleetCreate, { ownerId: agentId, rows: [] }, { fresh: true })
  await ask(fleetId, fleetJoin, { agentId })
  await ask(fleetId, fleetTopUp, { tx, transfers: [{ logIndex: 0, amount: fromUsdc(1) }] })
  for (const callId of [newId(Date.now()), newId(Date.now())]) {
    await ask(fleetId, fleetDraw, { id: newId(Date.now()), agentId, callId, amount: fromUsdc(0.3) })
    await ask(agentId, balance, {})
    await ask(agentId, callForget, { callId })
  }
  await ask('RADIODROP-X', dropOpen, {}, { fresh: true })
  await ask('RADIODROP-X', dropRedeem, { agentId })
}

/** What a capped key has sent and called in its Backpack. */
async function bounded({ ask }: Node, agentId: string, toAgentId: string): Promise<void> {
  const { backpackId } = await ask(agentId, backpackCreate, {
    agentName: 'bounded',
    tools: ['agent_send', 'web_search'],
    fuse: { perCall: null, perDay: null, perMonth: null },
    pager: { webhookUrl: null, ownerEmail: null, ownerTelegram: null },
    expiresAt: Date.now() + 90 * DAY,
  })
  const caps = { cap: fromUsdc(0.3), capPerDay: fromUsdc(0.2) }
  const key = { ...UNLIMITED_KEY, ...caps, id: newId(Date.now()), backpackId }
  await ask(agentId, transferSend, { ...send(toAgentId, 0.1), spender: { key, backpackId } })
  const call = admission(0.05, { key, backpackId })
  await ask(agentId, callAdmit, call, touch(call))
  await ask(agentId, callSettle, settlement(call, agentId), touch(call))
}

/** A strategy that was forked, a watch, and an entry whose royalty the pool has paid. */
async function shared({ ask }: Node, sql: Sql, agentId: string, author: string): Promise<void> {
  const [at, strategyId] = [new Date().toISOString(), newId(Date.now())]
  const fork = admission(0.03)
  const share = { to: author, amount: fromUsdc(0.02), withoutFee: true }
  const forked = {
    fork_id: newId(Date.now()),
    strategy_id: strategyId,
    author,
    agent_id: agentId,
    call_id: fork.callId,
    royalty_micros: 20_000,
    at,
  }
  const rows = [{ table: 'strategy_forks', row: forked }]
  await ask(agentId, callAdmit, fork)
  const told = settlement(fork, agentId, fork.amount, { rows, shares: [share] })
  await ask(agentId, callSettle, told)

  const [watched, watchId] = [admission(0.02), newId(Date.now())]
  const watch = {
    watch_id: watchId,
    agent_id: agentId,
    keyword: 'gas',
    namespace: null,
    call_id: watched.callId,
    created_at: at,
    ended_at: null,
  }
  await ask(agentId, callAdmit, watched)
  const began = settlement(watched, agentId, watched.amount, {
    rows: [{ table: 'hive_watches', row: watch }],
    ended: (turn) => changeWatches(turn, { type: 'BEGIN', watchId }),
  })
  await ask(agentId, callSettle, began)
  await read({ ask }, sql, agentId, author)
}

async function read({ ask }: Pick<Node, 'ask'>, sql: Sql, agentId: string, author: string) {
  const [entryId, at] = [newId(Date.now()), new Date()]
  const royalties = royaltyStore(sql)
  await royalties.pay(at, true)
  const reading = admission(0.3)
  const row = {
    entry_id: entryId,
    reader: agentId,
    has_key: true,
    call_id: reading.callId,
    day: utcDay(at.getTime()),
    ghost: false,
    owes_promo: true,
    at: at.toISOString(),
  }
  await sql`
    insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
    values (${entryId}, ${author}, 'Gas is cheap on weekends', 'base', '{}', 1, true, ${entryId}, ${at})`
  await ask(agentId, callAdmit, reading)
  const rows = [{ table: 'hive_reads', row }]
  await ask(agentId, callSettle, settlement(reading, agentId, reading.amount, { rows }))
  await sql`update royalty_pool set fed_until = ${new Date(at.getTime() - DAY)}`
  await royalties.pay(new Date(at.getTime() + HOUR), true)
  await ask(author, balance, {})
}

/** An agent that was brought, has made its first deposit, and pays in both kinds of credits; and a grant. */
async function brought({ ask }: Node, referrer: string): Promise<void> {
  const agentId = newId(Date.now())
  await ask(agentId, agentCreate, { agentId, starter: fromUsdc(0), referrer, rows: [] })
  const tx = `0x${'e'.repeat(64)}`
  await ask(agentId, depositMade, { id: newId(Date.now()), tx })
  const grant = { grantId: newId(Date.now()), amount: fromUsdc(0.1), note: 'thanks' }
  await ask(agentId, grantGive, { ...grant, grantedBy: 'gas grant (test)' })
  for (const usdc of [0.3, 0.5]) {
    const asked = admission(usdc, { expiresAt: Date.now() + DAY })
    await ask(agentId, callAdmit, asked)
    const sharing = { promoTransferable: usdc === 0.3 }
    await ask(agentId, callSettle, settlement(asked, agentId, asked.amount, sharing))
  }
  await ask(referrer, balance, {})
}

/** A deposit of one dollar as the agent's inbox brings it. */
const depositMade: Command<{ id: string; tx: string }, void> = {
  name: 'test.deposit',
  kind: 'agent',
  apply(turn, { id, tx }) {
    const [pending, chain] = [fromUsdc(1), 'base'] as const
    const [debit, credit] = [worldOf(chain), pendingOf(turn.aggregateId)]
    turn.transfer({ debit, credit, amount: pending, kind: 'deposit' })
    absorbDeposit(turn, { type: 'DEPOSIT', id, pending, chain, tx, source: 'deposit' })
  },
}

/** A schedule that has run once. */
async function scheduled({ ask }: Node, agentId: string): Promise<void> {
  const wanted = { name: 'x', interval: '1h', tool: 'web_search', params: '{}' } as const
  const bounds = { budget: fromUsdc(0.05), writeToHive: false, ...NO_KEY }
  const { scheduleId, slot } = await ask(agentId, scheduleCreate, { ...wanted, ...bounds })
  const at = slot ?? 0
  const run = admission(0.02, { idempotencyKey: `schedule ${scheduleId} ${at}` })
  const touching = { touch: [{ kind: 'schedule' as const, id: scheduleId }] }
  await ask(agentId, callAdmit, run, touching)
  const { callId, amount: cost } = run
  const { budget } = bounds
  const end = { scheduleId, slot: at, at, callId, cost, budget, result: null, error: null }
  const told = settlement(run, agentId, cost, { ended: (turn) => endRun(turn, end) })
  await ask(agentId, callSettle, told, touching)
}

/** A schedule of a fleet's member that has stopped for want of credits. */
async function stopped({ ask, born }: Node): Promise<void> {
  const [fleetId, agentId] = [newId(Date.now()), await born(0.01)]
  await ask(fleetId, fleetCreate, { ownerId: agentId, rows: [] }, { fresh: true })
  await ask(fleetId, fleetJoin, { agentId })
  await ask(agentId, balance, {})
  const wanted = { name: 'x', interval: '1h', tool: 'web_search', params: '{}' } as const
  const bounds = { budget: fromUsdc(0.05), writeToHive: false, ...NO_KEY }
  const { scheduleId, slot } = await ask(agentId, scheduleCreate, { ...wanted, ...bounds })
  const [at, cost, { budget }] = [slot ?? 0, fromUsdc(0), bounds]
  const error = { code: 'payment_required', needed: fromUsdc(0.02) } as const
  const end = { scheduleId, slot: at, at, callId: null, cost, budget, result: null, error }
  await ask(agentId, scheduleMiss, end)
}

/** Three bounties: one that is open, one that was claimed, one that was taken back. */
async function rewards({ ask }: Node, posterId: string, agentId: string): Promise<void> {
  const about = { title: 'x', description: 'x', domain: 'x', requiredKeywords: [], minQuality: 0 }
  const bounds = { spender: UNLIMITED, promoTransferable: true }
  const wanted = { ...about, reward: fromUsdc(0.1), ttlHours: 1, ...bounds }
  const post = async () => (await ask(posterId, bountyPost, wanted)).bounty.bountyId
  await post()
  const appraisal = appraise('x', [])
  await ask(await post(), bountyClaim, { agentId, content: 'x', appraisal })
  await ask(await post(), bountyCancel, { agentId: posterId })
}

/** One payment that has settled, one that is due, one that waits for its result. */
async function payments(one: Node): Promise<void> {
  const [settled, due, waiting] = [0.03, 0.02, 0.05].map((usdc) =>
    claimOf(paymentOf(usdc), { mode: usdc === 0.05 ? 'first' : 'optimistic' }),
  ) as [Claim, Claim, Claim]
  for (const claimed of [settled, due, waiting]) await claim(one, claimed)
  for (const claimed of [settled, due])
    await about(one, claimed, paymentDeliver, outcomeOf(claimed))
  for (const claimed of [settled, waiting]) await settle(one, claimed)
}
export type Day = Awaited<ReturnType<typeof day>>
