import { DAILY_BONUS_LIMIT } from '../../../domain/pricing.ts'
import t from 'tap'
import type { TAP } from 'tap'
import { privateKeyToAccount } from 'viem/accounts'
import { readIncomingTransfers } from '../../../chain/evm/incoming-token-transfers.ts'
import { createCustodialWallet } from '../../../chain/custody/custodial-wallets.ts'
import { DAY } from '../../../core/clock.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../../core/limits.ts'
import { asMicros } from '../../../core/money.ts'
import { createFleetCommand, topUpFleetCommand } from '../../../payments/commands/fleet-commands.ts'
import { createSettler } from '../../../payments/settlement/settler.ts'
import {
  createWalletSweeper,
  type WalletSweeperDeps,
} from '../../../payments/deposits/wallet-sweeper.ts'
import { toFleetRows } from '../../../persistence/fleets/fleet-store.ts'
import { createSettlementQueries } from '../../../persistence/payments/settlement-queries.ts'
import { createSettlerTransactionStore } from '../../../persistence/payments/settler-transaction-store.ts'
import { createWalletSweepStore } from '../../../persistence/payments/wallet-sweep-store.ts'
import { createWalletStore } from '../../../persistence/payments/wallet-store.ts'
import { assertJournalMatchesActorsAtTestEnd } from '../../support/ledger/compare-journal-with-actors-at-test-end.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { startRpcFaultProxy, type RpcFault } from '../../support/chain/rpc-fault-proxy.ts'
import {
  findInvariantViolations,
  createTestActorNode,
  createTestClock,
} from '../../support/actors/test-actor-node.ts'
import { startTestPaymentChain } from '../../support/payments/test-station-with-payment-chain.ts'
import {
  evmClientOf,
  readCreditBalances,
  TEST_WALLET_SEALING_KEY,
  createTestDepositChainSource,
  usdcTokenDomainOf,
  usdcToMicrosBigint,
  createAgentWithDepositWallet,
  createTestDepositWatcher,
} from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

/** A chain with a treasury and a settler, a database, and the given number of sweeping nodes. */
async function begin(t: Pick<TAP, 'teardown' | 'testdir' | 'strictSame' | 'comment'>) {
  const [till, { sql }] = await Promise.all([startTestPaymentChain(t), createTestDatabase(t)])
  assertJournalMatchesActorsAtTestEnd(t, sql)
  const { base, treasury } = till
  const own = { client: evmClientOf(base) }
  const one = createTestActorNode(t, sql)
  const watch = createTestDepositWatcher(one, sql, createTestDepositChainSource(base))
  await watch.catchUp()
  const account = privateKeyToAccount(till.settings['SETTLER_PRIVATE_KEY'] as `0x${string}`)
  const clock = createTestClock()
  const log = (message: string, error: unknown) => void one.logged.push({ message, error })
  function sweeping({ client = own.client, ...more }: Partial<WalletSweeperDeps> = {}) {
    const settling = createSettler({
      actors: one,
      store: createSettlementQueries(sql),
      transactions: createSettlerTransactionStore(sql),
      clock,
      base: { client, account, token: usdcTokenDomainOf(base) },
      bsc: null,
      tempo: null,
      facilitator: null,
      log,
      sweepMs: null,
    })
    t.teardown(() => settling.close())
    const submit = (purpose: string, call: Parameters<WalletSweeperDeps['submit']>[1]) =>
      settling.submit({ ...call, chain: 'base', purpose })
    const wallets = createWalletStore(sql)
    const store = createWalletSweepStore(sql)
    const on = {
      chain: 'base',
      client,
      token: usdcTokenDomainOf(base),
      treasury,
      store,
      wallets,
    } as const
    return {
      ...createWalletSweeper({
        ...on,
        sealing: TEST_WALLET_SEALING_KEY,
        submit,
        clock,
        log,
        ...more,
      }),
      submit,
    }
  }
  /** A credited deposit, final if requested. */
  async function deposit(address: string, amount: number, final = true) {
    await till.mintUsdc(address, usdcToMicrosBigint(amount))
    await base.mine(LIMITS.depositConfirmations - 1)
    await watch.catchUp()
    if (!final) return
    await base.mine(8)
    await watch.catchUp()
  }
  const owner = () => createAgentWithDepositWallet(one, sql)
  const sweeps = () => sql`select state, amount_micros as amount from sweeps order by id`
  return { ...till, sql, one, watch, clock, sweeping, deposit, owner, sweeps }
}

