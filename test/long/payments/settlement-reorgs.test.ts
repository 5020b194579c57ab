import { DAILY_BONUS_LIMIT } from '../../../domain/pricing.ts'
import t, { type Test } from 'tap'
import {
  findBlockHash,
  readLatestAndFinalBlocks,
} from '../../../chain/evm/incoming-token-transfers.ts'
import { createEvmClient } from '../../../chain/evm/evm-client.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import { findTransactionReceipt } from '../../../chain/evm/settler-evm-transactions.ts'
import { fromUsdc } from '../../../core/money.ts'
import { LIMITS } from '../../../core/limits.ts'
import { createFleetCommand, topUpFleetCommand } from '../../../payments/commands/fleet-commands.ts'
import { sendCreditsCommand } from '../../../payments/commands/agent-account-commands.ts'
import { createFinalityWatcher } from '../../../payments/settlement/finality-watcher.ts'
import { createFinalityStore } from '../../../persistence/payments/finality-store.ts'
import { TEST_TREASURY } from '../../support/payments/sample-payment-claims.ts'
import {
  sampleCreditTransferInput,
  assertNoInvariantViolations,
} from '../../support/actors/test-actor-node-pairs.ts'
import {
  waitForFinalSettlement,
  postPaidCall,
  HIVE_TRENDING_PRICE_ATOMIC,
  settlementIdOfReply,
  paymentSignatureHeader,
  startTestStationWithPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  readCreditBalances,
  requestUntilReplyMatches,
} from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'
import {
  advanceChainAndNodeTime,
  SETTLER_TRANSACTION_HANDOVER_MS,
  sendTransactionFrom,
  createRandomEvmAccount,
  encodeTokenCall,
  AUTHORIZATION_LIFETIME_MS,
  startSettlerScenario,
  type SettlerScenario,
} from '../../support/payments/settler-scenario.ts'

/** Number of blocks after which a reverted transaction counts as gone. */
const PAST = LIMITS.depositConfirmations

/** A watcher of one node, run by hand. */
function watching(at: SettlerScenario, node = at.all[0] as SettlerScenario['all'][number]) {
  const client = createEvmClient({ rpcUrl: at.chain.rpcUrl, chainId: at.chain.chainId })
  return createFinalityWatcher({
    chain: 'base',
    source: {
      // With this reply no block of the chain is final.
      heads: async () => ({ ...(await readLatestAndFinalBlocks(client)), finalized: 0n }),
      blockHash: (block) => findBlockHash(client, block),
      receiptOf: (tx) => findTransactionReceipt(client, tx as HexString),
      sentCount: () => client.getTransactionCount({ address: at.account.address }),
    },
    store: createFinalityStore(at.sql),
    actors: node.actors,
    settler: at.account.address.toLowerCase(),
    kick: () => {},
    clock: at.clock,
    log: () => {},
  })
}

const unfinal = async ({ sql }: SettlerScenario): Promise<number> => {
  const [row] = await sql<{ n: number }[]>`select count(*)::int as n from unfinalized_transfers`
  return row?.n ?? 0
}

/** Booked amount, less reversals. */
async function arrived({ sql }: SettlerScenario): Promise<bigint> {
  const [row] = await sql<{ sum: bigint }[]>`
    select coalesce(sum(case when debit = 'world:base' then amount_micros else -amount_micros end), 0)::bigint as sum
      from transfers where debit = 'world:base' or credit = 'world:base'`
  return row?.sum ?? 0n
}

/** Asserts that the balance on the chain equals the ledger, and that gas verify finds no difference. */
async function exact(t: Test, at: SettlerScenario) {
  t.equal(await arrived(at), await at.chain.balanceOf(TEST_TREASURY), 'chain and ledger')
  await assertNoInvariantViolations(t, at.sql)
}

const emptied = async (
  at: SettlerScenario,
  payer: Awaited<ReturnType<SettlerScenario['paid']>>['payer'],
) => {
  const left = await at.chain.balanceOf(payer.address)
  await sendTransactionFrom(
    at.chain,
    payer,
    encodeTokenCall('transfer', [createRandomEvmAccount().address, left]),
  )
}

/** Credits of an agent, bought with a payment that has settled. */
async function toppedUp(at: SettlerScenario, usdc: number, how: { seconds?: number } = {}) {
  const agentId = await at.actors.born(0)
  const made = await at.paid(usdc, { mode: 'first', ...how, purpose: { kind: 'topup', agentId } })
  await at.settler.settled(made.id, 10_000)
  return { ...made, agentId }
}

