import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { encodeFunctionData, parseAbi, slice } from 'viem'
import { createEvmClient, isRpcUnavailable, type EvmCall } from '../../../chain/evm/evm-client.ts'
import { createPaymentPreflight } from '../../../chain/evm/payment-preflight.ts'
import { MULTICALL3_ADDRESS } from '../../../chain/evm/multicall.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import {
  accountFromPrivateKey,
  broadcastSignedTransaction,
  findTransactionReceipt,
  signEvmCall,
} from '../../../chain/evm/settler-evm-transactions.ts'
import {
  type Eip3009Authorization,
  eip3009Digest,
  tokenDomainHash,
  hasExpectedEip712Domain,
  readEip3009Status,
  preflightEip3009,
  isValidErc1271Signature,
  findPaymentLogIndex,
  signEip3009Authorization,
  type Eip3009Token,
  eip3009TransferCall,
} from '../../../chain/evm/eip3009.ts'
import { contractArtifacts, startLocalBase } from '../../support/chain/local-chain.ts'

/** Anvil's first account: the golden vector below is signed with it. */
const KEY = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
const TREASURY = '0x00000000000000000000000000000000000beef1'
const TOKEN: Eip3009Token = {
  address: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
  name: 'USD Coin',
  version: '2',
  chainId: 8453,
}
const PRICE = 30_000n
const GOLDEN: Eip3009Authorization = {
  from: '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266',
  to: TREASURY,
  value: PRICE,
  validAfter: 0n,
  validBefore: 2_000_000_000n,
  nonce: `0x${'11'.repeat(32)}`,
}
const SIGNATURE: HexString =
  '0x878650cc41316017c73b76c0fac66ef71335c1ce59f032845e2b0134691a992f02a1afaf8adc82021d75cb6e2de17a761c08b5bfb2abcb4c1889f26abf1431fe1b'

const { abi } = contractArtifacts.MockUSDC
const chain = await startLocalBase()
t.teardown(chain.stop)
const client = createEvmClient(chain)
const settler = accountFromPrivateKey(generatePrivateKey())
await chain.fund(settler.address, 10n ** 18n)

/** A payer with a balance and a way to sign. */
async function payerWith(balance: bigint) {
  const account = privateKeyToAccount(generatePrivateKey())
  const from = account.address.toLowerCase()
  if (balance > 0n) await chain.mint(from, balance)
  const sign = async (changes: Partial<Eip3009Authorization> = {}) => {
    const nonce = generatePrivateKey()
    const authorization: Eip3009Authorization = { ...GOLDEN, from, nonce, ...changes }
    return {
      authorization,
      signature: await signEip3009Authorization(account, TOKEN, authorization),
    }
  }
  return { account, from, sign }
}

async function submit(call: EvmCall, by = settler) {
  const nonce = await chain.client.getTransactionCount({ address: by.address })
  const { raw, hash } = await signEvmCall(client, by, { ...call, nonce })
  await broadcastSignedTransaction(client, raw)
  await chain.client.waitForTransactionReceipt({ hash })
  return hash
}

const inspect = (authorization: Eip3009Authorization, signature: HexString) =>
  preflightEip3009(createPaymentPreflight(client, settler.address), TOKEN, authorization, signature)

async function cancel(account: ReturnType<typeof privateKeyToAccount>, nonce: HexString) {
  const signature = await account.signTypedData({
    domain: { ...TOKEN, verifyingContract: TOKEN.address as HexString },
    types: {
      CancelAuthorization: [
        { name: 'authorizer', type: 'address' },
        { name: 'nonce', type: 'bytes32' },
      ],
    },
    primaryType: 'CancelAuthorization',
    message: { authorizer: account.address, nonce },
  })
  const [r, s] = [slice(signature, 0, 32), slice(signature, 32, 64)]
  const args = [account.address, nonce, Number(slice(signature, 64)), r, s]
  const data = encodeFunctionData({ abi, functionName: 'cancelAuthorization', args })
  return submit({ to: TOKEN.address, data })
}

t.test('domain, digest and signature equal the golden vector', async (t) => {
  t.equal(
    tokenDomainHash(TOKEN),
    '0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f',
  )
  t.equal(
    eip3009Digest(TOKEN, GOLDEN),
    '0xb9261686bffa6553e94ee2c6c3184ca7a3337c84f6144a1b5d1220fd75f6b9c0',
  )
  t.equal(await signEip3009Authorization(privateKeyToAccount(KEY), TOKEN, GOLDEN), SIGNATURE)
})