t.test(
  'two nodes sweep a wallet once, at the settler’s cost, and the ledger balances',
  async (t) => {
    const { base, sql, one, watch, sweeping, deposit, owner, sweeps, treasuryBalance } =
      await begin(t)
    const [rich, poor] = [await owner(), await owner()]
    await deposit(rich.address, 2.5)
    await deposit(poor.address, 0.9)
    const before = await sql`select count(*)::int as n from transfers`
    await Promise.all([sweeping().round(), sweeping().round()])
    t.equal(await treasuryBalance(), usdcToMicrosBigint(2.5))
    t.equal(await base.balanceOf(rich.address), 0n)
    t.equal(await base.client.getBalance({ address: rich.address as `0x${string}` }), 0n)
    t.equal(await base.balanceOf(poor.address), usdcToMicrosBigint(0.9), 'below 1 USDC it stays')
    t.strictSame([...(await sweeps())], [{ state: 'done', amount: usdcToMicrosBigint(2.5) }])
    const moves = await sql`select kind from chain_transfers m join sweeps s using (tx, log_index)`
    t.strictSame([...moves], [{ kind: 'sweep' }], 'and it can be credited to no agent')
    t.strictSame(await sql`select count(*)::int as n from transfers`, before)
    t.strictSame(await readCreditBalances(one, rich.id), [2.5, 0.625, 0])
    await base.mine(LIMITS.depositConfirmations)
    await watch.catchUp()
    t.strictSame(await watch.compare(), [], 'the chain and the ledger agree')
    await sweeping().round()
    t.equal((await sweeps()).length, 1)
    t.strictSame(await findInvariantViolations(sql), {})
  },
)

t.test('the second node finds the wallet already swept', async (t) => {
  t.test('after another request for it', async (t) => {
    const { base, sweeping, deposit, owner, treasuryBalance } = await begin(t)
    const { id: agentId, address } = await owner()
    await deposit(address, 2)
    const gate = await startRpcFaultProxy(t, base.rpcUrl)
    let first: Promise<bigint> | undefined
    gate.decide(async (method): Promise<RpcFault> => {
      if (method === 'eth_estimateGas') first ??= sweeping().empty({ agentId, address })
      await first
      return 'pass'
    })
    const behind = sweeping({ client: evmClientOf({ ...base, rpcUrl: gate.url }) })
    t.equal(await behind.empty({ agentId, address }), 0n)
    t.equal(await first, 0n)
    t.equal(await treasuryBalance(), usdcToMicrosBigint(2))
  })

  t.test('after a third party submitted the transfer', async (t) => {
    const { sweeping, deposit, owner, sweeps, treasuryBalance } = await begin(t)
    const { id: agentId, address } = await owner()
    await deposit(address, 2)
    const { submit } = sweeping()
    const overtaken = sweeping({
      async submit(purpose, call) {
        await submit('a purpose of its own', call)
        return submit(purpose, call)
      },
    })
    t.equal(await overtaken.empty({ agentId, address }), 0n)
    t.strictSame([...(await sweeps())], [{ state: 'done', amount: usdcToMicrosBigint(2) }])
    t.equal(await treasuryBalance(), usdcToMicrosBigint(2))
  })
})

t.test('small balances are swept after a day', async (t) => {
  const { clock, sweeping, deposit, owner, treasuryBalance } = await begin(t)
  await deposit((await owner()).address, 0.4)
  const one = sweeping()
  await one.round()
  t.equal(await treasuryBalance(), 0n)
  clock.pass(DAY + 60_000)
  await one.round()
  t.equal(await treasuryBalance(), usdcToMicrosBigint(0.4))
})

t.test('only credited and final deposits are swept', async (t) => {
  const { base, mintUsdc, sweeping, deposit, owner, treasuryBalance } = await begin(t)
  const { address } = await owner()
  await deposit(address, 1.5)
  await mintUsdc(address, usdcToMicrosBigint(7))
  await sweeping().round()
  t.equal(await treasuryBalance(), usdcToMicrosBigint(1.5))
  t.equal(await base.balanceOf(address), usdcToMicrosBigint(7))
})

