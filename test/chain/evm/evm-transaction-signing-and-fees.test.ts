import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { encodeFunctionData, parseTransaction } from 'viem'
import { generatePrivateKey } from 'viem/accounts'
import { type EvmCall, createEvmClient, isRpcUnavailable } from '../../../chain/evm/evm-client.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import {
  accountFromPrivateKey,
  broadcastSignedTransaction,
  toReplacementFees,
  estimateGasOrThrow,
  readCurrentEip1559Fees,
  readNativeBalance,
  findTransactionReceipt,
  signEvmCall,
} from '../../../chain/evm/settler-evm-transactions.ts'
import { contractArtifacts, startLocalBase } from '../../support/chain/local-chain.ts'

const RECEIVER = '0x00000000000000000000000000000000000beef1'
const chain = await startLocalBase()
t.teardown(chain.stop)
const client = createEvmClient(chain)
const { abi } = contractArtifacts.MockUSDC

/** A settler with gas, its calls, and its next nonce. */
async function settlerWith(wei = 10n ** 18n) {
  const account = accountFromPrivateKey(generatePrivateKey())
  await chain.fund(account.address, wei)
  const paying = (amount: bigint): EvmCall => ({
    to: chain.usdc,
    data: encodeFunctionData({ abi, functionName: 'transfer', args: [RECEIVER, amount] }),
  })
  return { account, paying }
}

t.test('one account object is cached per key', async (t) => {
  const key = generatePrivateKey()
  t.equal(accountFromPrivateKey(key), accountFromPrivateKey(key))
  t.not(accountFromPrivateKey(key), accountFromPrivateKey(generatePrivateKey()))
})

t.test('a call is signed with the given nonce, sent once and identified by its hash', async (t) => {
  const { account, paying } = await settlerWith()
  await chain.mint(account.address, 10n)
  const signed = await signEvmCall(client, account, { ...paying(4n), nonce: 0 })
  t.match(parseTransaction(signed.raw), {
    type: 'eip1559',
    chainId: 8453,
    nonce: 0,
    to: chain.usdc,
    gas: signed.gas,
    maxFeePerGas: signed.maxFeePerGas,
  })
  t.equal(await findTransactionReceipt(client, signed.hash), null, 'nothing was sent yet')
  t.equal(await broadcastSignedTransaction(client, signed.raw), 'sent')
  t.match(await findTransactionReceipt(client, signed.hash), {
    status: 'success',
    transactionHash: signed.hash,
  })
  t.equal(await chain.balanceOf(RECEIVER), 4n)
  t.equal(await broadcastSignedTransaction(client, signed.raw), 'nonce_used', 'mined')
  const other = await signEvmCall(client, account, { ...paying(5n), nonce: 0 })
  t.equal(
    await broadcastSignedTransaction(client, other.raw),
    'nonce_used',
    'another one has its nonce',
  )
  t.ok((await readNativeBalance(client, account.address)) < 10n ** 18n)
})

t.test('a pending transaction is found, and replaced only with higher fees', async (t) => {
  const { account, paying } = await settlerWith()
  await chain.mint(account.address, 10n)
  await chain.client.setAutomine(false)
  t.teardown(() => chain.client.setAutomine(true))
  const first = await signEvmCall(client, account, { ...paying(1n), nonce: 0 })
  t.equal(await broadcastSignedTransaction(client, first.raw), 'sent')
  t.equal(await broadcastSignedTransaction(client, first.raw), 'known')
  t.equal(await findTransactionReceipt(client, first.hash), null)

  const { gas } = first
  const same = await signEvmCall(client, account, { ...paying(2n), nonce: 0, gas, fees: first })
  await t.rejects(broadcastSignedTransaction(client, same.raw), {
    name: 'BroadcastRejectedError',
    reason: /underpriced/,
  })
  const fees = toReplacementFees(first)
  const second = await signEvmCall(client, account, { ...paying(2n), nonce: 0, gas, fees })
  t.match(second, fees)
  t.equal(await broadcastSignedTransaction(client, second.raw), 'sent')
  await chain.mine(1)
  t.equal(await findTransactionReceipt(client, first.hash), null)
  t.match(await findTransactionReceipt(client, second.hash), { status: 'success' })
})

t.test('fees rise by at least an eighth', async (t) => {
  for (const fee of [0n, 1n, 7n, 1_000_000_001n]) {
    const { maxFeePerGas, maxPriorityFeePerGas } = toReplacementFees({
      maxFeePerGas: fee,
      maxPriorityFeePerGas: fee,
    })
    t.ok(maxFeePerGas * 8n >= fee * 9n && maxFeePerGas > fee)
    t.equal(maxPriorityFeePerGas, maxFeePerGas)
  }
  const { baseFeePerGas } = await chain.client.getBlock()
  const { maxFeePerGas, maxPriorityFeePerGas } = await readCurrentEip1559Fees(client)
  t.equal(maxFeePerGas, 2n * (baseFeePerGas ?? 0n) + maxPriorityFeePerGas)
})

t.test('a call that would fail is reported before signing', async (t) => {
  const { account, paying } = await settlerWith()
  const doomed = {
    name: 'WouldRevertError',
    reason: 'ERC20: transfer amount exceeds balance',
    message: 'the transaction would revert: ERC20: transfer amount exceeds balance',
  }
  const fees = await readCurrentEip1559Fees(client)
  await t.rejects(estimateGasOrThrow(client, account, { ...paying(1n), fees }), doomed)
  await t.rejects(signEvmCall(client, account, { ...paying(1n), nonce: 0 }), doomed)
  t.equal(await chain.client.getTransactionCount({ address: account.address }), 0)
})

t.test('error messages of other nodes map to the same results', async (t) => {
  let message = ''
  const error = () => JSON.stringify([{ jsonrpc: '2.0', id: 0, error: { code: -32000, message } }])
  const server = createServer((_, reply) => {
    reply.writeHead(200, { 'content-type': 'application/json' }).end(error())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const node = createEvmClient({ rpcUrl: `http://127.0.0.1:${port}`, chainId: 8453 })
  for (const [said, verdict] of [
    ['already known', 'known'],
    ['known transaction: 0xabc', 'known'],
    ['nonce too low: next nonce 5, tx nonce 4', 'nonce_used'],
    ['nonce is too low', 'nonce_used'],
  ] as const) {
    message = said
    t.equal(await broadcastSignedTransaction(node, '0x02'), verdict, said)
  }
  for (const said of ['replacement transaction underpriced', 'insufficient funds for gas']) {
    message = said
    await t.rejects(broadcastSignedTransaction(node, '0x02'), {
      name: 'BroadcastRejectedError',
      reason: said,
    })
  }
})

t.test('a settler without gas is rejected, and the node counts as available', async (t) => {
  const { account, paying } = await settlerWith(1n)
  await chain.mint(account.address, 1n)
  const call = { ...paying(1n), nonce: 0, gas: 100_000n }
  const { raw } = await signEvmCall(client, account, call)
  const error = await broadcastSignedTransaction(client, raw).catch((one: unknown) => one)
  t.match(error, { name: 'BroadcastRejectedError', reason: /insufficient funds/i })
  t.equal(isRpcUnavailable(error), false)
  const gone = await startLocalBase()
  await gone.stop()
  const unsent = await broadcastSignedTransaction(createEvmClient(gone), raw).catch(
    (one: unknown) => one,
  )
  t.equal(isRpcUnavailable(unsent), true)
  await t.rejects(broadcastSignedTransaction(client, '0x02c0' as HexString), {
    name: 'BroadcastRejectedError',
  })
})