t.test('a signature of 65 bytes is sent as v, r, s, any other one as bytes', async (t) => {
  t.match(eip3009TransferCall(TOKEN, GOLDEN, SIGNATURE), { to: TOKEN.address, data: /^0xe3ee160e/ })
  t.match(eip3009TransferCall(TOKEN, GOLDEN, `${SIGNATURE}00`).data, /^0xcf092995/)
  const respelled: HexString = `${SIGNATURE.slice(0, -2) as HexString}00`
  t.equal(
    eip3009TransferCall(TOKEN, GOLDEN, respelled).data,
    eip3009TransferCall(TOKEN, GOLDEN, SIGNATURE).data,
    'a recovery bit of 0 becomes the 27 the token wants',
  )
})

t.test('the domain of the token is compared with the one on the chain', async (t) => {
  t.equal(await hasExpectedEip712Domain(client, TOKEN), true)
  t.equal(await hasExpectedEip712Domain(client, { ...TOKEN, name: 'USDC' }), false)
  t.equal(await hasExpectedEip712Domain(client, { ...TOKEN, chainId: 1 }), false)
})

t.test('an authorization is inspected, settled and found', async (t) => {
  const { from, sign } = await payerWith(PRICE * 2n)
  const { authorization, signature } = await sign()
  const before = await inspect(authorization, signature)
  t.match(before, { hasCode: false, used: false, balance: PRICE * 2n, simulation: null })
  t.equal(before.block, await chain.client.getBlockNumber())

  const sought = { ...authorization, fromBlock: before.block }
  const head = await chain.client.getBlock()
  t.strictSame(await readEip3009Status(client, TOKEN, sought), {
    state: 'unused',
    head: head.number,
    headTime: head.timestamp,
  })

  const had = await chain.balanceOf(TREASURY)
  const tx = await submit(eip3009TransferCall(TOKEN, authorization, signature))
  t.equal((await chain.balanceOf(TREASURY)) - had, PRICE)
  const receipt = await findTransactionReceipt(client, tx)
  t.match(receipt, { status: 'success' })
  if (receipt === null) return
  const found = { state: 'used', tx, block: receipt.blockNumber, logIndex: 1, paid: true }
  t.strictSame(await readEip3009Status(client, TOKEN, sought), found)
  t.equal(findPaymentLogIndex(receipt, TOKEN.address, from, TREASURY, PRICE), 1)
  t.equal(
    findPaymentLogIndex(receipt, TOKEN.address, from, TREASURY, PRICE, authorization.nonce),
    1,
  )
  t.equal(
    findPaymentLogIndex(receipt, TOKEN.address, from, TREASURY, PRICE, generatePrivateKey()),
    null,
  )
  t.equal(findPaymentLogIndex(receipt, TOKEN.address, from, TREASURY, PRICE - 1n), null)
  t.equal(
    findPaymentLogIndex(receipt, TREASURY, from, TREASURY, PRICE),
    null,
    'only the token itself counts',
  )
  t.equal(
    findPaymentLogIndex({ ...receipt, status: 'reverted' }, TOKEN.address, from, TREASURY, PRICE),
    null,
  )

  t.match(await inspect(authorization, signature), {
    used: true,
    balance: PRICE,
    simulation: 'FiatTokenV2: authorization is used or canceled',
  })
})

