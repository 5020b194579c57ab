import { randomUUID } from 'node:crypto'
import t from 'tap'
import { encodeDeployData, encodeFunctionData } from 'viem'
import {
  createDepositStore,
  type DepositStore,
} from '../../../persistence/payments/deposit-store.ts'
import { contractArtifacts } from '../../support/chain/local-chain.ts'
import {
  startDepositScenario,
  BLOCKS_TO_CONFIRM,
  startUnfinalizedDepositScenario,
  readDepositStates,
} from '../../support/payments/deposit-watcher-test-fixture.ts'
import {
  findInvariantViolations,
  createTestActorNode,
} from '../../support/actors/test-actor-node.ts'
import {
  readCreditBalances,
  createTestDepositChainSource,
  requestUntilReplyMatches,
  usdcToMicrosBigint,
  createTestDepositWatcher,
} from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

type Hex = `0x${string}`

t.test(
  'a deposit is credited with its sixth confirmation, and is final with its block',
  async (t) => {
    const { base, sql, one, watch, owner } = await startDepositScenario(t)
    const { id, address } = await owner()
    await base.mint(address, usdcToMicrosBigint(2))
    await base.mine(BLOCKS_TO_CONFIRM - 1)
    await watch.catchUp()
    t.strictSame(await readCreditBalances(one, id), [0, 0, 0])
    await base.mine(1)
    await watch.catchUp()
    t.strictSame(
      await readCreditBalances(one, id),
      [2, 0.5, 0],
      'with 25 % more, as promotional credits',
    )
    await base.mine(20)
    await watch.catchUp()
    t.strictSame([...(await readDepositStates(sql))], [{ state: 'final', times: 1 }])
    t.strictSame(await findInvariantViolations(sql), {})
  },
)

t.test('two watchers on two nodes credit each of many deposits once', async (t) => {
  const { base, sql, one, source, watch, owner } = await startDepositScenario(t)
  const two = createTestActorNode(t, sql)
  const other = createTestDepositWatcher(two, sql, source)
  const owners = await Promise.all([owner(), owner(), owner()])
  for (let round = 0; round < 12; round += 1) {
    const { address } = owners[round % owners.length] ?? owners[0]!
    await base.mint(address, usdcToMicrosBigint(1))
    await Promise.all([watch.catchUp(), other.catchUp(), watch.look(), other.look()])
  }
  await base.mine(BLOCKS_TO_CONFIRM)
  await Promise.all([watch.catchUp(), other.catchUp()])
  for (const { id } of owners) {
    t.strictSame(await readCreditBalances(one, id), [4, 0.25, 0])
    t.strictSame(await readCreditBalances(two, id), [4, 0.25, 0])
  }
  t.equal((await readDepositStates(sql)).length, 12)
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('only the first of two deposits in one block brings the bonus', async (t) => {
  const { base, sql, one, watch, owner } = await startDepositScenario(t)
  const { id, address } = await owner()
  await base.client.setAutomine(false)
  const pooled = async (count: number) =>
    requestUntilReplyMatches(
      () => base.client.getTxpoolStatus(),
      ({ pending }) => pending === count,
    )
  const sent = [base.mint(address, usdcToMicrosBigint(3))]
  await pooled(1)
  sent.push(base.mint(address, usdcToMicrosBigint(5)))
  await pooled(2)
  await base.mine(1)
  await Promise.all(sent)
  await base.client.setAutomine(true)
  await base.mine(BLOCKS_TO_CONFIRM)
  await watch.catchUp()
  const rows = await sql<{ block: bigint; amount: bigint }[]>`
    select block, amount_micros as amount from deposits order by log_index`
  t.equal(new Set(rows.map(({ block }) => block)).size, 1, 'both stand in one block')
  const first = Number(rows[0]?.amount) / 1e6
  t.strictSame(await readCreditBalances(one, id), [8, first / 4, 0])
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('deposits below the minimum accumulate and are credited together', async (t) => {
  const { base, sql, one, watch, owner } = await startDepositScenario(t)
  const { id, address } = await owner()
  for (const [amount, cash, promo, pending] of [
    [0.4, 0, 0, 0.4],
    [0.599999, 0, 0, 0.999999],
    [0.2, 1.199999, 0.299999, 0],
    [0.3, 1.199999, 0.299999, 0.3],
    [1, 2.499999, 0.299999, 0],
  ] as const) {
    await base.mint(address, usdcToMicrosBigint(amount))
    await base.mine(BLOCKS_TO_CONFIRM)
    await watch.catchUp()
    t.strictSame(await readCreditBalances(one, id), [cash, promo, pending])
    t.strictSame(await findInvariantViolations(sql), {})
  }
})

t.test('zero transfers and other tokens are ignored', async (t) => {
  const { base, sql, one, watch, owner } = await startDepositScenario(t)
  const { id, address } = await owner()
  const { abi, bytecode } = contractArtifacts.MockUSDC
  const [from] = await base.client.getAddresses()
  const send = async (transaction: { to?: Hex; data: Hex }) => {
    const hash = await base.client.request({
      method: 'eth_sendTransaction',
      params: [{ from, ...transaction }],
    } as never)
    return base.client.waitForTransactionReceipt({ hash })
  }
  const args = ['USD Coin', '2', 'USDC', 6]
  const { contractAddress } = await send({ data: encodeDeployData({ abi, bytecode, args }) })
  const mint = (amount: number) =>
    encodeFunctionData({ abi, functionName: 'mint', args: [address, usdcToMicrosBigint(amount)] })
  await send({ to: contractAddress!, data: mint(100) })
  await send({ to: base.usdc, data: mint(0) })
  await base.mine(BLOCKS_TO_CONFIRM)
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [0, 0, 0])
  t.equal((await readDepositStates(sql)).length, 0)
  await send({ to: base.usdc, data: mint(1) })
  await base.mine(BLOCKS_TO_CONFIRM)
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [1, 0.25, 0], 'its own token is')
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a watcher may crash at any step: each deposit is credited once', async (t) => {
  const { base, sql, one, source, watch, owner } = await startDepositScenario(t)
  const { id, address } = await owner()
  const store = createDepositStore(sql)
  const died = async () => {
    throw new Error('died')
  }
  const deaths: Record<string, { store?: DepositStore; wake?: () => Promise<void> }> = {
    'before the commit': { store: { ...store, advance: died } },
    'before the answer of the commit': {
      store: {
        ...store,
        async advance(...asked) {
          await store.advance(...asked)
          return died()
        },
      },
    },
    'before the agent is woken': { wake: died },
  }
  let cash = 0
  for (const [when, broken] of Object.entries(deaths)) {
    await base.mint(address, usdcToMicrosBigint(2))
    await base.mine(BLOCKS_TO_CONFIRM)
    const dying = createTestDepositWatcher(one, sql, source, broken)
    if (broken.wake === undefined) await t.rejects(dying.catchUp(), { message: 'died' })
    else await dying.catchUp()
    const successor = createTestDepositWatcher(createTestActorNode(t, sql), sql, source)
    await successor.catchUp()
    await watch.catchUp()
    t.strictSame(await readCreditBalances(one, id), [(cash += 2), 0.5, 0], when)
  }
  t.equal((await readDepositStates(sql)).length, 3)
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a transfer credited in another way is not credited as a deposit', async (t) => {
  const { base, sql, one, watch, owner } = await startDepositScenario(t)
  const { id, address } = await owner()
  const tx = await base.mint(address, usdcToMicrosBigint(2))
  await sql`insert into chain_transfers values ('base', ${tx}, 0, 'fleet', 'x', now())`
  await base.mine(BLOCKS_TO_CONFIRM)
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [0, 0, 0])
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a wallet during its export accepts no deposits', async (t) => {
  const { base, sql, one, watch, owner } = await startDepositScenario(t)
  const { id, address } = await owner()
  await base.mint(address, usdcToMicrosBigint(2))
  await base.mine(BLOCKS_TO_CONFIRM)
  await sql`update wallets set status = 'exporting' where agent_id = ${id}`
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [0, 0, 0])
})

