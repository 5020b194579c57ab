import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import t, { type Test } from 'tap'
import { encodeFunctionData, pad, toHex } from 'viem'
import {
  readTokenHoldings,
  findBlockHash,
  readLatestAndFinalBlocks,
  readIncomingTransfers,
  type IncomingTransferLog,
} from '../../../chain/evm/incoming-token-transfers.ts'
import { createEvmClient } from '../../../chain/evm/evm-client.ts'
import {
  contractArtifacts,
  type LocalChain,
  startLocalBase,
} from '../../support/chain/local-chain.ts'

const MINTER = '0x0000000000000000000000000000000000000000'
const wallet = (n: number) => pad(toHex(n + 1_000_000), { size: 20 })
const wallets = (count: number, from = 0) =>
  Array.from({ length: count }, (_, n) => wallet(n + from))

async function chainFor(t: Test) {
  const chain = await startLocalBase()
  t.teardown(chain.stop)
  return { chain, client: createEvmClient(chain) }
}

/** A proxy of a chain that rejects requests by `refuses` and records them. */
async function relayFor(t: Test, chain: LocalChain, refuses: (body: string) => boolean) {
  const asked: string[] = []
  const serve = async (request: IncomingMessage, reply: ServerResponse) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const body = Buffer.concat(parts).toString()
    asked.push(body)
    if (refuses(body)) {
      reply.writeHead(413).end('too large')
      return
    }
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(chain.rpcUrl, { method: 'POST', headers, body })
    reply.writeHead(200, headers).end(await answer.text())
  }
  const server = createServer((request, reply) => void serve(request, reply))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const client = createEvmClient({ rpcUrl: `http://127.0.0.1:${port}`, chainId: chain.chainId })
  return { asked, client }
}

const rangeOf = (body: string) => {
  const [{ params }] = JSON.parse(body) as [{ params: [{ fromBlock: Hex; toBlock: Hex }] }]
  return [Number(params[0].fromBlock), Number(params[0].toBlock)] as const
}
type Hex = `0x${string}`

t.test('transfers arrive in chain order, once, and only for the requested addresses', async (t) => {
  const { chain, client } = await chainFor(t)
  const first = (await chain.client.getBlockNumber()) + 1n
  await chain.client.setAutomine(false)
  const { abi } = contractArtifacts.MockUSDC
  const mint = (to: string, amount: bigint): Promise<Hex> => {
    const data = encodeFunctionData({ abi, functionName: 'mint', args: [to, amount] })
    const from = '0x00000000000000000000000000000000000face7'
    const transaction = { from, to: chain.usdc, data } as const
    return chain.client.request({ method: 'eth_sendTransaction', params: [transaction] } as never)
  }
  const txs = [
    await mint(wallet(2), 5n),
    await mint(wallet(1), 7n),
    await mint(wallet(3), 0n),
    await mint(wallet(9), 9n),
  ]
  await chain.mine(1)
  await chain.client.setAutomine(true)
  txs.push(await chain.mint(wallet(1), 11n))

  const asked = [wallet(1).toUpperCase().replace('0X', '0x'), wallet(2), wallet(3)]
  const found = await readIncomingTransfers(client, chain.usdc, asked, first, first + 1n)
  const hashes = await Promise.all([
    findBlockHash(client, first),
    findBlockHash(client, first + 1n),
  ])
  const expected = (tx: number, to: number, value: bigint, block: 0 | 1): IncomingTransferLog => ({
    tx: txs[tx] as Hex,
    logIndex: block === 1 ? 0 : tx,
    block: first + BigInt(block),
    blockHash: hashes[block] as Hex,
    from: MINTER,
    to: wallet(to),
    value,
  })
  t.strictSame(found, [expected(0, 2, 5n, 0), expected(1, 1, 7n, 0), expected(4, 1, 11n, 1)])
  t.strictSame(
    await readIncomingTransfers(client, chain.usdc, asked, first, first),
    found.slice(0, 2),
  )
  t.strictSame(await readIncomingTransfers(client, chain.usdc, [], first, first + 1n), [])
  t.strictSame(
    await readIncomingTransfers(client, wallet(0), asked, first, first + 1n),
    [],
    'another token',
  )
})

