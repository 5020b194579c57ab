import t from 'tap'
import { decodeFunctionData, encodeFunctionData, encodeFunctionResult, parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { evmClient } from '../../chain/evm.ts'
import { inspector } from '../../chain/inspection.ts'
import { membersOf, MULTICALL3, outcomesOf, together } from '../../chain/multicall.ts'
import { NETWORKS } from '../../chain/networks.ts'
import type { Hex } from '../../chain/payment.ts'
import { inspectAuthorization, signAuthorization, transferCall } from '../../chain/usdc.ts'
import { startBase } from '../../scripts/chain/local-chain.ts'
import { TREASURY } from '../support/payments.ts'
import { rpcGate } from '../support/rpc-gate.ts'

const { asset, chainId, domain } = NETWORKS.base
const token = { address: asset, chainId, ...domain }
const settler = privateKeyToAccount(generatePrivateKey()).address

const chain = await startBase()
t.teardown(chain.stop)
const gate = await rpcGate(t, chain.rpcUrl)
const client = evmClient({ rpcUrl: gate.url, chainId })

async function payer(balance: bigint) {
  const account = privateKeyToAccount(generatePrivateKey())
  const from = account.address.toLowerCase()
  if (balance > 0n) await chain.mint(from, balance)
  return async (value = 30_000n) => {
    const nonce = generatePrivateKey()
    const times = { validAfter: 0n, validBefore: 2_000_000_000n }
    const authorization = { from, to: TREASURY, value, nonce, ...times }
    return { authorization, signature: await signAuthorization(account, token, authorization) }
  }
}

t.test('payments that come together share one call, and each has its own answer', async (t) => {
  const inspect = inspector(client, settler)
  const rich = await payer(90_000n)
  const [good, twice, poor, forged] = [
    await rich(),
    await rich(),
    await (await payer(10_000n))(),
    await rich(),
  ]
  const doubtful = { ...forged, signature: good.signature }
  const contract = await (await payer(30_000n))()
  await chain.client.setCode({ address: contract.authorization.from as Hex, bytecode: '0xfe' })
  await chain.fund(settler, 10n ** 18n)
  gate.seen.splice(0)
  const all = [good, twice, poor, doubtful, contract]
  const seen = await Promise.all(
    all.map(({ authorization, signature }) =>
      inspectAuthorization(inspect, token, authorization, signature),
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

t.test('two payments on one balance: each is what it would be alone', async (t) => {
  const inspect = inspector(client, settler)
  const sign = await payer(30_000n)
  const both = [await sign(), await sign()]
  const seen = await Promise.all(
    both.map(({ authorization, signature }) =>
      inspectAuthorization(inspect, token, authorization, signature),
    ),
  )
  t.match(seen, [{ simulation: null }, { simulation: null }], 'the reservation decides')
})

t.test('a settlement that burns all gas takes nobody with it', async (t) => {
  const inspect = inspector(client, settler)
  const [good, burner] = [await (await payer(30_000n))(), await (await payer(30_000n))()]
  // jumpdest, push 0, jump: for ever
  const loop: Hex = '0x5b600056'
  await chain.client.setCode({ address: burner.authorization.from as Hex, bytecode: loop })
  const seen = await Promise.all(
    [burner, good].map(({ authorization, signature }) =>
      inspectAuthorization(inspect, token, authorization, signature),
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
  const { to, data } = transferCall(token, authorization, signature)
  const members = [
    { to, data, fails: 'may' },
    { to: MULTICALL3, data: '0x42cbb15c', fails: 'never' },
    { to: TREASURY, data: '0x', fails: 'may' },
  ] as const
  const call = together(members)
  const args = members.map(({ to: target, data: callData, fails }) => {
    return { target: target as Hex, allowFailure: fails === 'may', callData }
  })
  t.equal(call.data, encodeFunctionData({ abi, args: [args] }))
  t.same(decodeFunctionData({ abi, data: call.data }).args[0].length, 3)
  t.strictSame(
    membersOf(call),
    members.map((one) => ({ to: one.to, data: one.data })),
  )
  t.equal(membersOf({ to, data }), null)
  const said = [
    { success: true, returnData: '0x' },
    { success: false, returnData: `0x${'ab'.repeat(37)}` },
    { success: true, returnData: `0x${'01'.repeat(64)}` },
  ] as const
  const answer = encodeFunctionResult({ abi, result: [...said] })
  t.strictSame(
    outcomesOf(answer, 3),
    said.map(({ success, returnData }) => ({ success, data: returnData })),
  )
  t.equal(outcomesOf('0x', 3), null, 'there is no Multicall3')
  t.equal(outcomesOf(answer, 2), null)
})
