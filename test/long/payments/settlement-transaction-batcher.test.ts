import t, { type Test } from 'tap'
import { parseTransaction } from 'viem'
import { decodeMulticallCalls } from '../../../chain/evm/multicall.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import { SECOND } from '../../../core/clock.ts'
import { createSettlerTransactionSender } from '../../../payments/settlement/settler-transaction-sender.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { assertNoInvariantViolations } from '../../support/actors/test-actor-node-pairs.ts'
import { TEST_TREASURY } from '../../support/payments/sample-payment-claims.ts'
import {
  signAuthorizationCancellation,
  SETTLER_TRANSACTION_HANDOVER_MS,
  countMempoolTransactions,
  sendTransactionFrom,
  settlementTransferCallOf,
  createRandomEvmAccount,
  encodeTokenCall,
  encodeCancelAuthorization,
  listSettlerTransactions,
  pollUntilTrue,
  startSettlerScenario,
  type SettlerScenario,
} from '../../support/payments/settler-scenario.ts'

type Paid = Awaited<ReturnType<SettlerScenario['paid']>>

/** Delivered payments of as many payers, that are due at the same time. */
async function due(at: SettlerScenario, count: number): Promise<Paid[]> {
  const made: Paid[] = []
  for (let n = 0; n < count; n += 1) made.push(await at.paid(0.01))
  return made
}

const settled = (at: SettlerScenario, made: readonly Paid[], settler = at.settler) =>
  Promise.all(made.map(({ id }) => settler.settled(id, 20_000)))

/** How many calls each transaction carries; null is a direct one. */
const sizesOf = async (sql: Sql) => {
  const rows = await sql<
    { raw: HexString }[]
  >`select raw from settler_txs order by nonce, created_at`
  return rows.map(({ raw }) => {
    const { to, data = '0x' } = parseTransaction(raw)
    return decodeMulticallCalls({ to: to ?? '', data })?.length ?? null
  })
}

const isWell = async (t: Test, at: SettlerScenario, count: number): Promise<void> => {
  t.equal(await at.chain.balanceOf(TEST_TREASURY), 10_000n * BigInt(count))
  await assertNoInvariantViolations(t, at.sql)
}

t.test('payments due together share a transaction, a single one is sent directly', async (t) => {
  const at = await startSettlerScenario(t)
  const made = await due(at, 5)
  t.strictSame([...new Set(await settled(at, made))], ['settled'])
  t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, carried: 5, state: 'mined' }])
  const [last] = (await due(at, 1)) as [Paid]
  t.equal(await at.settler.settled(last.id, 20_000), 'settled')
  t.strictSame(await sizesOf(at.sql), [5, null])
  const hashes = await Promise.all(
    made.map(async ({ claimed }) => (await at.find(claimed))?.txHash),
  )
  t.equal(new Set(hashes).size, 1)
  await isWell(t, at, 6)
})

t.test('a batch makes as many chain requests as a single payment', async (t) => {
  const at = await startSettlerScenario(t)
  const made = await due(at, 8)
  at.gate.seen.splice(0)
  await settled(at, made)
  const asked = (method: string) => at.gate.seen.filter((one) => one === method).length
  // On a busy machine the first may go before the others are there, and a payment that comes after the answer to a
  // broadcast repeats it. Without a batch, or without shared broadcasts, there are eight.
  const few = (method: string, most: number) =>
    t.ok(asked(method) <= most, `${asked(method)} times ${method}`)
  few('eth_call', 2)
  few('eth_sendRawTransaction', 5)
  few('eth_estimateGas', 1)
  few('eth_getTransactionReceipt', 4)
})

t.test('a payment with a waiting caller is sent alone', async (t) => {
  const at = await startSettlerScenario(t)
  const made = await due(at, 2)
  const first = await at.paid(0.01, { mode: 'first' })
  t.strictSame([...new Set(await settled(at, [...made, first]))], ['settled'])
  t.strictSame(new Set(await sizesOf(at.sql)), new Set([2, null]))
  await isWell(t, at, 3)
})