t.test('a reverted settled payment settles again and is paid once', async (t) => {
  const at = await startSettlerScenario(t)
  const watch = watching(at)
  await at.chain.mine(10)
  const [one, two] = [await at.paid(0.03), await at.paid(0.05)]
  for (const { id } of [one, two]) t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal(await watch.look(), 0)
  t.equal(await unfinal(at), 2)
  await at.chain.reorg(2)
  t.equal(await at.chain.balanceOf(TEST_TREASURY), 0n)
  t.equal(await watch.look(), 0, 'the transactions may stand in one of the next blocks')
  await at.chain.mine(PAST)
  t.equal(await watch.look(), 2)
  t.equal(await at.stateOf(one.claimed), 'unknown/delivered')
  await exact(t, at)
  for (const { id } of [one, two]) t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal(await at.chain.balanceOf(TEST_TREASURY), 80_000n)
  t.equal(await watch.look(), 0)
  await exact(t, at)
})

t.test('other transactions of the settler are resent too, in nonce order', async (t) => {
  const at = await startSettlerScenario(t)
  const watch = watching(at)
  await at.chain.mine(10)
  const one = await at.paid(0.03)
  await at.settler.settled(one.id, 10_000)
  const own = encodeTokenCall('approve', [createRandomEvmAccount().address, 1n])
  const call = { ...own, chain: 'base', purpose: 'own:1' } as const
  t.equal((await at.settler.submit(call)).state, 'mined')
  const two = await at.paid(0.05)
  await at.settler.settled(two.id, 10_000)
  await watch.look()
  t.equal(await at.sent(), 3)
  await at.chain.reorg(4)
  t.equal(await at.sent(), 0)
  await at.chain.mint(two.payer.address, 50_000n)
  await emptied(at, one.payer)
  await at.chain.mine(PAST)
  t.equal(await watch.look(), 2)
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  for (let round = 0; round < 3; round += 1) await at.settler.sweep()
  t.equal(await at.settler.settled(two.id, 10_000), 'settled', 'no gap holds it up')
  t.equal(await at.stateOf(one.claimed), 'unknown/delivered')
  await exact(t, at)
})

t.test('a revert seen by two nodes is booked once', async (t) => {
  const at = await startSettlerScenario(t, { nodes: 2 })
  const [here, there] = at.all.map((node) => watching(at, node)) as [
    ReturnType<typeof watching>,
    ReturnType<typeof watching>,
  ]
  await at.chain.mine(10)
  const made = await at.paid(0.03)
  await at.settler.settled(made.id, 10_000)
  await here.look()
  await at.chain.reorg(1)
  await at.chain.mine(PAST)
  await Promise.all([here.look(), there.look(), here.look()])
  t.equal(await at.stateOf(made.claimed), 'unknown/delivered')
  await exact(t, at)
  t.equal(await at.settler.settled(made.id, 10_000), 'settled')
  await exact(t, at)
})

t.test('a payer that moved the money meanwhile is a loss and must settle first', async (t) => {
  const at = await startSettlerScenario(t)
  const watch = watching(at)
  await at.chain.mine(10)
  const made = await at.paid(0.03)
  await at.settler.settled(made.id, 10_000)
  await watch.look()
  await at.chain.reorg(1)
  await emptied(at, made.payer)
  await at.chain.mine(PAST)
  t.equal(await watch.look(), 1)
  t.equal(await at.settler.settled(made.id, 500), 'pending', 'it may come back until it expires')
  await advanceChainAndNodeTime(at, AUTHORIZATION_LIFETIME_MS)
  t.equal(await at.settler.settled(made.id, 10_000), 'lost')
  const [loss] = await at.sql<{ debit: string; amount_micros: bigint }[]>`
    select debit, amount_micros from transfers where kind = 'loss' and memo = ${made.id}`
  t.match(loss, { debit: 'treasury:fees', amount_micros: 30_000n })
  const [payer] = await at.sql<{ value: string }[]>`
    select state->>'value' as value from actors where kind = 'payer'`
  t.equal(payer?.value, 'blocked')
  t.equal(await unfinal(at), 0)
  await exact(t, at)
})

t.test('bought credits remain until their payment is lost', async (t) => {
  const at = await startSettlerScenario(t)
  const watch = watching(at)
  await at.chain.mine(10)
  const { agentId, id, payer, claimed } = await toppedUp(at, 4)
  t.strictSame(await readCreditBalances(at.actors, agentId), [4, 1, 0])
  await watch.look()
  await at.chain.reorg(1)
  await at.chain.mine(PAST)
  t.equal(await watch.look(), 1)
  t.strictSame(
    await readCreditBalances(at.actors, agentId),
    [4, 1, 0],
    'it is settled again in a moment',
  )
  await exact(t, at)
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.strictSame(await readCreditBalances(at.actors, agentId), [4, 1, 0], 'and not credited twice')
  await exact(t, at)

  await watch.look()
  await at.chain.reorg(1)
  await emptied(at, payer)
  await at.chain.mine(PAST)
  t.equal(await watch.look(), 1)
  const friend = await at.actors.born(0)
  const gift = { ...sampleCreditTransferInput(friend, 3), promoTransferable: false }
  await at.actors.ask(agentId, sendCreditsCommand, gift)
  await advanceChainAndNodeTime(at, AUTHORIZATION_LIFETIME_MS)
  t.equal(await at.settler.settled(id, 10_000), 'lost')
  t.equal(await at.stateOf(claimed), 'lost/delivered')
  t.strictSame(
    await readCreditBalances(at.actors, agentId),
    [0, 0, 0],
    'what was left, and the bonus',
  )
  t.strictSame(await readCreditBalances(at.actors, friend), [3, 0, 0], 'what others got is theirs')
  const [loss] = await at.sql<{ amount: bigint }[]>`
    select sum(amount_micros)::bigint as amount from transfers where kind = 'loss'`
  t.equal(loss?.amount, 3_000_000n)
  await exact(t, at)
})