t.test(
  'many addresses are filtered in lists of a thousand, very many are not filtered',
  async (t) => {
    const { chain } = await chainFor(t)
    await chain.mint(wallet(0), 1n)
    await chain.mint(wallet(2_400), 2n)
    await chain.mint(wallet(-1), 3n)
    const head = await chain.client.getBlockNumber()
    const relay = await relayFor(t, chain, () => false)
    const scan = (count: number) =>
      readIncomingTransfers(relay.client, chain.usdc, wallets(count), 0n, head).then((found) =>
        found.map(({ to, value }) => [to, value]),
      )
    const both = [
      [wallet(0), 1n],
      [wallet(2_400), 2n],
    ]
    t.strictSame(await scan(2_401), both)
    const lists = relay.asked.map((body) => JSON.parse(body)[0].params[0].topics[2].length)
    t.strictSame(lists, [1_000, 1_000, 401])

    relay.asked.length = 0
    t.strictSame(await scan(20_001), both)
    t.strictSame(
      relay.asked.map((body) => JSON.parse(body)[0].params[0].topics[2]),
      [null],
    )
  },
)

t.test('a rejected range is halved', async (t) => {
  const { chain } = await chainFor(t)
  const first = (await chain.client.getBlockNumber()) + 1n
  for (let n = 1; n <= 9; n += 1) await chain.mint(wallet(1), BigInt(n))
  const relay = await relayFor(t, chain, (body) => {
    const [from, to] = rangeOf(body)
    return to - from + 1 > 3
  })
  const found = await readIncomingTransfers(
    relay.client,
    chain.usdc,
    [wallet(1)],
    first,
    first + 8n,
  )
  t.strictSame(
    found.map(({ value }) => value),
    [1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 9n],
  )
  const none = await relayFor(t, chain, () => true)
  const refused = readIncomingTransfers(none.client, chain.usdc, [wallet(1)], first, first + 8n)
  await t.rejects(refused, { name: 'HttpRequestError' })
  t.equal(none.asked.length, 5, '9, 5, 3, 2 and 1 block')
})

t.test('the range is not halved when the node is unreachable', async (t) => {
  let connections = 0
  const server = createTcpServer((socket) => {
    connections += 1
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const client = createEvmClient({ rpcUrl: `http://127.0.0.1:${port}`, chainId: 8453 })
  await t.rejects(readIncomingTransfers(client, wallet(0), [wallet(1)], 0n, 1_000n), {
    name: 'HttpRequestError',
  })
  t.equal(connections, 1)
})

t.test('a reorganisation changes the block hash and removes the transfer', async (t) => {
  const { chain, client } = await chainFor(t)
  await chain.mine(5)
  await chain.mint(wallet(1), 5n)
  const { latest, finalized, latestTime } = await readLatestAndFinalBlocks(client)
  t.equal(latestTime, (await chain.client.getBlock()).timestamp)
  t.equal(latest, await chain.client.getBlockNumber())
  t.equal(finalized, latest - 4n, 'two epochs of two slots')
  t.equal((await readIncomingTransfers(client, chain.usdc, [wallet(1)], latest, latest)).length, 1)

  const before = await findBlockHash(client, latest)
  const older = await findBlockHash(client, latest - 1n)
  await chain.reorg(1)
  t.not(await findBlockHash(client, latest), before)
  t.equal(await findBlockHash(client, latest - 1n), older)
  t.strictSame(await readIncomingTransfers(client, chain.usdc, [wallet(1)], 0n, latest), [])
  t.equal(await findBlockHash(client, latest + 100n), null)
})

t.test('balances of many wallets are read at one block', async (t) => {
  const { chain, client } = await chainFor(t)
  await chain.mint(wallet(3), 30n)
  const before = await chain.client.getBlockNumber()
  await chain.mint(wallet(600), 6_000n)
  const balances = await readTokenHoldings(client, chain.usdc, wallets(1_001))
  t.equal(balances.size, 1_001)
  t.equal(balances.get(wallet(3)), 30n)
  t.equal(balances.get(wallet(600)), 6_000n)
  t.equal(balances.get(wallet(1_000)), 0n)
  t.equal((await readTokenHoldings(client, chain.usdc, [wallet(600)], before)).get(wallet(600)), 0n)
  t.equal((await readTokenHoldings(client, chain.usdc, [])).size, 0)
})