t.test('a payment that would fail is excluded before signing', async (t) => {
  const at = await startSettlerScenario(t)
  const [gone, ...good] = (await due(at, 4)) as [Paid, ...Paid[]]
  const signature = await signAuthorizationCancellation(gone.payer, gone.payment)
  const { asset, from, nonce } = { ...gone.payment }
  await sendTransactionFrom(at.chain, createRandomEvmAccount(), {
    to: asset,
    data: encodeCancelAuthorization(from, nonce, signature),
  })
  const ends = await settled(at, [gone, ...good])
  t.strictSame(ends, ['lost', 'settled', 'settled', 'settled'])
  t.strictSame(await sizesOf(at.sql), [3])
  await isWell(t, at, 3)
})

t.test('a payment that fails in a batch is handled and sent again alone', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 10_000 })
  const made = await due(at, 5)
  const [poor, poorer, taken] = made as [Paid, Paid, Paid]
  await at.chain.client.setAutomine(false)
  for (const { id } of made) at.settler.kick(id)
  await pollUntilTrue(async () => (await countMempoolTransactions(at)) === 1)
  const sooner = { wait: false, tip: 10n ** 11n }
  const away = encodeTokenCall('transfer', [createRandomEvmAccount().address, 10_000n])
  for (const { payer } of [poor, poorer]) await sendTransactionFrom(at.chain, payer, away, sooner)
  const theirs = await sendTransactionFrom(
    at.chain,
    createRandomEvmAccount(),
    settlementTransferCallOf(taken.payment),
    sooner,
  )
  await at.chain.mine(1)
  for (const { claimed } of [poor, poorer])
    await pollUntilTrue(async () => (await at.stateOf(claimed)) === 'unknown/delivered')
  await at.chain.client.setAutomine(true)
  for (const { payer } of [poor, poorer]) await at.chain.mint(payer.address, 10_000n)
  t.strictSame([...new Set(await settled(at, made))], ['settled'])
  t.equal((await at.find(taken.claimed))?.txHash, theirs, 'somebody else was faster')
  t.strictSame(await sizesOf(at.sql), [5, null, null])
  await isWell(t, at, 5)
})

t.test('a node dies between storing a batch and sending it: another one sends it', async (t) => {
  const at = await startSettlerScenario(t, { nodes: 2 })
  const made = await due(at, 3)
  at.gate.decide((method) => (method === 'eth_sendRawTransaction' ? 'lost' : 'pass'))
  for (const { id } of made) at.settler.kick(id)
  await pollUntilTrue(async () => at.gate.seen.includes('eth_sendRawTransaction'))
  await at.settler.close()
  t.equal(await at.sent(), 0)
  at.gate.decide(() => 'pass')
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  const other = at.all[1]?.settler
  await other?.sweep()
  t.strictSame([...new Set(await settled(at, made, other))], ['settled'])
  t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, carried: 3, state: 'mined' }])
  await isWell(t, at, 3)
})

t.test('a node crashes between storing a batch and reporting it', async (t) => {
  const at = await startSettlerScenario(t)
  const made = await due(at, 3)
  const { transactions, clock, log } = at.parts
  const settling = at.parts.base
  if (settling === null) throw new Error('there is a chain')
  const { signal } = new AbortController()
  const dead = createSettlerTransactionSender({
    chain: 'base',
    ...settling,
    transactions,
    clock,
    log,
    signal,
  })
  const calls = new Map(made.map(({ id, payment }) => [id, settlementTransferCallOf(payment)]))
  await dead.prepareTogether(calls, (members) => 200_000n * BigInt(members))
  t.equal(await at.stateOf((made[0] as Paid).claimed), 'due/delivered')
  const more = await due(at, 2)
  t.strictSame([...new Set(await settled(at, [...made, ...more]))], ['settled'])
  t.match(await listSettlerTransactions(at.sql), [{ carried: 3 }, { carried: 2 }])
  await isWell(t, at, 5)
})

