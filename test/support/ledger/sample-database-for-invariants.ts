import { ensureAttestationKey } from '../../../persistence/attestations/attestation-key-store.ts'
import { appendFeesToAttestationTree } from '../../../persistence/attestations/attestation-tree-writer.ts'
import { TEST_STATION_SEALING_KEYS } from './rewrite-attestations.ts'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { createBackpackCommand } from '../../../actors/commands/backpacks-commands.ts'
import {
  completeScheduleRun,
  createScheduleCommand,
  failScheduleRunCommand,
} from '../../../actors/commands/schedule-aggregate-commands.ts'
import { startTaskCommand } from '../../../actors/commands/task-session-actor-commands.ts'
import { updateHiveWatchList } from '../../../actors/commands/update-hive-watch-list.ts'
import { DAY, HOUR, utcDay } from '../../../core/clock.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { UNLIMITED_API_KEY_SPENDING } from '../../../domain/api-key-spending-limits.ts'
import { fromUsdc } from '../../../core/money.ts'
import { scoreBountyContent } from '../../../payments/bounty-scoring.ts'
import {
  cancelBountyCommand,
  claimBountyCommand,
  postBountyCommand,
} from '../../../payments/commands/bounty-commands.ts'
import {
  admitCallCommand,
  failCallCommand,
  releaseCallHoldCommand,
  settleCallCommand,
} from '../../../payments/commands/call-commands.ts'
import {
  buyMemoryListingCommand,
  offerMemoriesForSaleCommand,
  rateMemoryListingCommand,
  withdrawMemoryListingCommand,
} from '../../../payments/commands/memory-listing-commands.ts'
import { applyDepositMessage } from '../../../payments/commands/agent-deposit-inbox-messages.ts'
import {
  openCreditDropCommand,
  redeemCreditDropCommand,
} from '../../../payments/commands/credit-drop-commands.ts'
import {
  createFleetCommand,
  drawFromFleetCommand,
  joinFleetCommand,
  topUpFleetCommand,
} from '../../../payments/commands/fleet-commands.ts'
import {
  deliverPaidCallsCommand,
  type PaymentClaimInput,
} from '../../../payments/commands/payment-claim-commands.ts'
import { giveOperatorCreditGrantCommand } from '../../../payments/commands/operator-credit-grant-commands.ts'
import {
  createAgentCommand,
  getAgentBalanceCommand,
  tipAgentCommand,
  sendCreditsCommand,
} from '../../../payments/commands/agent-account-commands.ts'
import {
  agentSubMinimumDepositsAccount,
  externalChainAccount,
} from '../../../payments/ledger-accounts.ts'
import { createRoyaltyStore } from '../../../persistence/hive/royalty-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { archiveRestingAgentJournal } from './archive-journal-of-sample-agent.ts'
import { createTestDatabase } from '../postgres/test-database.ts'
import { recordSampleBundleAgentSharingFees, recordSampleTaskPass } from './sample-task-passes.ts'
import { recordSampleCommunityToolCall } from './sample-community-tool-call.ts'
import { recordSampleVaultActivity } from './sample-vault-activity.ts'
import {
  runSettlementCommand,
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  samplePaidCallOutcome,
  samplePayment,
  reportClaimedPaymentSettled,
} from '../payments/sample-payment-claims.ts'
import { sampleCreditTransferInput, UNLIMITED_SPENDER } from '../actors/test-actor-node-pairs.ts'
import {
  sampleCallAdmissionRequest,
  failCallInputOfAdmission,
  createTestActorNode,
  settleCallInputOfAdmission,
  touchedAggregatesOfAdmission,
  type TestActorNode,
} from '../actors/test-actor-node.ts'

/** A database with at least one object for every rule of `gas verify`. */

const NO_KEY = { keyId: null, backpackId: null, sealed: null }