t.test('causes of a failing settlement are named', async (t) => {
  const poor = await payerWith(PRICE - 1n)
  const first = await poor.sign()
  t.match(await inspect(first.authorization, first.signature), {
    used: false,
    balance: PRICE - 1n,
    simulation: 'ERC20: transfer amount exceeds balance',
  })

  const rich = await payerWith(PRICE)
  const reasonFor = async (changes: Partial<Eip3009Authorization>) => {
    const { authorization, signature } = await rich.sign(changes)
    return (await inspect(authorization, signature)).simulation
  }
  t.equal(await reasonFor({ validBefore: 1n }), 'FiatTokenV2: authorization is expired')
  t.equal(
    await reasonFor({ validAfter: 1_999_999_999n }),
    'FiatTokenV2: authorization is not yet valid',
  )
  const { authorization } = await rich.sign()
  t.equal(
    (await inspect(authorization, first.signature)).simulation,
    'FiatTokenV2: invalid signature',
  )
  const high: HexString = `${SIGNATURE.slice(0, 66) as HexString}${'f'.repeat(64)}1b`
  t.equal((await inspect(authorization, high)).simulation, "ECRecover: invalid signature 's' value")
  const good = await rich.sign()
  const pause = (value: boolean) =>
    submit({
      to: TOKEN.address,
      data: encodeFunctionData({ abi, functionName: 'setPaused', args: [value] }),
    })
  await pause(true)
  t.equal((await inspect(good.authorization, good.signature)).simulation, 'Pausable: paused')
  await pause(false)
  const list = encodeFunctionData({ abi, functionName: 'setBlacklisted', args: [rich.from, true] })
  await submit({ to: TOKEN.address, data: list })
  t.match((await inspect(good.authorization, good.signature)).simulation, /^Blacklistable/)
})

t.test('a cancelled authorization is reported as cancelled', async (t) => {
  const { account, sign } = await payerWith(PRICE)
  const { authorization, signature } = await sign()
  const tx = await cancel(account, authorization.nonce)
  const found = await readEip3009Status(client, TOKEN, { ...authorization, fromBlock: 0n })
  t.strictSame(found, { state: 'canceled', tx })
  t.match(await inspect(authorization, signature), { used: true, balance: PRICE })
})

t.test('an authorization submitted by a third party is found', async (t) => {
  const { sign } = await payerWith(PRICE)
  const { authorization, signature } = await sign()
  const stranger = privateKeyToAccount(generatePrivateKey())
  await chain.fund(stranger.address, 10n ** 18n)
  const tx = await submit(eip3009TransferCall(TOKEN, authorization, signature), stranger)
  const found = await readEip3009Status(client, TOKEN, { ...authorization, fromBlock: 0n })
  t.match(found, { state: 'used', tx, paid: true })
})

/** One transaction that submits several authorizations. */
async function submitTogether(
  payments: readonly { authorization: Eip3009Authorization; signature: HexString }[],
) {
  const calls = payments.map(
    ({ authorization, signature }) =>
      [
        TOKEN.address as HexString,
        true,
        eip3009TransferCall(TOKEN, authorization, signature).data,
      ] as const,
  )
  const data = encodeFunctionData({
    abi: parseAbi(['function aggregate3((address, bool, bytes)[]) returns ((bool, bytes)[])']),
    args: [calls],
  })
  return submit({ to: MULTICALL3_ADDRESS, data })
}

const find = (authorization: Eip3009Authorization, fromBlock = 0n) =>
  readEip3009Status(client, TOKEN, { ...authorization, fromBlock })

t.test('two equal payments in one transaction get one log each', async (t) => {
  const { sign } = await payerWith(2n * PRICE)
  const payments = [await sign(), await sign()] as const
  const tx = await submitTogether(payments)
  const used = { state: 'used', tx, paid: true } as const
  t.match(await find(payments[0].authorization), { ...used, logIndex: 1 })
  t.match(await find(payments[1].authorization), { ...used, logIndex: 3 })
})

t.test('an equal payment in the same transaction is not taken for one that failed', async (t) => {
  const { sign } = await payerWith(2n * PRICE)
  const { authorization } = await sign()
  const payments = [await sign({ ...authorization, to: MULTICALL3_ADDRESS }), await sign()] as const
  const tx = await submitTogether(payments)
  t.match(await find(authorization), { state: 'used', tx, paid: false, logIndex: 0 })
  t.match(await find(payments[1].authorization), { state: 'used', tx, paid: true, logIndex: 3 })
})

t.test('a nonce used for another recipient counts as used and not paid', async (t) => {
  const { sign } = await payerWith(PRICE)
  const { authorization } = await sign()
  const elsewhere = await sign({ ...authorization, to: MULTICALL3_ADDRESS })
  await submit(eip3009TransferCall(TOKEN, elsewhere.authorization, elsewhere.signature))
  const sought = { ...authorization, fromBlock: 0n }
  t.match(await readEip3009Status(client, TOKEN, sought), { state: 'used', paid: false })
  const tooLate = { ...sought, fromBlock: (await chain.client.getBlockNumber()) + 1n }
  await t.rejects(readEip3009Status(client, TOKEN, tooLate), /no log since block/)
})