t.test('a batch that is not mined is sent again in full at a higher fee', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 200 })
  const made = await due(at, 3)
  await at.chain.client.setAutomine(false)
  for (const { id } of made) at.settler.kick(id)
  await pollUntilTrue(
    async () => (await at.stateOf((made[0] as Paid).claimed)) === 'unknown/delivered',
  )
  at.clock.pass(31 * SECOND)
  await at.settler.sweep()
  t.match(await listSettlerTransactions(at.sql), [
    { nonce: 0n, carried: 3, replaced: true },
    { nonce: 0n, carried: 3, replaced: false },
  ])
  await at.chain.client.setAutomine(true)
  await at.chain.mine(1)
  t.strictSame([...new Set(await settled(at, made))], ['settled'])
  t.equal(await at.sent(), 1)
  await isWell(t, at, 3)
})

t.test('a token whose transfers exceed the batch gas is paid one by one', async (t) => {
  const at = await startSettlerScenario(t)
  const made = await due(at, 3)
  // Without Multicall3 nothing can be tried together either.
  await at.chain.client.setCode({
    address: '0xca11bde05977b3631167028862be2a173976ca11',
    bytecode: '0x5b600056',
  })
  t.strictSame([...new Set(await settled(at, made))], ['settled'])
  t.strictSame(await sizesOf(at.sql), [null, null, null])
  t.match(made[0]?.payment.asset, PAYMENT_NETWORKS.base.asset)
  await isWell(t, at, 3)
})

/** Takes every signature for good (ERC-1271). */
const YES_MAN = '0x631626ba7e60e01b60005260206000f3'
/** Runs until there is no gas left. */
const GLUTTON = '0x5b600056'

/** Installs code on the account of a payer (EIP-7702). */
async function delegate(
  { chain }: SettlerScenario,
  { payer }: Paid,
  code: HexString,
): Promise<void> {
  const { address } = createRandomEvmAccount()
  await chain.client.setCode({ address, bytecode: code })
  await chain.client.setCode({
    address: payer.address,
    bytecode: `0xef0100${address.slice(2).toLowerCase()}`,
  })
}

t.test(
  'a payment of a payer with code is sent alone, for any return value of the code',
  async (t) => {
    const at = await startSettlerScenario(t)
    const made = await due(at, 4)
    await delegate(at, made[0] as Paid, YES_MAN)
    await delegate(at, made[1] as Paid, GLUTTON)
    const [good, bad, ...others] = made as [Paid, Paid, ...Paid[]]
    t.strictSame([...new Set(await settled(at, [good, ...others]))], ['settled'])
    t.equal(await at.settler.settled(bad.id, 500), 'pending')
    t.strictSame(new Set(await sizesOf(at.sql)), new Set([null, 2]))
    t.equal(
      (await listSettlerTransactions(at.sql)).length,
      2,
      'and no gas is spent on what would fail',
    )
    await isWell(t, at, 3)
  },
)

t.test('a payer whose code uses up the gas of a batch does not affect the others', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 10_000 })
  const made = await due(at, 4)
  await at.chain.client.setAutomine(false)
  for (const { id } of made) at.settler.kick(id)
  await pollUntilTrue(async () => (await countMempoolTransactions(at)) === 1)
  const [bad, ...others] = made as [Paid, ...Paid[]]
  await delegate(at, bad, GLUTTON)
  await at.chain.mine(1)
  await at.chain.client.setAutomine(true)
  t.strictSame([...new Set(await settled(at, others))], ['settled'])
  t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, carried: 4, state: 'reverted' }])
  t.strictSame(await sizesOf(at.sql), [4, null, null, null])
  t.equal(await at.stateOf(bad.claimed), 'unknown/delivered')
  await isWell(t, at, 3)
})