t.test('final transactions are no longer watched', async (t) => {
  const at = await startSettlerScenario(t)
  const client = createEvmClient({ rpcUrl: at.chain.rpcUrl, chainId: at.chain.chainId })
  const made = await at.paid(0.03)
  await at.settler.settled(made.id, 10_000)
  await watching(at).look()
  t.equal(await unfinal(at), 1)
  const final = createFinalityWatcher({
    chain: 'base',
    source: {
      heads: async () => {
        const seen = await readLatestAndFinalBlocks(client)
        return { ...seen, finalized: seen.latest }
      },
      blockHash: (block) => findBlockHash(client, block),
      receiptOf: (tx) => findTransactionReceipt(client, tx as HexString),
      sentCount: async () => 0,
    },
    store: createFinalityStore(at.sql),
    actors: at.actors,
    settler: at.account.address.toLowerCase(),
    kick: () => {},
    clock: at.clock,
    log: () => {},
  })
  t.equal(await final.look(), 0)
  t.equal(await unfinal(at), 0)
})

t.test('a reverted top-up of a fleet is taken out of its pool', async (t) => {
  const at = await startSettlerScenario(t)
  const watch = watching(at)
  await at.chain.mine(10)
  const [owner, fleetId] = [await at.actors.born(0), crypto.randomUUID()]
  await at.actors.ask(fleetId, createFleetCommand, { ownerId: owner, rows: [] }, { fresh: true })
  const tx = await at.chain.mint(TEST_TREASURY, 4_000_000n)
  const transfers = [{ logIndex: 0, amount: fromUsdc(4) }]
  const bonusLeft = DAILY_BONUS_LIMIT
  await at.actors.ask(fleetId, topUpFleetCommand, { tx, transfers, bonusLeft })
  const pool = async () => {
    const [row] = await at.sql<{ cash: string; promo: string }[]>`
      select state->'context'->'cash'->>'$n' as cash, state->'context'->'promo'->>'$n' as promo
        from actors where kind = 'fleet'`
    return [row?.cash, row?.promo]
  }
  t.strictSame(await pool(), ['4000000', '1000000'])
  t.equal(await watch.look(), 0)
  await exact(t, at)
  await at.chain.reorg(1)
  await at.chain.mine(PAST)
  t.equal(await watch.look(), 1)
  t.strictSame(await pool(), ['0', '0'])
  await exact(t, at)
  const again = await at.chain.mint(TEST_TREASURY, 4_000_000n)
  await at.actors.ask(fleetId, topUpFleetCommand, { tx: again, transfers, bonusLeft })
  t.strictSame(await pool(), ['4000000', '1000000'], 'and its bonus comes with the next one')
  t.equal(await watch.look(), 0)
  await exact(t, at)
})

t.test('a station detects the reorg and settles again', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const header = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  const answer = await postPaidCall(main, header)
  const id = settlementIdOfReply(answer)
  t.match(await waitForFinalSettlement(main, id), { state: 'settled' })
  const anchored = async () => {
    const [row] = await main.sql<{ block_hash: string | null }[]>`
      select block_hash from unfinalized_transfers`
    return row?.block_hash ?? null
  }
  await requestUntilReplyMatches(anchored, (hash) => hash !== null)
  await till.base.reorg(1)
  t.equal(await till.treasuryBalance(), 0n)
  await till.base.mine(PAST)
  await requestUntilReplyMatches(
    till.treasuryBalance,
    (value) => value === HIVE_TRENDING_PRICE_ATOMIC,
  )
  t.match(await waitForFinalSettlement(main, id), { state: 'settled', delivery: 'delivered' })
  t.equal((await postPaidCall(main, header)).text, answer.text)
  await main.verify()
})

t.test('a payment that is claimed again is searched in earlier blocks too', async (t) => {
  const at = await startSettlerScenario(t)
  await at.chain.mine(100)
  const made = await at.paid(0.03, { mode: 'first' })
  const proof = await at.store.proof(made.id)
  const block = await at.chain.client.getBlockNumber()
  t.ok(proof !== null && proof.fromBlock < block - 32n)
})
