import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createEvmClient } from '../../../chain/evm/evm-client.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { createSettler } from '../../../payments/settlement/settler.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import {
  createSettlerTransactionStore,
  type StoredSettlerTransaction,
} from '../../../persistence/payments/settler-transaction-store.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { assertNoInvariantViolations } from '../../support/actors/test-actor-node-pairs.ts'
import { TEST_TREASURY } from '../../support/payments/sample-payment-claims.ts'
import {
  SETTLER_TRANSACTION_HANDOVER_MS,
  countMempoolTransactions,
  sendTransactionFrom,
  createRandomEvmAccount,
  encodeTokenCall,
  listSettlerTransactions,
  pollUntilTrue,
  startSettlerScenario,
  type SettlerScenario,
} from '../../support/payments/settler-scenario.ts'

/** A call of our own: it moves none of the money that is watched until its block is final. */
const own = (purpose: string) =>
  ({
    chain: 'base',
    purpose,
    ...encodeTokenCall('approve', [createRandomEvmAccount().address, 1n]),
  }) as const

/** Checks twice, with time and a block in between, to confirm the observation. */
async function lookTwice(at: SettlerScenario, by = at.settler): Promise<void> {
  await by.sweep()
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  await at.chain.mine(1)
  await by.sweep()
}

async function arrived(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ sum: bigint }[]>`
    select coalesce(sum(amount_micros), 0)::bigint as sum from transfers where debit = 'world:base'`
  return row?.sum ?? 0n
}

/** Chain and ledger say the same, and nothing is broken. */
async function exact(t: Test, at: SettlerScenario, usdc: bigint): Promise<void> {
  t.equal(await at.chain.balanceOf(TEST_TREASURY), usdc, 'on the chain')
  t.equal(await arrived(at.sql), usdc, 'in the books')
  await assertNoInvariantViolations(t, at.sql)
}

/** Log lines about nonces used by other transactions. */
const said = ({ logged }: SettlerScenario) =>
  logged.filter((line) => /used elsewhere|in no block any more/.test(line))

const headOf = ({ chain }: SettlerScenario) => chain.client.getBlockNumber({ cacheTime: 0 })

t.test('a node with an older view of the nonces is rejected and changes nothing', async (t) => {
  const { sql } = await createTestDatabase(t)
  const lane = createSettlerTransactionStore(sql)
  const key = { chain: 'base', address: '0x01' }
  await lane.reconcile(key, 0)
  let signed = 0
  const sign = async () => ({ raw: '0x', hash: `${(signed += 1)}`, maxFee: 1n, priorityFee: 1n })
  const take = async (seen: StoredSettlerTransaction | null) => {
    const taken = await lane.take(key, new Map([['own:1', seen]]), newUuidV7(Date.now()), sign)
    return taken.get('own:1') as StoredSettlerTransaction
  }
  const first = await take(null)
  for (const seen of [null, first]) t.equal((await take(seen)).id, first.id, 'it is under way')
  await lane.mark(key, 0, 'reverted')
  t.equal((await take(null)).id, first.id, 'the transaction created meanwhile is used')
  t.equal(await lane.replace(key, first, newUuidV7(Date.now()), sign), null, 'a block has it')
  await lane.mark(key, 0, 'void')
  t.match(await lane.ofNonce(key, 0), [{ id: first.id, state: 'reverted' }], 'a block has spoken')
  t.equal(signed, 1)
  t.equal((await take(first)).nonce, 1)
})

t.test('a dropped transaction is sent again even if it moved no watched payment', async (t) => {
  const at = await startSettlerScenario(t)
  await at.chain.mine(5)
  t.equal((await at.settler.submit(own('own:1'))).state, 'mined')
  await at.chain.reorg(1)
  t.equal(await at.sent(), 0)
  const { id } = await at.paid(0.01)
  t.equal(
    await at.settler.settled(id, 500),
    'pending',
    'it waits behind a nonce that is free again',
  )
  await at.settler.sweep()
  await at.chain.mine(1)
  await at.settler.sweep()
  const as = [{ nonce: 0n, state: 'mined' }, { nonce: 1n }]
  t.match(
    await listSettlerTransactions(at.sql),
    as,
    'a block later it may still turn out otherwise',
  )
  await lookTwice(at)
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  await at.settler.sweep()
  t.equal(await at.sent(), 2)
  t.equal((await at.settler.submit(own('own:1'))).state, 'mined')
  t.equal(await at.sent(), 2, 'and once')
  await exact(t, at, 10_000n)
})