t.test(
  'a referrer is rewarded for the first deposit of its agent, not for the second',
  async (t) => {
    const { base, sql, one, watch, owner } = await startDepositScenario(t)
    const referrer = await owner()
    const { id, address } = await owner({ referrer: referrer.id })
    for (const cash of [0, 1.5, 3]) {
      await base.mint(address, usdcToMicrosBigint(cash === 0 ? 0.5 : cash === 1.5 ? 1 : 1.5))
      await base.mine(BLOCKS_TO_CONFIRM)
      await watch.catchUp()
      const [own] = await readCreditBalances(one, id)
      t.equal(own, cash)
      t.strictSame(await readCreditBalances(one, referrer.id), [0, cash === 0 ? 0 : 0.21, 0])
    }
    t.strictSame(await findInvariantViolations(sql), {})
  },
)

t.test('the owner of several agents gets the bonus once, also from two nodes', async (t) => {
  const { base, sql, one, source, watch, owner } = await startDepositScenario(t)
  const two = createTestActorNode(t, sql)
  const nodes = [one, two]
  const owners = await Promise.all([owner(), owner(), owner(), owner()])
  for (const { id } of owners) {
    await sql`insert into agents (agent_id, name, contact_email, created_at)
      values (${id}, ${id}, 'Ann@example.com', now())`
    await sql`insert into confirmed_contacts values (${id}, 'ann@example.com', ${id}, now())`
  }
  for (const { address } of owners) await base.mint(address, usdcToMicrosBigint(2))
  await base.mine(BLOCKS_TO_CONFIRM)
  // Books the deposits; every agent absorbs its own at the same time.
  const asleep = { ...one, wake: async () => undefined } as typeof one
  await createTestDepositWatcher(asleep, sql, source).catchUp()
  const all = () =>
    Promise.all(owners.map(({ id }, at) => readCreditBalances(nodes[at % 2] ?? one, id)))
  const bonuses = (await all()).map(([cash, promo]) => [cash, promo])
  const sorted = bonuses.sort(([, one], [, other]) => Number(one) - Number(other))
  t.strictSame(sorted, [
    [2, 0],
    [2, 0],
    [2, 0],
    [2, 0.5],
  ])

  // A new address takes nothing back, and brings nothing again.
  await sql`update confirmed_contacts set email = agent_id || '@example.com'`
  await sql`update agents set contact_email = agent_id || '@example.com'`
  for (const { address } of owners) await base.mint(address, usdcToMicrosBigint(2))
  await base.mine(BLOCKS_TO_CONFIRM)
  await watch.catchUp()
  t.strictSame(
    (await all()).map(([, promo]) => promo).sort((one, other) => Number(one) - Number(other)),
    [0, 0, 0, 0.5],
  )
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('the agents of a session have one owner; each owner gets at most 25 USDC', async (t) => {
  const { base, sql, one, watch, owner } = await startDepositScenario(t)
  const [ann, hers] = [await owner(), await owner()]
  const agents = [ann, hers, await owner(), await owner(), await owner()]
  // All deposits come from one address, and all agents have one address that nobody confirmed: neither decides.
  for (const { id } of agents)
    await sql`insert into agents (agent_id, name, contact_email, created_at)
      values (${id}, ${id}, 'us@example.com', now())`
  await sql`insert into owner_sessions values ('s', now(), now() + interval '1 day')`
  for (const { id } of [ann, hers])
    await sql`insert into owner_session_agents values ('s', ${id}, ${id}, now())`
  const promo = []
  for (const { id, address } of agents) {
    await base.mint(address, usdcToMicrosBigint(450))
    await base.mine(BLOCKS_TO_CONFIRM)
    await watch.catchUp()
    promo.push((await readCreditBalances(one, id))[1])
  }
  t.strictSame(promo, [25, 0, 25, 25, 25])
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a deposit without a bonus for the sake of the day leaves it to a later day', async (t) => {
  const { base, sql, one, watch, owner } = await startDepositScenario(t)
  const [early, late, later] = [await owner(), await owner(), await owner()]
  const spend = (usdc: number) => sql`insert into deposit_bonuses
    values (${randomUUID()}, ${usdcToMicrosBigint(usdc)}, 25000000, 250000000, now())`
  const pay = async ({ id, address }: typeof late, usdc: number) => {
    await base.mint(address, usdcToMicrosBigint(usdc))
    await base.mine(BLOCKS_TO_CONFIRM)
    await watch.catchUp()
    return (await readCreditBalances(one, id))[1]
  }
  await sql`alter table deposit_bonuses disable trigger deposit_bonuses_once`
  await spend(223)
  await sql`alter table deposit_bonuses enable trigger deposit_bonuses_once`
  t.equal(await pay(early, 10), 2.5, 'the day has room for a whole one')
  t.equal(await pay(late, 10), 0, 'a bonus is whole or none')
  t.equal(await pay(late, 10), 0, 'on the same day')
  await sql`update deposit_bonuses set at = at - interval '1 day'`
  t.equal(await pay(late, 4), 1, 'the first one that the day has room for')
  t.equal(await pay(late, 10), 1, 'once')
  t.equal(await pay(early, 10), 2.5, 'once')
  t.equal(await pay(later, 450), 25, 'at most the bound of an owner')
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('a missed deposit is found by comparing balances', async (t) => {
  const { base, sql, one, source, owner } = await startDepositScenario(t)
  const { id, address } = await owner()
  await base.mint(address, usdcToMicrosBigint(2))
  await base.mine(BLOCKS_TO_CONFIRM)
  const blind = createTestDepositWatcher(one, sql, { ...source, transfersTo: async () => [] })
  await blind.catchUp()
  t.strictSame(await readCreditBalances(one, id), [0, 0, 0])
  t.strictSame(await blind.compare(), [
    { agentId: id, address, booked: 0n, held: usdcToMicrosBigint(2) },
  ])
  const seeing = createTestDepositWatcher(one, sql, source)
  t.strictSame(await seeing.compare(), [])
  t.strictSame(await readCreditBalances(one, id), [2, 0.5, 0])
  t.strictSame(await seeing.compare(), [], 'and it is credited once')
  t.strictSame(await readCreditBalances(one, id), [2, 0.5, 0])
  t.strictSame(await findInvariantViolations(sql), {})
})

t.test('deposits after a long outage are credited, and final blocks are not stored', async (t) => {
  const { base, sql, one, watch, owner } = await startUnfinalizedDepositScenario(t)
  const { id, address } = await owner()
  await base.mint(address, usdcToMicrosBigint(1))
  await base.mine(450)
  await base.mint(address, usdcToMicrosBigint(1))
  await base.mine(BLOCKS_TO_CONFIRM)
  await watch.catchUp()
  t.strictSame(await readCreditBalances(one, id), [2, 0.25, 0])
  const remembered = async () => (await sql`select from chain_blocks`).length
  t.ok((await remembered()) > 450)
  await base.mine(BLOCKS_TO_CONFIRM)
  await createTestDepositWatcher(one, sql, createTestDepositChainSource(base)).catchUp()
  t.ok((await remembered()) < 10)
  t.strictSame(await findInvariantViolations(sql), {})
})
