import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createEvmClient, isRpcUnavailable } from '../../../chain/evm/evm-client.ts'
import { readEvmLogsInChunks, ERC20_TRANSFER_TOPIC } from '../../../chain/evm/evm-event-logs.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import {
  readEip3009Status,
  signEip3009Authorization,
  eip3009TransferCall,
} from '../../../chain/evm/eip3009.ts'
import { startLocalBase } from '../../support/chain/local-chain.ts'
import { sendTransactionFrom } from '../../support/payments/settler-scenario.ts'
import { TEST_TREASURY } from '../../support/payments/sample-payment-claims.ts'

interface Asked {
  readonly method: string
  readonly params: readonly { fromBlock: string; toBlock: string }[]
}

const chain = await startLocalBase()
t.teardown(chain.stop)
const ranges: [number, number][] = []
let most = 100

/** A node with a maximum block range per request, like hosted ones. */
const node = createServer((request, response) => {
  void text(request).then(async (body) => {
    const refused = ([JSON.parse(body)] as unknown[]).flat().some((one) => isTooLong(one as Asked))
    response.setHeader('content-type', 'application/json')
    if (!refused) {
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(chain.rpcUrl, { method: 'POST', body, headers })
      return void response.end(await answer.text())
    }
    const error = { code: -32005, message: `eth_getLogs is limited to a ${most} blocks range` }
    const { id } = ([JSON.parse(body)] as { id: number }[][]).flat()[0] ?? { id: 0 }
    response.end(JSON.stringify([{ jsonrpc: '2.0', id, error }]))
  })
}).listen(0, '127.0.0.1')
await new Promise((resolve) => node.once('listening', resolve))
t.teardown(() => {
  node.closeAllConnections()
  node.close()
})

function isTooLong({ method, params }: Asked): boolean {
  if (method !== 'eth_getLogs') return false
  const [from, to] = [Number(params[0]?.fromBlock), Number(params[0]?.toBlock)]
  ranges.push([from, to])
  return to - from + 1 > most
}

const { port } = node.address() as AddressInfo
const client = createEvmClient({ rpcUrl: `http://127.0.0.1:${port}`, chainId: chain.chainId })
const { asset, chainId, domain } = PAYMENT_NETWORKS.base
const token = { address: asset, chainId, ...domain }

t.test('a payment is found after an outage longer than the range limit of the node', async (t) => {
  const payer = privateKeyToAccount(generatePrivateKey())
  const from = payer.address.toLowerCase()
  const fromBlock = await chain.client.getBlockNumber()
  await chain.mint(from, 30_000n)
  const authorization = {
    from,
    to: TEST_TREASURY,
    value: 30_000n,
    validAfter: 0n,
    validBefore: 2_000_000_000n,
    nonce: generatePrivateKey(),
  }
  const signature = await signEip3009Authorization(payer, token, authorization)
  await chain.mine(230)
  const tx = await sendTransactionFrom(
    chain,
    payer,
    eip3009TransferCall(token, authorization, signature),
  )
  await chain.mine(700)
  const found = await readEip3009Status(client, token, { ...authorization, fromBlock })
  t.match(found, { state: 'used', tx, paid: true })
  t.ok((ranges.at(-1)?.[1] ?? 0) < Number(await chain.client.getBlockNumber()), 'and no further')
})

t.test('the parts of a range have no gaps and no overlaps', async (t) => {
  ranges.splice(0)
  const head = await chain.client.getBlockNumber()
  const filter = { address: asset, topics: [ERC20_TRANSFER_TOPIC], fromBlock: 0n, toBlock: head }
  const found: string[] = []
  for await (const logs of readEvmLogsInChunks(client, filter))
    found.push(...logs.map(({ block, logIndex }) => `${block}/${logIndex}`))
  const answered = ranges.filter(([from, to]) => to - from + 1 <= most)
  t.equal(answered[0]?.[0], 0)
  t.equal(answered.at(-1)?.[1], Number(head))
  answered.slice(1).forEach(([from], at) => t.equal(from, (answered[at]?.[1] ?? 0) + 1))
  const whole = await chain.client.getLogs({ address: asset, fromBlock: 0n, toBlock: head })
  const transfers = whole.filter(({ topics }) => (topics as string[])[0] === ERC20_TRANSFER_TOPIC)
  t.strictSame(
    found,
    transfers.map(({ blockNumber, logIndex }) => `${blockNumber}/${logIndex}`),
  )
})

t.test('a node that rejects a single block or is unreachable is not retried forever', async (t) => {
  most = 0
  const filter = { address: asset, topics: [ERC20_TRANSFER_TOPIC], fromBlock: 0n, toBlock: 9n }
  const read = async (at: typeof client) => {
    for await (const logs of readEvmLogsInChunks(at, filter)) t.fail(`${logs.length} logs`)
  }
  ranges.splice(0)
  await t.rejects(read(client), /limited/)
  t.strictSame(ranges, [
    [0, 9],
    [0, 4],
    [0, 2],
    [0, 1],
    [0, 0],
  ])
  const gone = createEvmClient({ rpcUrl: 'http://127.0.0.1:9', chainId })
  t.ok(isRpcUnavailable(await read(gone).catch((error: unknown) => error)))
})