t.test('a failed transaction is replaced by an empty transfer with its nonce', async (t) => {
  const at = await startSettlerScenario(t)
  const first = await at.paid(0.01)
  await at.chain.client.setAutomine(false)
  at.settler.kick(first.id)
  await pollUntilTrue(async () => (await countMempoolTransactions(at)) === 1)
  const away = encodeTokenCall('transfer', [createRandomEvmAccount().address, 10_000n])
  await sendTransactionFrom(at.chain, first.payer, away, { wait: false, tip: 10n ** 11n })
  await at.chain.mine(1)
  await pollUntilTrue(async () => (await at.stateOf(first.claimed)) === 'unknown/delivered')
  await at.chain.client.setAutomine(true)
  t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, state: 'reverted' }])
  await at.chain.reorg(1)
  await sendTransactionFrom(at.chain, first.payer, away)
  const next = await at.paid(0.02)
  t.equal(await at.settler.settled(next.id, 500), 'pending')
  await lookTwice(at)
  t.equal(await at.settler.settled(next.id, 10_000), 'settled')
  await at.settler.sweep()
  t.match(await listSettlerTransactions(at.sql), [
    { nonce: 0n, state: 'reverted', replaced: true },
    { nonce: 0n, state: 'void', replaced: false },
    { nonce: 1n, state: 'mined' },
  ])
  await exact(t, at, 20_000n)
})

t.test('a dropped batch is sent again, and no payment is booked twice', async (t) => {
  const at = await startSettlerScenario(t)
  const made = [await at.paid(0.01), await at.paid(0.01), await at.paid(0.01)] as const
  const [poor] = made
  await at.chain.client.setAutomine(false)
  for (const { id } of made) at.settler.kick(id)
  await pollUntilTrue(async () => (await countMempoolTransactions(at)) === 1)
  const away = encodeTokenCall('transfer', [createRandomEvmAccount().address, 10_000n])
  await sendTransactionFrom(at.chain, poor.payer, away, { wait: false, tip: 10n ** 11n })
  await at.chain.mine(1)
  await pollUntilTrue(async () => (await at.stateOf(poor.claimed)) === 'unknown/delivered')
  await at.chain.client.setAutomine(true)
  await at.chain.mint(poor.payer.address, 10_000n)
  const ends = await Promise.all(made.map(({ id }) => at.settler.settled(id, 10_000)))
  t.strictSame([...new Set(ends)], ['settled'])
  await exact(t, at, 30_000n)
  await at.chain.reorg(3)
  t.equal(await at.sent(), 0)
  await lookTwice(at)
  await at.settler.sweep()
  t.equal(await at.sent(), 2, 'its nonces are used again')
  await exact(t, at, 30_000n)
})

t.test('a lagging node does not make mined transactions look reverted', async (t) => {
  const at = await startSettlerScenario(t, { nodes: 3, receiptMs: 200 })
  const early = await headOf(at)
  t.equal((await at.settler.submit(own('own:1'))).state, 'mined')
  t.equal((await at.settler.submit(own('own:2'))).state, 'mined')
  await at.settler.sweep()
  const [here, fresh, other] = at.all as [
    SettlerScenario['all'][number],
    SettlerScenario['all'][number],
    SettlerScenario['all'][number],
  ]
  at.gate.behind(early)
  t.equal((await at.settler.submit(own('own:2'))).state, 'pending', 'it is not signed anew')
  at.gate.seen.splice(0)
  for (const { settler: one } of [here, fresh]) await lookTwice(at, one)
  const as = [
    { nonce: 0n, state: 'mined', replaced: false },
    { nonce: 1n, state: 'mined', replaced: false },
  ]
  t.strictSame(at.gate.seen.includes('eth_sendRawTransaction'), false)
  t.match(await listSettlerTransactions(at.sql), as)
  // A lagging node may mislead a node without other information; the outcome is still correct.
  await other.settler.sweep()
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  await at.chain.mine(1)
  at.gate.behind(early + 1n)
  await here.settler.sweep()
  t.strictSame(said(at), [], 'who has seen newer blocks is not misled')
  await other.settler.sweep()
  at.gate.behind(null)
  for (const { settler: one } of at.all) await one.sweep()
  t.match(
    (await listSettlerTransactions(at.sql)).filter(({ replaced }) => replaced !== true),
    [
      { nonce: 0n, state: 'mined' },
      { nonce: 1n, state: 'mined' },
    ],
  )
  t.equal(await at.sent(), 2)
  t.equal((await at.settler.submit(own('own:2'))).state, 'mined')
  t.equal(await at.sent(), 2)
})