t.test('a node that dies during a sweep moves the money once', async (t) => {
  const { sql, one, sweeping, deposit, owner, sweeps, treasuryBalance } = await begin(t)
  const { address } = await owner()
  await deposit(address, 3)
  const { submit } = sweeping()
  const died = async () => {
    throw new Error('died')
  }
  await sweeping({ submit: died }).round()
  t.strictSame([...(await sweeps())], [{ state: 'open', amount: usdcToMicrosBigint(3) }])
  t.equal(await treasuryBalance(), 0n)
  await sweeping({
    async submit(purpose, call) {
      await submit(purpose, call)
      return died()
    },
  }).round()
  t.strictSame([...(await sweeps())], [{ state: 'open', amount: usdcToMicrosBigint(3) }])
  t.equal(await treasuryBalance(), usdcToMicrosBigint(3))
  t.equal(one.logged.length, 2)
  await sweeping().round()
  t.strictSame([...(await sweeps())], [{ state: 'done', amount: usdcToMicrosBigint(3) }])
  t.equal(await treasuryBalance(), usdcToMicrosBigint(3))
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('an expired unsent sweep is created again', async (t) => {
  const { base, sweeping, deposit, owner, sweeps, treasuryBalance } = await begin(t)
  const { address } = await owner()
  await deposit(address, 3)
  const lost = async () => {
    throw new Error('lost')
  }
  await sweeping({ submit: lost }).round()
  await base.client.increaseTime({ seconds: 4_000 })
  await base.mine(1)
  const again = sweeping()
  await again.round()
  t.equal(await treasuryBalance(), usdcToMicrosBigint(3))
  t.match([...(await sweeps())], [{ state: 'failed' }, { state: 'done' }])
})

/** A fleet with its own wallet, topped up with the arrived amount. */
async function fleetOf({ one, mintUsdc, base }: Awaited<ReturnType<typeof begin>>) {
  const [fleetId, ownerId] = [newUuidV7(Date.now()), await one.born(0)]
  const wallet = createCustodialWallet(TEST_WALLET_SEALING_KEY, fleetId)
  const rows = toFleetRows(
    { fleetId, ownerId, ordinal: 1, name: 'crew', createdAt: new Date() },
    wallet,
  )
  await one.ask(fleetId, createFleetCommand, { ownerId, rows }, { fresh: true })
  const address = wallet.address.toLowerCase()
  const booked = async (to: string, amount: number) => {
    const before = await base.client.getBlockNumber()
    await mintUsdc(to, usdcToMicrosBigint(amount))
    const logs = await readIncomingTransfers(base.client, base.usdc, [to], before + 1n, before + 5n)
    const { tx, logIndex } = logs[0] as { tx: string; logIndex: number }
    await one.ask(fleetId, topUpFleetCommand, {
      tx,
      transfers: [{ logIndex, amount: asMicros(usdcToMicrosBigint(amount)) }],
      bonusLeft: DAILY_BONUS_LIMIT,
    })
  }
  return { fleetId, address, booked }
}

t.test('the wallet of a fleet is swept of final top-ups', async (t) => {
  const all = await begin(t)
  const { base, sql, sweeping, sweeps, treasuryBalance, treasury, mintUsdc } = all
  const fleet = await fleetOf(all)
  await fleet.booked(fleet.address, 2.5)
  // The owner's own way past the fleet's wallet: there is nothing of it to be swept.
  await fleet.booked(treasury, 4)
  await mintUsdc(fleet.address, usdcToMicrosBigint(7))
  await sweeping().round()
  t.strictSame([...(await sweeps())], [], 'its block may vanish still')
  await base.mine(12)
  await Promise.all([sweeping().round(), sweeping().round()])
  t.strictSame([...(await sweeps())], [{ state: 'done', amount: usdcToMicrosBigint(2.5) }])
  t.equal(await treasuryBalance(), usdcToMicrosBigint(6.5))
  t.equal(await base.balanceOf(fleet.address), usdcToMicrosBigint(7), 'not credited yet')
  t.ok(await createWalletStore(sql).custodial(fleet.address), 'its signatures pay for nothing else')
  await sweeping().round()
  t.equal((await sweeps()).length, 1)
  await fleet.booked(fleet.address, 1)
  await base.mine(12)
  const died = async () => {
    throw new Error('died')
  }
  await sweeping({ submit: died }).round()
  await sweeping().round()
  t.strictSame(
    [...(await sweeps())].at(-1),
    { state: 'done', amount: usdcToMicrosBigint(1) },
    'after a crash too',
  )
  t.equal(await treasuryBalance(), usdcToMicrosBigint(7.5))
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test(
  'an envelope opens for its own agent only: a wallet moved to another row is not swept',
  async (t) => {
    const { sql, one, sweeping, deposit, owner, treasuryBalance } = await begin(t)
    const [her, thief] = [await owner(), await owner()]
    await deposit(thief.address, 2)
    const [row] = await sql<
      { sealed: Buffer }[]
    >`select sealed from wallets where agent_id = ${her.id}`
    await sql`update wallets set sealed = ${row!.sealed} where agent_id = ${thief.id}`
    await sweeping().round()
    t.equal(await treasuryBalance(), 0n)
    t.match(one.logged, [{ message: /^sweep .* waits/ }])
    t.notMatch(JSON.stringify(one.logged.map(String)), /[0-9a-f]{64}/)
  },
)