/** Creates the activity of two agents that covers every rule. */
export async function createSampleLedger(t: Parameters<typeof createTestDatabase>[0]) {
  const database = await createTestDatabase(t)
  const { sql } = database
  const one = createTestActorNode(t, sql)
  const { ask, born } = one
  const [id, other] = [await born(0.5), await born(0.5)]
  const fuse = { perCall: fromUsdc(0.2), perDay: fromUsdc(0.4), perMonth: null }
  const pager = { webhookUrl: null, ownerEmail: null, ownerTelegram: null }
  const pack = { agentName: 'scout', tools: null, fuse, pager, expiresAt: Date.now() + 90 * DAY }
  const { backpackId } = await ask(id, createBackpackCommand, pack)
  const { taskId } = await ask(id, startTaskCommand, { name: 'work', budget: fromUsdc(0.4) })
  const limits = { taskId, backpackId, idempotencyKey: 'k1' }
  const later = { expiresAt: Date.now() + DAY }
  const [soft, durable, open, failed] = [
    sampleCallAdmissionRequest(0.05, limits),
    sampleCallAdmissionRequest(0.1, { ...limits, ...later, idempotencyKey: null }),
    sampleCallAdmissionRequest(0.02, later),
    sampleCallAdmissionRequest(0.01),
  ]
  for (const one of [soft, durable, open, failed])
    await ask(id, admitCallCommand, one, touchedAggregatesOfAdmission(one))
  await ask(
    id,
    settleCallCommand,
    settleCallInputOfAdmission(soft, id),
    touchedAggregatesOfAdmission(soft),
  )
  await ask(
    id,
    settleCallCommand,
    settleCallInputOfAdmission(durable, id, fromUsdc(0.07)),
    touchedAggregatesOfAdmission(durable),
  )
  await ask(id, failCallCommand, failCallInputOfAdmission(failed, id))
  const payment = sampleCreditTransferInput(id, 0.1)
  await ask(other, sendCreditsCommand, payment)
  await ask(id, getAgentBalanceCommand, {})
  await ask(other, tipAgentCommand, payment)
  await addPayments(one)
  await addFleetAndDrop(one, await born(0.5))
  await addBounties(one, await born(0.5), other)
  await addCappedKeySpend(one, await born(0.5), other)
  await addScheduledRun(one, await born(0.5))
  await addStrategyAndHiveRead(one, sql, await born(0.5), other)
  await recordSampleCommunityToolCall(one, await born(0.5), other)
  await recordSampleVaultActivity(one, await born(0.5))
  await addListings(one, sql, await born(0.5), [id, other])
  await addPausedSchedule(one)
  await addReferredAgent(one, other)
  await recordSampleTaskPass(one, await born(1.5))
  await recordSampleBundleAgentSharingFees(one, other)
  await ensureAttestationKey(sql, TEST_STATION_SEALING_KEYS)
  const [sealing, origin] = [TEST_STATION_SEALING_KEYS, 'gas.test/attestations']
  await appendFeesToAttestationTree({ sql, sealing, origin })
  const archiveDir = await archiveRestingAgentJournal(t, sql, await born(0.5))
  return { sql, database, id, other, taskId, backpackId, archiveDir }
}

/**
 * A fleet with a bonus whose loans are repaid in both kinds of credits, and a drop with one claimed
 * slot.
 */
async function addFleetAndDrop({ ask }: TestActorNode, agentId: string): Promise<void> {
  const [fleetId, tx] = [newUuidV7(Date.now()), `0x${'f'.repeat(64)}`]
  await ask(fleetId, createFleetCommand, { ownerId: agentId, rows: [] }, { fresh: true })
  await ask(fleetId, joinFleetCommand, { agentId })
  const transfers = [{ logIndex: 0, amount: fromUsdc(1) }]
  await ask(fleetId, topUpFleetCommand, { tx, transfers, bonusLeft: fromUsdc(1) })
  for (const callId of [newUuidV7(Date.now()), newUuidV7(Date.now())]) {
    await ask(fleetId, drawFromFleetCommand, {
      id: newUuidV7(Date.now()),
      agentId,
      callId,
      amount: fromUsdc(0.3),
    })
    await ask(agentId, getAgentBalanceCommand, {})
    await ask(agentId, releaseCallHoldCommand, { callId })
  }
  await ask('RADIODROP-X', openCreditDropCommand, {}, { fresh: true })
  await ask('RADIODROP-X', redeemCreditDropCommand, { agentId })
}