/** Code that answers every call with one word. */
const answering = (word: string): HexString => `0x7f${word.padEnd(64, '0')}60005260206000f3`

t.test('a payer with code is detected, and its contract checks the signature', async (t) => {
  const { from, sign } = await payerWith(PRICE)
  const { authorization, signature } = await sign()
  const digest = eip3009Digest(TOKEN, authorization)
  t.equal(
    await isValidErc1271Signature(client, from, digest, signature),
    false,
    'there is no contract',
  )

  await chain.client.setCode({ address: from as HexString, bytecode: answering('') })
  const refused = await inspect(authorization, signature)
  t.match(refused, { hasCode: true, simulation: 'FiatTokenV2: invalid signature' })
  t.equal(await isValidErc1271Signature(client, from, digest, signature), false)

  await chain.client.setCode({ address: from as HexString, bytecode: '0xfe' })
  t.equal(await isValidErc1271Signature(client, from, digest, signature), false, 'it reverts')

  await chain.client.setCode({ address: from as HexString, bytecode: answering('1626ba7e') })
  t.equal(await isValidErc1271Signature(client, from, digest, '0x1234'), true)
  t.match(await inspect(authorization, '0x1234'), { hasCode: true, simulation: null })
  t.equal(await isValidErc1271Signature(client, from, digest, `0x12${'6492'.repeat(16)}`), false)

  await submit(eip3009TransferCall(TOKEN, authorization, '0x1234'))
  const found = await readEip3009Status(client, TOKEN, { ...authorization, fromBlock: 0n })
  t.match(found, { state: 'used', paid: true })
})

/** A node that answers every request in one way; counts them. */
async function nodeThat(t: Test, answer: (body: string) => Promise<[number, string]>) {
  const requests: string[] = []
  const serve = async (request: IncomingMessage, reply: ServerResponse) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const body = Buffer.concat(parts).toString()
    requests.push(body)
    const [status, text] = await answer(body)
    reply.writeHead(status, { 'content-type': 'application/json' }).end(text)
  }
  const server = createServer((request, reply) => void serve(request, reply))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const settings = { rpcUrl: `http://127.0.0.1:${port}`, chainId: TOKEN.chainId, timeoutMs: 200 }
  return { requests, client: createEvmClient(settings) }
}

t.test('an inspection is one request', async (t) => {
  const forward = async (body: string): Promise<[number, string]> => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(chain.rpcUrl, { method: 'POST', headers, body })
    return [answer.status, await answer.text()]
  }
  const node = await nodeThat(t, forward)
  const { sign } = await payerWith(PRICE)
  const { authorization, signature } = await sign()
  const look = createPaymentPreflight(node.client, TREASURY)
  const found = await preflightEip3009(look, TOKEN, authorization, signature)
  t.match(found, { balance: PRICE, simulation: null })
  t.equal(node.requests.length, 1)
})

t.test('an unreachable node is distinguished from a rejection', async (t) => {
  const { authorization, signature } = await (await payerWith(0n)).sign()
  const errorOf = async (at: typeof client) => {
    try {
      await preflightEip3009(createPaymentPreflight(at, TREASURY), TOKEN, authorization, signature)
      return null
    } catch (error) {
      return error
    }
  }
  const limited = '{"jsonrpc":"2.0","id":1,"error":{"code":429,"message":"slow down"}}'
  const broken: [string, () => Promise<[number, string]>][] = [
    ['503', async () => [503, 'no']],
    ['no JSON', async () => [200, 'hello']],
    ['no answers', async () => [200, '[]']],
    ['one error for the whole batch', async () => [200, limited]],
    ['429', async () => [429, limited]],
    ['silence', () => new Promise(() => {})],
  ]
  for (const [name, answer] of broken) {
    const error = await errorOf((await nodeThat(t, answer)).client)
    t.equal(isRpcUnavailable(error), true, name)
  }
  const gone = await startLocalBase()
  await gone.stop()
  t.equal(isRpcUnavailable(await errorOf(createEvmClient(gone))), true, 'no listener')
  const call = eip3009TransferCall(TOKEN, authorization, signature)
  const revert = client.call({ to: call.to as HexString, data: call.data })
  t.equal(isRpcUnavailable(await revert.catch((error: unknown) => error)), false, 'a revert')
  t.equal(isRpcUnavailable(new Error('a bug')), false)
})
