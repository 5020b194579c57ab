import { randomBytes } from 'node:crypto'
import t from 'tap'
import { encodeFunctionData } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { sendCreditsCommand } from '../../../payments/commands/agent-account-commands.ts'
import type { DepositChainSource } from '../../../payments/deposits/deposit-scanner.ts'
import { contractArtifacts } from '../../support/chain/local-chain.ts'
import {
  startDepositScenario,
  BLOCKS_TO_CONFIRM,
  chainSourceWithoutFinality,
  startUnfinalizedDepositScenario,
  readDepositStates,
} from '../../support/payments/deposit-watcher-test-fixture.ts'
import { sampleCreditTransferInput } from '../../support/actors/test-actor-node-pairs.ts'
import {
  findInvariantViolations,
  createTestActorNode,
} from '../../support/actors/test-actor-node.ts'
import {
  readCreditBalances,
  createTestDepositChainSource,
  usdcToMicrosBigint,
  createTestDepositWatcher,
} from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

type Hex = `0x${string}`

t.test('a reverted deposit is taken back, and credited again when it returns', async (t) => {
  const { base, sql, one, watch, owner } = await startUnfinalizedDepositScenario(t)
  const { id, address } = await owner()
  const payer = privateKeyToAccount(`0x${randomBytes(32).toString('hex')}`)
  await base.fund(payer.address, 10n ** 18n)
  await base.mine(1)
  const { abi } = contractArtifacts.MockUSDC
  const raw = await payer.signTransaction({
    type: 'eip1559',
    chainId: base.chainId,
    to: base.usdc,
    nonce: 0,
    gas: 200_000n,
    maxFeePerGas: 10n ** 10n,
    maxPriorityFeePerGas: 1n,
    data: encodeFunctionData({
      abi,
      functionName: 'mint',
      args: [address, usdcToMicrosBigint(4)],
    }),
  })
  const send = async () => {
    const hash = await base.client.sendRawTransaction({ serializedTransaction: raw })
    await base.client.waitForTransactionReceipt({ hash })
    await base.mine(BLOCKS_TO_CONFIRM)
    await watch.catchUp()
  }
  await send()
  t.strictSame(await readCreditBalances(one, id), [4, 1, 0])
  await base.reorg(BLOCKS_TO_CONFIRM + 2)
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [0, 0, 0], 'with its bonus')
  t.strictSame([...(await readDepositStates(sql))], [{ state: 'reorged', times: 1 }])
  t.strictSame(await findInvariantViolations(sql), {})
  await base.fund(payer.address, 10n ** 18n)
  await send()
  t.strictSame(
    await readCreditBalances(one, id),
    [4, 1, 0],
    'the same transaction in another block',
  )
  t.strictSame([...(await readDepositStates(sql))], [{ state: 'provisional', times: 2 }])
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a reverted deposit that was spent takes back the rest and books the loss', async (t) => {
  const { base, sql, one, watch, owner } = await startUnfinalizedDepositScenario(t)
  const [{ id, address }, friend] = [await owner(), await owner()]
  await base.mint(address, usdcToMicrosBigint(4))
  await base.mine(BLOCKS_TO_CONFIRM)
  await watch.catchUp()
  const gift = { ...sampleCreditTransferInput(friend.id, 3), promoTransferable: false }
  await one.ask(id, sendCreditsCommand, gift)
  await base.reorg(BLOCKS_TO_CONFIRM + 2)
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [0, 0, 0])
  t.strictSame(await readCreditBalances(one, friend.id), [3, 0, 0], 'what others got is theirs')
  const [loss] = await sql<{ amount: bigint }[]>`
    select sum(amount_micros)::bigint as amount from transfers
     where debit = 'treasury:fees' and credit = 'world:base' and kind = 'loss'`
  t.equal(loss?.amount, usdcToMicrosBigint(3))
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a reorganisation detected by two watchers is applied once', async (t) => {
  const { base, sql, one, watch, owner } = await startUnfinalizedDepositScenario(t)
  const other = createTestDepositWatcher(
    createTestActorNode(t, sql),
    sql,
    createTestDepositChainSource(base, chainSourceWithoutFinality(base)),
  )
  const [kept, gone] = [await owner(), await owner()]
  await base.mint(kept.address, usdcToMicrosBigint(1))
  await base.mine(BLOCKS_TO_CONFIRM)
  await base.mint(gone.address, usdcToMicrosBigint(1))
  await base.mine(BLOCKS_TO_CONFIRM)
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, gone.id), [1, 0.25, 0])
  await base.reorg(BLOCKS_TO_CONFIRM + 1)
  await Promise.all([watch.catchUp(), other.catchUp(), watch.catchUp(), other.catchUp()])
  t.strictSame(await readCreditBalances(one, gone.id), [0, 0, 0])
  t.strictSame(await readCreditBalances(one, kept.id), [1, 0.25, 0], 'what stands below is kept')
  const [{ n } = { n: 0 }] = await sql<{ n: number }[]>`
    select count(*)::int as n from inbox where id like 'undo:%'`
  t.equal(n, 1)
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a chain that returns to an earlier fork credits its deposit again', async (t) => {
  const { sql, one, owner } = await startDepositScenario(t)
  const { id, address } = await owner()
  await sql`truncate chain_checkpoints, chain_blocks`
  // Two histories that part at block 5, as a node would tell them.
  let side = 'a'
  const hash = (block: bigint, of = side): Hex =>
    `0x${(block <= 5n ? `0${block}` : `${of}${block}`).padStart(64, '0')}`
  const arrival = {
    tx: `0x${'7'.repeat(64)}` as Hex,
    logIndex: 0,
    block: 6n,
    blockHash: hash(6n, 'a'),
    from: `0x${'1'.repeat(40)}`,
    to: address,
    value: usdcToMicrosBigint(1),
  }
  let latest = 10n
  const paper: DepositChainSource = {
    heads: async () => ({ latest, finalized: 2n, latestTime: 0n }),
    blockHash: async (block) => (block > latest ? null : hash(block)),
    transfersTo: async (_to, from, to) => (side === 'a' && from <= 6n && to >= 6n ? [arrival] : []),
    balancesOf: async () => new Map(),
  }
  const watch = createTestDepositWatcher(one, sql, paper)
  await watch.catchUp()
  latest = 12n
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [1, 0.25, 0])
  side = 'b'
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [0, 0, 0])
  side = 'a'
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [1, 0.25, 0])
  latest = 3n
  const idle = await watch.look()
  t.match(idle, { more: false }, 'a node that lags behind undoes nothing')
  t.strictSame(await readCreditBalances(one, id), [1, 0.25, 0])
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a reorg below the final block stops the watcher with an error', async (t) => {
  const { base, one, sql, watch, owner } = await startDepositScenario(t)
  const { id, address } = await owner()
  await base.mint(address, usdcToMicrosBigint(1))
  await base.mine(BLOCKS_TO_CONFIRM)
  await watch.catchUp()
  await base.reorg(BLOCKS_TO_CONFIRM + 2)
  await t.rejects(watch.look(), { message: /replaced blocks that were final/ })
  t.strictSame(await readCreditBalances(one, id), [1, 0.25, 0])
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a chain that changes during a read is read again', async (t) => {
  const { base, sql, one, owner } = await startUnfinalizedDepositScenario(t)
  const { id, address } = await owner()
  await base.mint(address, usdcToMicrosBigint(1))
  await base.mine(BLOCKS_TO_CONFIRM)
  let changes = 1
  const plain = createTestDepositChainSource(base, chainSourceWithoutFinality(base))
  const shaken = createTestDepositWatcher(one, sql, {
    ...plain,
    async transfersTo(...asked) {
      const found = await plain.transfersTo(...asked)
      if (changes-- > 0) await base.reorg(BLOCKS_TO_CONFIRM + 2)
      return found
    },
  })
  await shaken.catchUp()
  t.strictSame(
    await readCreditBalances(one, id),
    [0, 0, 0],
    'a log of a block that is gone is no deposit',
  )
  await shaken.catchUp()
  t.equal((await readDepositStates(sql)).length, 0)
  await base.mint(address, usdcToMicrosBigint(2))
  await base.mine(BLOCKS_TO_CONFIRM)
  await shaken.catchUp()
  t.strictSame(await readCreditBalances(one, id), [2, 0.5, 0])
  t.strictSame(await findInvariantViolations(sql), {})
})