/** A transfer and a call of a capped key in its Backpack. */
async function addCappedKeySpend(
  { ask }: TestActorNode,
  agentId: string,
  toAgentId: string,
): Promise<void> {
  const { backpackId } = await ask(agentId, createBackpackCommand, {
    agentName: 'bounded',
    tools: ['agent_send', 'web_search'],
    fuse: { perCall: null, perDay: null, perMonth: null },
    pager: { webhookUrl: null, ownerEmail: null, ownerTelegram: null },
    expiresAt: Date.now() + 90 * DAY,
  })
  const caps = { cap: fromUsdc(0.3), capPerDay: fromUsdc(0.2) }
  const key = { ...UNLIMITED_API_KEY_SPENDING, ...caps, id: newUuidV7(Date.now()), backpackId }
  await ask(agentId, sendCreditsCommand, {
    ...sampleCreditTransferInput(toAgentId, 0.1),
    spender: { key, backpackId, taskId: null },
  })
  const call = sampleCallAdmissionRequest(0.05, { key, backpackId })
  await ask(agentId, admitCallCommand, call, touchedAggregatesOfAdmission(call))
  await ask(
    agentId,
    settleCallCommand,
    settleCallInputOfAdmission(call, agentId),
    touchedAggregatesOfAdmission(call),
  )
}

/** A forked strategy, a watch, and a Hive entry with a royalty paid from the pool. */
async function addStrategyAndHiveRead(
  { ask }: TestActorNode,
  sql: Sql,
  agentId: string,
  author: string,
): Promise<void> {
  const [at, strategyId] = [new Date().toISOString(), newUuidV7(Date.now())]
  const fork = sampleCallAdmissionRequest(0.03)
  const share = { to: author, amount: fromUsdc(0.02), withoutFee: true }
  const forked = {
    fork_id: newUuidV7(Date.now()),
    strategy_id: strategyId,
    author,
    agent_id: agentId,
    call_id: fork.callId,
    royalty_micros: 20_000,
    at,
  }
  const rows = [{ table: 'strategy_forks', row: forked }]
  await ask(agentId, admitCallCommand, fork)
  const told = settleCallInputOfAdmission(fork, agentId, fork.amount, { rows, shares: [share] })
  await ask(agentId, settleCallCommand, told)

  const [watched, watchId] = [sampleCallAdmissionRequest(0.02), newUuidV7(Date.now())]
  const watch = {
    watch_id: watchId,
    agent_id: agentId,
    keyword: 'gas',
    namespace: null,
    call_id: watched.callId,
    created_at: at,
    ended_at: null,
  }
  await ask(agentId, admitCallCommand, watched)
  const began = settleCallInputOfAdmission(watched, agentId, watched.amount, {
    rows: [{ table: 'hive_watches', row: watch }],
    ended: (turn) => updateHiveWatchList(turn, { type: 'BEGIN', watchId }),
  })
  await ask(agentId, settleCallCommand, began)
  await addPaidHiveRead({ ask }, sql, agentId, author)
}