t.test('a nonce without a visible receipt is not given up', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 200 })
  const early = await headOf(at)
  at.gate.behind(early, (_, beside) => beside.includes('eth_getTransactionReceipt'))
  t.equal((await at.settler.submit(own('own:1'))).state, 'pending')
  t.equal(await at.sent(), 1)
  await lookTwice(at)
  await lookTwice(at)
  t.match(
    await listSettlerTransactions(at.sql),
    [{ nonce: 0n, state: 'signed' }],
    'the node that reports it lags behind',
  )
  at.gate.behind(null)
  await at.settler.sweep()
  t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, state: 'mined' }])
  t.equal(await at.sent(), 1)
  t.strictSame(said(at), [], 'nothing else has used it')
})

t.test('an abandoned transaction is found once its receipt appears', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 200 })
  const hidden = await hiding(at)
  t.equal((await at.settler.submit(own('own:1'))).state, 'pending')
  await at.settler.sweep()
  await at.settler.sweep()
  t.match(
    await listSettlerTransactions(at.sql),
    [{ nonce: 0n, state: 'signed' }],
    'not at the first look',
  )
  await lookTwice(at)
  t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, state: 'void' }])
  hidden.show()
  t.equal((await at.settler.submit(own('own:1'))).state, 'mined', 'it is not sent again')
  t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, state: 'mined' }])
  hidden.hide()
  t.equal((await at.settler.submit(own('own:2'))).state, 'pending')
  await lookTwice(at)
  t.match(await listSettlerTransactions(at.sql), [{ state: 'mined' }, { nonce: 1n, state: 'void' }])
  hidden.show()
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  await at.settler.sweep()
  t.match(await listSettlerTransactions(at.sql), [
    { state: 'mined' },
    { nonce: 1n, state: 'mined' },
  ])
  t.equal(await at.sent(), 2)
})

/** Receipts come from a node that lags behind, the block number from one that does not. */
async function hiding(at: SettlerScenario) {
  const early = await headOf(at)
  const hide = () => at.gate.behind(early, (method) => method === 'eth_getTransactionReceipt')
  hide()
  return { hide, show: () => at.gate.behind(null) }
}

t.test('a transaction resent during the second look is left unchanged', async (t) => {
  for (const lagging of [false, true]) {
    const at = await startSettlerScenario(t)
    t.equal((await at.settler.submit(own('own:1'))).state, 'mined')
    const [sent] = await at.sql<{ raw: HexString }[]>`select raw from settler_txs`
    await at.chain.mine(1)
    await at.chain.reorg(2)
    await at.settler.sweep()
    at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
    await at.chain.mine(1)
    const head = await headOf(at)
    // The nonce was free when it was read from the chain, and has been used since.
    at.gate.beforeAnswers(async (methods) => {
      if (!methods.includes('eth_getTransactionCount') || (await at.sent()) === 1) return
      await at.chain.client.sendRawTransaction({ serializedTransaction: sent?.raw as HexString })
    })
    if (lagging)
      at.gate.behind(head - 1n, (_, beside) => beside.includes('eth_getTransactionReceipt'))
    await at.settler.sweep()
    const as = [{ nonce: 0n, attempt: 1, carried: 1, state: 'mined', replaced: false }]
    t.strictSame(
      [...(await listSettlerTransactions(at.sql))],
      as,
      lagging ? 'the lagging node has no receipt' : 'a block has it',
    )
    t.strictSame(said(at), [])
    t.equal(await at.sent(), 1)
  }
})

t.test('a hanging chain delays no other chain', async (t) => {
  const at = await startSettlerScenario(t)
  const hanging = createServer(() => {})
  await new Promise<void>((resolve) => hanging.listen(0, '127.0.0.1', resolve))
  const rpcUrl = `http://127.0.0.1:${(hanging.address() as AddressInfo).port}`
  const { asset, chainId, domain } = PAYMENT_NETWORKS.bsc
  const client = createEvmClient({ rpcUrl, chainId, timeoutMs: 600_000 })
  const bsc = { client, account: at.account, token: { address: asset, chainId, ...domain } }
  const [one, two] = [await at.paid(0.01), await at.paid(0.02)]
  const both = createSettler({ ...at.parts, bsc, sweepMs: 50 })
  t.teardown(() => both.close())
  await pollUntilTrue(async () => (await at.stateOf(one.claimed)) === 'settled/delivered')
  await pollUntilTrue(async () => (await at.stateOf(two.claimed)) === 'settled/delivered')
  t.equal(both.optimistic('base'), true)
  t.equal(both.optimistic('bsc'), false)
  const closing = both.close()
  hanging.close()
  hanging.closeAllConnections()
  await closing
  await exact(t, at, 30_000n)
})
