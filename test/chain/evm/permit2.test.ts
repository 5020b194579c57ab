import t from 'tap'
import { encodeFunctionData, parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { type EvmCall, createEvmClient } from '../../../chain/evm/evm-client.ts'
import { MULTICALL3_ADDRESS } from '../../../chain/evm/multicall.ts'
import {
  fromAtomicUnits,
  PAYMENT_NETWORKS,
  toAtomicUnits,
} from '../../../chain/payment-networks.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import { createPaymentPreflight } from '../../../chain/evm/payment-preflight.ts'
import {
  readPermit2PaymentOutcome,
  preflightPermit2,
  type Permit2Transfer,
  PERMIT2_ADDRESS,
  permit2Digest,
  permit2SettleCall,
  signPermit2,
  X402_EXACT_PROXY_ADDRESS,
} from '../../../chain/evm/permit2.ts'
import {
  broadcastSignedTransaction,
  findTransactionReceipt,
  signEvmCall,
} from '../../../chain/evm/settler-evm-transactions.ts'
import { findPaymentLogIndex } from '../../../chain/evm/eip3009.ts'
import { asMicros } from '../../../core/money.ts'
import { startLocalBsc } from '../../support/chain/local-chain.ts'

const TREASURY = '0x00000000000000000000000000000000000beef1'
const PRICE = toAtomicUnits(asMicros(30_000n), PAYMENT_NETWORKS.bsc.decimals)
const GOLDEN: Permit2Transfer = {
  from: '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266',
  token: PAYMENT_NETWORKS.bsc.asset,
  amount: PRICE,
  spender: X402_EXACT_PROXY_ADDRESS,
  nonce: 7n,
  deadline: 2_000_000_000n,
  to: TREASURY,
  validAfter: 0n,
}

const chain = await startLocalBsc()
t.teardown(chain.stop)
const client = createEvmClient(chain)
const settler = privateKeyToAccount(generatePrivateKey())
await chain.fund(settler.address, 10n ** 18n)

const abi = parseAbi([
  'function approve(address spender, uint256 value) returns (bool)',
  'function invalidateUnorderedNonces(uint256 word, uint256 mask)',
])

async function submit(call: EvmCall, by = settler) {
  const nonce = await chain.client.getTransactionCount({ address: by.address })
  const { raw, hash } = await signEvmCall(client, by, { ...call, nonce })
  await broadcastSignedTransaction(client, raw)
  await chain.client.waitForTransactionReceipt({ hash })
  return hash
}

/** A payer with a balance, gas of his own, and an approval for Permit2. */
async function payerWith(balance: bigint, approved = balance) {
  const account = privateKeyToAccount(generatePrivateKey())
  const from = account.address.toLowerCase()
  await chain.mint(from, balance)
  await chain.fund(from, 10n ** 18n)
  const approve = (value: bigint) => {
    const args = [PERMIT2_ADDRESS, value] as const
    const data = encodeFunctionData({ abi, functionName: 'approve', args })
    return submit({ to: PAYMENT_NETWORKS.bsc.asset, data }, account)
  }
  if (approved > 0n) await approve(approved)
  const sign = async (changes: Partial<Permit2Transfer> = {}) => {
    const permit: Permit2Transfer = {
      ...GOLDEN,
      from,
      nonce: BigInt(generatePrivateKey()),
      ...changes,
    }
    return { permit, signature: await signPermit2(account, 56, permit) }
  }
  const cancel = (nonce: bigint) => {
    const args = [nonce >> 8n, 1n << (nonce & 0xffn)] as const
    const data = encodeFunctionData({ abi, functionName: 'invalidateUnorderedNonces', args })
    return submit({ to: PERMIT2_ADDRESS, data }, account)
  }
  return { from, approve, sign, cancel }
}

const inspect = (permit: Permit2Transfer, signature: HexString) =>
  preflightPermit2(createPaymentPreflight(client, settler.address), permit, signature)

t.test('amounts convert to atomic units and back exactly, or are rejected', async (t) => {
  for (const [amount, decimals, atomic] of [
    [30_000n, 6, 30_000n],
    [1n, 18, 10n ** 12n],
    [0n, 18, 0n],
    [30_000n, 2, 3n],
    [2n ** 63n, 18, 2n ** 63n * 10n ** 12n],
  ] as const) {
    t.equal(toAtomicUnits(asMicros(amount), decimals), atomic)
    t.equal(fromAtomicUnits(atomic, decimals), amount)
  }
  t.throws(() => fromAtomicUnits(10n ** 12n + 1n, 18), RangeError)
  t.throws(() => toAtomicUnits(asMicros(30_001n), 2), RangeError)
  for (const { asset, caip2, chainId } of Object.values(PAYMENT_NETWORKS)) {
    if (chainId === null) continue
    t.equal(caip2, `eip155:${chainId}`)
    t.equal(asset, asset.toLowerCase())
  }
})

t.test('the digest equals the golden vector', async (t) => {
  t.equal(PRICE, 30_000_000_000_000_000n)
  t.equal(
    permit2Digest(56, GOLDEN),
    '0x22ebf732a39b080bf563edfd14f53d76f14400bff379aa3cf8f3b2463d28f1b2',
  )
})

t.test('a permit needs an approval, is settled and found', async (t) => {
  const { from, approve, sign } = await payerWith(PRICE * 2n, 0n)
  const { permit, signature } = await sign()
  t.match(await inspect(permit, signature), {
    hasCode: false,
    used: false,
    balance: PRICE * 2n,
    allowance: 0n,
    simulation: 'TRANSFER_FROM_FAILED',
  })
  await approve(PRICE)
  const before = await inspect(permit, signature)
  t.match(before, { allowance: PRICE, simulation: null })
  t.equal(before.block, await chain.client.getBlockNumber())
  const head = await chain.client.getBlock()
  t.strictSame(await readPermit2PaymentOutcome(client, permit, 0n), {
    state: 'unused',
    head: head.number,
    headTime: head.timestamp,
  })

  const had = await chain.balanceOf(TREASURY)
  const respelled: HexString = `${signature.slice(0, -2) as HexString}${signature.endsWith('1b') ? '00' : '01'}`
  const tx = await submit(permit2SettleCall(permit, respelled))
  t.equal((await chain.balanceOf(TREASURY)) - had, PRICE)
  const receipt = await findTransactionReceipt(client, tx)
  if (receipt === null) throw new Error('it was mined')
  const logIndex = findPaymentLogIndex(receipt, permit.token, from, TREASURY, PRICE)
  t.type(logIndex, 'number')
  const found = { state: 'used', tx, block: receipt.blockNumber, logIndex, paid: true }
  t.strictSame(await readPermit2PaymentOutcome(client, permit, before.block), found)
  t.match(await inspect(permit, signature), {
    used: true,
    balance: PRICE,
    simulation: 'InvalidNonce',
  })
})

t.test('equal payments are distinguished by their terms', async (t) => {
  const { sign } = await payerWith(PRICE * 2n)
  const [first, second] = [await sign({ nonce: 1n }), await sign({ nonce: 2n })]
  const txs = [
    await submit(permit2SettleCall(second.permit, second.signature)),
    await submit(permit2SettleCall(first.permit, first.signature)),
  ]
  t.match(await readPermit2PaymentOutcome(client, first.permit, 0n), { state: 'used', tx: txs[1] })
  t.match(await readPermit2PaymentOutcome(client, second.permit, 0n), { state: 'used', tx: txs[0] })
  t.match(await readPermit2PaymentOutcome(client, { ...first.permit, nonce: 3n }, 0n), {
    state: 'unused',
  })
  const other = { ...first.permit, amount: PRICE + 1n }
  t.match(await readPermit2PaymentOutcome(client, other, 0n), { state: 'spent', headTime: BigInt })
})

t.test('a log booked for another permit is not used twice', async (t) => {
  const { sign } = await payerWith(PRICE)
  const { permit, signature } = await sign()
  const tx = await submit(permit2SettleCall(permit, signature))
  const found = await readPermit2PaymentOutcome(client, permit, 0n)
  t.match(found, { state: 'used', tx, paid: true })
  const asked: [string, number][] = []
  const taken = async (...at: [HexString, number]) => asked.push(at) === 0
  t.match(await readPermit2PaymentOutcome(client, permit, 0n, taken), { state: 'spent' })
  t.strictSame(asked, [[tx, found.state === 'used' ? found.logIndex : -1]])
})

t.test('each payment of a transaction gets the log of its own amount', async (t) => {
  const { sign } = await payerWith(PRICE * 2n)
  const payments = [await sign({ amount: PRICE / 2n }), await sign()] as const
  const calls = payments.map(({ permit, signature }) => {
    const { to, data } = permit2SettleCall(permit, signature)
    return [to as HexString, false, data] as const
  })
  const data = encodeFunctionData({
    abi: parseAbi(['function aggregate3((address, bool, bytes)[]) returns ((bool, bytes)[])']),
    args: [calls],
  })
  const tx = await submit({ to: MULTICALL3_ADDRESS, data })
  const found = await Promise.all(
    payments.map(({ permit }) => readPermit2PaymentOutcome(client, permit, 0n)),
  )
  const logs =
    (await findTransactionReceipt(client, tx))?.logs.filter(({ data }) => data !== '0x') ?? []
  t.match(found, [
    { tx, logIndex: logs[0]?.logIndex },
    { tx, logIndex: logs[1]?.logIndex },
  ])
  t.equal(logs.length, 2)
})

t.test('a cancelled permit is reported as cancelled', async (t) => {
  const { sign, cancel } = await payerWith(PRICE)
  const nonce = (5n << 8n) + 200n
  const { permit, signature } = await sign({ nonce })
  await cancel(nonce + 1n)
  t.match(
    await readPermit2PaymentOutcome(client, permit, 0n),
    { state: 'unused' },
    'the bit beside it',
  )
  await cancel(nonce + 256n)
  t.match(
    await readPermit2PaymentOutcome(client, permit, 0n),
    { state: 'unused' },
    'the word beside it',
  )
  const tx = await cancel(nonce)
  t.strictSame(await readPermit2PaymentOutcome(client, permit, 0n), { state: 'canceled', tx })
  t.match(await inspect(permit, signature), { used: true, simulation: 'InvalidNonce' })
})

t.test('causes of a failing settlement are named', async (t) => {
  const { sign } = await payerWith(PRICE - 1n, PRICE)
  const poor = await sign()
  t.match(await inspect(poor.permit, poor.signature), {
    balance: PRICE - 1n,
    simulation: 'TRANSFER_FROM_FAILED',
  })
  const rich = await payerWith(PRICE)
  const reasonFor = async (changes: Partial<Permit2Transfer>) => {
    const { permit, signature } = await rich.sign(changes)
    return (await inspect(permit, signature)).simulation
  }
  t.equal(await reasonFor({ deadline: 1n }), 'SignatureExpired')
  t.equal(await reasonFor({ validAfter: 1_999_999_999n }), 'PaymentTooEarly')
  const { permit, signature } = await rich.sign()
  t.equal((await inspect(permit, poor.signature)).simulation, 'InvalidSigner')
  const elsewhere = { ...permit, to: settler.address.toLowerCase() }
  t.equal((await inspect(elsewhere, signature)).simulation, 'InvalidSigner', 'the payee is signed')
})