async function addPaidHiveRead(
  { ask }: Pick<TestActorNode, 'ask'>,
  sql: Sql,
  agentId: string,
  author: string,
) {
  const [entryId, at] = [newUuidV7(Date.now()), new Date()]
  const royalties = createRoyaltyStore(sql)
  await royalties.pay(at, true)
  const reading = sampleCallAdmissionRequest(0.3)
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
  await ask(agentId, admitCallCommand, reading)
  const rows = [{ table: 'hive_reads', row }]
  await ask(
    agentId,
    settleCallCommand,
    settleCallInputOfAdmission(reading, agentId, reading.amount, { rows }),
  )
  await sql`update royalty_pool set fed_until = ${new Date(at.getTime() - DAY)}`
  await royalties.pay(new Date(at.getTime() + HOUR), true)
  await ask(author, getAgentBalanceCommand, {})
}

/** A referred agent with its first deposit that pays in both kinds of credits, and a grant. */
async function addReferredAgent({ ask }: TestActorNode, referrer: string): Promise<void> {
  const agentId = newUuidV7(Date.now())
  await ask(agentId, createAgentCommand, { agentId, starter: fromUsdc(0), referrer, rows: [] })
  const tx = `0x${'e'.repeat(64)}`
  await ask(agentId, bookDeposit, { id: newUuidV7(Date.now()), tx })
  const grant = { grantId: newUuidV7(Date.now()), amount: fromUsdc(0.1), note: 'thanks' }
  await ask(agentId, giveOperatorCreditGrantCommand, { ...grant, grantedBy: 'gas grant (test)' })
  for (const usdc of [0.3, 0.5]) {
    const asked = sampleCallAdmissionRequest(usdc, { expiresAt: Date.now() + DAY })
    await ask(agentId, admitCallCommand, asked)
    const sharing = { promoTransferable: usdc === 0.3 }
    await ask(
      agentId,
      settleCallCommand,
      settleCallInputOfAdmission(asked, agentId, asked.amount, sharing),
    )
  }
  await ask(referrer, getAgentBalanceCommand, {})
}

/** Credits a deposit of one dollar as the agent's inbox does. */
const bookDeposit: AggregateCommand<{ id: string; tx: string }, void> = {
  name: 'test.deposit',
  kind: 'agent',
  apply(turn, { id, tx }) {
    const [amount, chain, source] = [fromUsdc(1), 'base', 'deposit'] as const
    const [debit, where] = [externalChainAccount(chain), { id, chain, tx, source }]
    const credit = agentSubMinimumDepositsAccount(turn.aggregateId)
    turn.transfer({ debit, credit, amount, kind: source })
    applyDepositMessage(turn, { type: 'DEPOSIT', pending: amount, bonusLeft: amount, ...where })
  },
}

/** A schedule that has run once. */
async function addScheduledRun({ ask }: TestActorNode, agentId: string): Promise<void> {
  const wanted = { name: 'x', interval: '1h', tool: 'web_search', params: '{}' } as const
  const bounds = { budget: fromUsdc(0.05), writeToHive: false, ...NO_KEY }
  const { scheduleId, slot } = await ask(agentId, createScheduleCommand, { ...wanted, ...bounds })
  const at = slot ?? 0
  const run = sampleCallAdmissionRequest(0.02, { idempotencyKey: `schedule ${scheduleId} ${at}` })
  const touching = { touch: [{ kind: 'schedule' as const, id: scheduleId }] }
  await ask(agentId, admitCallCommand, run, touching)
  const { callId, amount: cost } = run
  const { budget } = bounds
  const end = { scheduleId, slot: at, at, callId, cost, budget, result: null, error: null }
  const told = settleCallInputOfAdmission(run, agentId, cost, {
    ended: (turn) => completeScheduleRun(turn, end),
  })
  await ask(agentId, settleCallCommand, told, touching)
}

