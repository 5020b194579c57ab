import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { encodeFunctionData, parseAbi, type PrivateKeyAccount } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { MULTICALL3_ADDRESS, encodeMulticall } from '../../../chain/evm/multicall.ts'
import { startLocalBase, type LocalChain } from '../../support/chain/local-chain.ts'
import {
  sendTransactionFrom,
  encodeTokenCall,
  pollUntilTrue,
} from '../../support/payments/settler-scenario.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import { startRpcFaultProxy, type RpcFault } from '../../support/chain/rpc-fault-proxy.ts'
import {
  startInProcessTestStation,
  type TestStation,
} from '../../support/station/start-test-station.ts'

const treasury = '0x00000000000000000000000000000000000beef1'
const dollars = (amount: number) => BigInt(amount * 1e6)
const abi = parseAbi(['function transferFrom(address from, address to, uint256 value)'])

/** Dollars from one account to several in one transaction, which no reorg takes back any more. */
async function spread(chain: LocalChain, from: PrivateKeyAccount, shares: [string, number][]) {
  const value = dollars(shares.reduce((sum, [, amount]) => sum + amount, 0))
  await chain.mint(from.address, value)
  await sendTransactionFrom(chain, from, encodeTokenCall('approve', [MULTICALL3_ADDRESS, value]))
  const calls = shares.map(([to, amount]) => {
    const args = [from.address, to as `0x${string}`, dollars(amount)] as const
    const data = encodeFunctionData({ abi, args })
    return { to: chain.usdc, data, fails: 'never' as const }
  })
  const tx = await sendTransactionFrom(chain, from, encodeMulticall(calls), { gas: 1_000_000n })
  await chain.mine(6)
  return tx
}

t.test('a top-up requested from two nodes concurrently', async (t) => {
  const chain = await startLocalBase()
  t.teardown(() => chain.stop())
  const gate = await startRpcFaultProxy(t, chain.rpcUrl)
  const settings = { RPC_URL_BASE: chain.rpcUrl, TREASURY_ADDRESS: treasury }
  const main = await startInProcessTestStation(t, settings)
  const { database } = main
  const slow = await startInProcessTestStation(
    t,
    { ...settings, RPC_URL_BASE: gate.url },
    { database },
  )
  const { key, id: ann } = await main.onboard()
  const fleet = async () => {
    const { body } = await main.ask('POST', '/api/fleet/create', { key, json: { name: 'crew' } })
    return { id: String(body['fleet_id']), address: String(body['wallet_address']) }
  }
  const topUp = (
    at: TestStation,
    tx: string,
    fleet_id: string,
    name?: string,
  ): Promise<TestReply> => {
    const headers: Record<string, string> = name === undefined ? {} : { 'idempotency-key': name }
    return at.ask('POST', '/api/fleet/topup', { key, json: { fleet_id, tx_hash: tx }, headers })
  }
  /** Its first look at the transaction is answered when the other one has been. */
  const behind = (first: () => Promise<TestReply>, second: () => Promise<TestReply>) => {
    let before: Promise<TestReply> | undefined
    gate.decide(async (method): Promise<RpcFault> => {
      if (method === 'eth_getTransactionReceipt') before ??= first()
      await before
      return 'pass'
    })
    const after = second()
    return after.then(async () => Promise.all([before, after]))
  }
  const stranger = privateKeyToAccount(generatePrivateKey())

  t.test('gets the same answer from both under one key', async (t) => {
    const { id, address } = await fleet()
    const tx = await spread(chain, stranger, [[address, 5]])
    const [first, second] = await behind(
      () => topUp(main, tx, id, 'mine'),
      () => topUp(slow, tx, id, 'mine'),
    )
    t.match(first, { status: 200, body: { credited_usdc: 5, bonus_usdc: 1.25 } })
    t.strictSame(second.body, first?.body)
    t.match(second, { status: 200, headers: { 'idempotency-replayed': 'true' } })
    const other = await behind(
      () => topUp(main, tx, id, 'others'),
      () => topUp(slow, tx, id),
    )
    t.strictSame(countReplies(other as TestReply[]), { '409 transfer_claimed': 2 })
    t.match(other[1].body, { tx_hash: tx, fleet_id: id })
  })

  t.test('does not take a transfer that only the second caller can claim', async (t) => {
    const wallet = privateKeyToAccount(generatePrivateKey())
    await main.sql`insert into wallets (agent_id, address, sealed, key_id, created_at, status)
      values (${ann}, ${wallet.address}, '', 'x', now(), 'exported')`
    const [one, two] = [await fleet(), await fleet()]
    const shares: [string, number][] = [
      [treasury, 4],
      [one.address, 2],
      [two.address, 1],
    ]
    const tx = await spread(chain, wallet, shares)
    gate.decide(() => 'pass')
    let asked: Promise<TestReply[]> = Promise.resolve([])
    await main.sql.begin(async (locking) => {
      // Booked rows are readable, and new ones are blocked.
      await locking`lock table chain_transfers in exclusive mode`
      asked = Promise.all([topUp(main, tx, one.id), topUp(slow, tx, two.id)])
      await pollUntilTrue(async () => {
        const [row] = await main.sql<{ n: number }[]>`select count(*)::int as n from pg_locks
          where relation = 'chain_transfers'::regclass and not granted`
        return row?.n === 2
      })
    })
    const credited = (await asked).map(({ body }) => body['credited_usdc'] as number)
    t.ok(isDeepStrictEqual(credited, [6, 1]) || isDeepStrictEqual(credited, [2, 5]))
  })

  t.test('gas verify finds no difference afterwards', async () => main.verify())
})
