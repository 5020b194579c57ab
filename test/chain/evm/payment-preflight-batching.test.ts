import t from 'tap'
import { decodeFunctionData, encodeFunctionData, encodeFunctionResult, parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createEvmClient } from '../../../chain/evm/evm-client.ts'
import { createPaymentPreflight } from '../../../chain/evm/payment-preflight.ts'
import {
  decodeMulticallCalls,
  MULTICALL3_ADDRESS,
  decodeMulticallResults,
  encodeMulticall,
} from '../../../chain/evm/multicall.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import {
  preflightEip3009,
  signEip3009Authorization,
  eip3009TransferCall,
} from '../../../chain/evm/eip3009.ts'
import { startLocalBase } from '../../support/chain/local-chain.ts'
import { TEST_TREASURY } from '../../support/payments/sample-payment-claims.ts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'

const { asset, chainId, domain } = PAYMENT_NETWORKS.base
const token = { address: asset, chainId, ...domain }
const settler = privateKeyToAccount(generatePrivateKey()).address

const chain = await startLocalBase()
t.teardown(chain.stop)
const gate = await startRpcFaultProxy(t, chain.rpcUrl)
const client = createEvmClient({ rpcUrl: gate.url, chainId })

async function payer(balance: bigint) {
  const account = privateKeyToAccount(generatePrivateKey())
  const from = account.address.toLowerCase()
  if (balance > 0n) await chain.mint(from, balance)
  return async (value = 30_000n) => {
    const nonce = generatePrivateKey()
    const times = { validAfter: 0n, validBefore: 2_000_000_000n }
    const authorization = { from, to: TEST_TREASURY, value, nonce, ...times }
    return {
      authorization,
      signature: await signEip3009Authorization(account, token, authorization),
    }
  }
}

t.test('concurrent payments share one call and get their own results', async (t) => {
  const inspect = createPaymentPreflight(client, settler)
  const rich = await payer(90_000n)
  const [good, twice, poor, forged] = [
    await rich(),
    await rich(),
    await (await payer(10_000n))(),
    await rich(),
  ]
  const doubtful = { ...forged, signature: good.signature }
  const contract = await (await payer(30_000n))()
  await chain.client.setCode({
    address: contract.authorization.from as HexString,
    bytecode: '0xfe',
  })
  await chain.fund(settler, 10n ** 18n)
  gate.seen.splice(0)
  const all = [good, twice, poor, doubtful, contract]
  const seen = await Promise.all(
    all.map(({ authorization, signature }) =>
      preflightEip3009(inspect, token, authorization, signature),
    ),
  )
  t.match(seen, [
    { used: false, hasCode: false, balance: 90_000n, simulation: null },
    { used: false, hasCode: false, balance: 90_000n, simulation: null },
    { balance: 10_000n, simulation: /exceeds balance/ },
    { balance: 90_000n, simulation: /invalid signature/ },
    { hasCode: true, balance: 30_000n, simulation: String },
  ])
  t.equal(gate.seen.filter((method) => method === 'eth_call').length, 1 + 3, 'one, and each no')
})

t.test('two payments on one balance get the same results as alone', async (t) => {
  const inspect = createPaymentPreflight(client, settler)
  const sign = await payer(30_000n)
  const both = [await sign(), await sign()]
  const seen = await Promise.all(
    both.map(({ authorization, signature }) =>
      preflightEip3009(inspect, token, authorization, signature),
    ),
  )
  t.match(seen, [{ simulation: null }, { simulation: null }], 'the reservation decides')
})

t.test('a settlement that burns all gas does not affect the others', async (t) => {
  const inspect = createPaymentPreflight(client, settler)
  const [good, burner] = [await (await payer(30_000n))(), await (await payer(30_000n))()]
  // jumpdest, push 0, jump: for ever
  const loop: HexString = '0x5b600056'
  await chain.client.setCode({ address: burner.authorization.from as HexString, bytecode: loop })
  const seen = await Promise.all(
    [burner, good].map(({ authorization, signature }) =>
      preflightEip3009(inspect, token, authorization, signature),
    ),
  )
  t.match(seen, [
    { hasCode: true, simulation: String },
    { hasCode: false, simulation: null },
  ])
})

t.test('several calls are encoded and read as the compiler would', async (t) => {
  const abi = parseAbi([
    'function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])',
  ])
  const { authorization, signature } = await (await payer(0n))()
  const { to, data } = eip3009TransferCall(token, authorization, signature)
  const members = [
    { to, data, fails: 'may' },
    { to: MULTICALL3_ADDRESS, data: '0x42cbb15c', fails: 'never' },
    { to: TEST_TREASURY, data: '0x', fails: 'may' },
  ] as const
  const call = encodeMulticall(members)
  const args = members.map(({ to: target, data: callData, fails }) => {
    return { target: target as HexString, allowFailure: fails === 'may', callData }
  })
  t.equal(call.data, encodeFunctionData({ abi, args: [args] }))
  t.same(decodeFunctionData({ abi, data: call.data }).args[0].length, 3)
  t.strictSame(
    decodeMulticallCalls(call),
    members.map((one) => ({ to: one.to, data: one.data })),
  )
  t.equal(decodeMulticallCalls({ to, data }), null)
  const said = [
    { success: true, returnData: '0x' },
    { success: false, returnData: `0x${'ab'.repeat(37)}` },
    { success: true, returnData: `0x${'01'.repeat(64)}` },
  ] as const
  const answer = encodeFunctionResult({ abi, result: [...said] })
  t.strictSame(
    decodeMulticallResults(answer, 3),
    said.map(({ success, returnData }) => ({ success, data: returnData })),
  )
  t.equal(decodeMulticallResults('0x', 3), null, 'there is no Multicall3')
  t.equal(decodeMulticallResults(answer, 2), null)
})