/** A schedule of a fleet member, paused for lack of credits. */
async function addPausedSchedule({ ask, born }: TestActorNode): Promise<void> {
  const [fleetId, agentId] = [newUuidV7(Date.now()), await born(0.01)]
  await ask(fleetId, createFleetCommand, { ownerId: agentId, rows: [] }, { fresh: true })
  await ask(fleetId, joinFleetCommand, { agentId })
  await ask(agentId, getAgentBalanceCommand, {})
  const wanted = { name: 'x', interval: '1h', tool: 'web_search', params: '{}' } as const
  const bounds = { budget: fromUsdc(0.05), writeToHive: false, ...NO_KEY }
  const { scheduleId, slot } = await ask(agentId, createScheduleCommand, { ...wanted, ...bounds })
  const [at, cost, { budget }] = [slot ?? 0, fromUsdc(0), bounds]
  const error = { code: 'payment_required', needed: fromUsdc(0.02) } as const
  const end = { scheduleId, slot: at, at, callId: null, cost, budget, result: null, error }
  await ask(agentId, failScheduleRunCommand, end)
}

/** An open, a claimed and a cancelled bounty. */
async function addBounties(
  { ask }: TestActorNode,
  posterId: string,
  agentId: string,
): Promise<void> {
  const about = { title: 'x', description: 'x', domain: 'x', requiredKeywords: [], minQuality: 0 }
  const bounds = { spender: UNLIMITED_SPENDER, promoTransferable: true }
  const wanted = { ...about, reward: fromUsdc(0.1), ttlHours: 1, ...bounds }
  const post = async () => (await ask(posterId, postBountyCommand, wanted)).bounty.bountyId
  await post()
  const appraisal = scoreBountyContent('x', [])
  await ask(await post(), claimBountyCommand, { agentId, content: 'x', appraisal })
  await ask(await post(), cancelBountyCommand, { agentId: posterId })
}

/** An open and a withdrawn listing, both sold and rated. */
async function addListings(
  { ask }: TestActorNode,
  sql: Sql,
  sellerId: string,
  buyers: readonly string[],
): Promise<void> {
  const memoryIds = [newUuidV7(Date.now())]
  await sql`insert into vault_memories (id, agent_id, content, type, tags, importance, immortal, namespace, origin, vector, call_id, at)
    values (${memoryIds[0] ?? ''}, ${sellerId}, 'x', 'fact', '{}', 0.5, true, 'vault', '{"by": "write"}', '\\x00', ${sellerId}, now())`
  const terms = { name: 'x', description: 'x', price: fromUsdc(0.1), acceptsPromo: true }
  const shown = { types: ['fact'], tags: [], previews: [] }
  for (const isWithdrawn of [false, true]) {
    const offered = { ...terms, ...shown, memoryIds }
    const listing = await ask(sellerId, offerMemoriesForSaleCommand, offered)
    const { listingId } = listing
    const spender = { ...UNLIMITED_SPENDER, taskId: null }
    for (const buyer of buyers) {
      await ask(buyer, buyMemoryListingCommand, { listing, spender, promoTransferable: true })
      await ask(buyer, rateMemoryListingCommand, { listingId, stars: 4 })
    }
    if (isWithdrawn) await ask(listingId, withdrawMemoryListingCommand, { agentId: sellerId })
  }
}

/** A settled, a due and a pending payment. */
async function addPayments(one: TestActorNode): Promise<void> {
  const [settled, due, waiting] = [0.03, 0.02, 0.05].map((usdc) =>
    samplePaymentClaimInput(samplePayment(usdc), { mode: usdc === 0.05 ? 'first' : 'optimistic' }),
  ) as [PaymentClaimInput, PaymentClaimInput, PaymentClaimInput]
  for (const claimed of [settled, due, waiting]) await claimPaymentOnTestNode(one, claimed)
  for (const claimed of [settled, due]) {
    const outcome = samplePaidCallOutcome(claimed)
    await runSettlementCommand(one, claimed, deliverPaidCallsCommand, outcome)
  }
  for (const claimed of [settled, waiting]) await reportClaimedPaymentSettled(one, claimed)
}
export type InvariantSampleDatabase = Awaited<ReturnType<typeof createSampleLedger>>
