import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { encodeFunctionData, parseAbi, type PrivateKeyAccount } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createEvmClient } from '../../../chain/evm/evm-client.ts'
import { MULTICALL3_ADDRESS, encodeMulticall } from '../../../chain/evm/multicall.ts'
import { PAYMENT_NETWORKS, toAtomicUnits } from '../../../chain/payment-networks.ts'
import type { HexString, NormalizedPayment } from '../../../chain/onchain-payment-types.ts'
import {
  PERMIT2_ADDRESS,
  permit2SettleCall,
  signPermit2,
  X402_EXACT_PROXY_ADDRESS,
  type Permit2Transfer,
} from '../../../chain/evm/permit2.ts'
import { createFacilitatorClient } from '../../../chain/x402/facilitator-client.ts'
import { fromUsdc } from '../../../core/money.ts'
import { recordPaymentSubmittedCommand } from '../../../payments/commands/settlement-commands.ts'
import type { PaymentChainName } from '../../../payments/ledger-accounts.ts'
import { createSettler, type SettlerDeps } from '../../../payments/settlement/settler.ts'
import { createSettlementQueries } from '../../../persistence/payments/settlement-queries.ts'
import { createSettlerTransactionStore } from '../../../persistence/payments/settler-transaction-store.ts'
import { startLocalBsc, startLocalTempo } from '../../support/chain/local-chain.ts'
import {
  createTempoChargeCredential,
  readTempoChargePayment,
} from '../../support/payments/sample-tempo-charges.ts'
import { samplePaymentOffer } from '../../support/payments/sample-payment-offer.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { assertNoInvariantViolations } from '../../support/actors/test-actor-node-pairs.ts'
import {
  runSettlementCommand,
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  samplePayment,
  PAYMENT_TIMER_COMMANDS,
  TEST_TREASURY,
} from '../../support/payments/sample-payment-claims.ts'
import { toSettlementId } from '../../../payments/commands/payment-claim-commands.ts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'
import { createTestActorNode } from '../../support/actors/test-actor-node.ts'
import { createOffsetClock, sendTransactionFrom } from '../../support/payments/settler-scenario.ts'

/** A settler with these rails and no other one. */
async function settling(t: Test, rails: Partial<SettlerDeps>) {
  const { sql } = await createTestDatabase(t)
  const clock = createOffsetClock()
  const actors = createTestActorNode(t, sql, { clock, timerCommands: PAYMENT_TIMER_COMMANDS })
  const store = createSettlementQueries(sql)
  const none = { base: null, bsc: null, tempo: null, facilitator: null }
  const rest = {
    sweepMs: null,
    receiptMs: 3_000,
    log: () => {},
    transactions: createSettlerTransactionStore(sql),
  }
  const made = createSettler({ actors, store, clock, ...none, ...rest, ...rails })
  t.teardown(() => made.close())
  return {
    sql,
    clock,
    actors,
    settler: made,
    async claimed(payment: NormalizedPayment, chain: PaymentChainName) {
      const asked = samplePaymentClaimInput(payment, {
        chain,
        mode: 'first',
        balance: null,
        balanceBlock: 0n,
      })
      await claimPaymentOnTestNode(actors, asked)
      return toSettlementId(payment)
    },
    txOf: async (id: string) => (await store.find(id))?.txHash,
  }
}

/** The payment that the unmodified MPP client would send now. */
async function charge(
  account: PrivateKeyAccount,
): Promise<NormalizedPayment & { hash: HexString }> {
  const now = Date.now()
  const payment = await readTempoChargePayment(
    (await createTempoChargeCredential({ account }, { now })).text,
    { now },
  )
  if (payment?.proof.kind !== 'mpp') throw new Error('it can be read')
  return { ...payment, hash: payment.proof.hash }
}

t.test('MPP: the payer’s own transaction is sent and identified by its hash', async (t) => {
  const chain = await startLocalTempo()
  t.teardown(() => chain.stop())
  const gate = await startRpcFaultProxy(t, chain.rpcUrl)
  const tempo = createEvmClient({ rpcUrl: gate.url, chainId: 4217, timeoutMs: 5_000 })
  const at = await settling(t, { tempo })
  // Each from a payer of his own: a local node hangs on the second one of the same.
  const rich = async (amount = 1_000_000n) => {
    const account = privateKeyToAccount(generatePrivateKey())
    await chain.mint(account.address, amount)
    return account
  }

  const good = await charge(await rich())
  const id = await at.claimed(good, 'tempo')
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal(await at.txOf(id), good.hash)

  gate.decide((method) => (method.startsWith('eth_send') ? 'unanswered' : 'pass'))
  const unheard = await at.claimed(await charge(await rich()), 'tempo')
  t.equal(await at.settler.settled(unheard, 10_000), 'settled', 'the answer was lost')

  gate.decide(() => 'lost')
  const down = await at.claimed(await charge(await rich()), 'tempo')
  t.equal(await at.settler.settled(down, 500), 'pending', 'no node answers')
  gate.decide(() => 'pass')
  t.equal(await at.settler.settled(down, 10_000), 'settled')

  const failed = await at.claimed(await charge(await rich(25_000n)), 'tempo')
  t.equal(await at.settler.settled(failed, 10_000), 'lost', 'it was mined, and reverted')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('MPP: an unsent payment is lost once the chain is past its expiry', async (t) => {
  const chain = await startLocalTempo()
  t.teardown(() => chain.stop())
  const at = await settling(t, { tempo: createEvmClient(chain) })
  const poor = () => charge(privateKeyToAccount(generatePrivateKey()))
  const id = await at.claimed(await poor(), 'tempo')
  t.equal(await at.settler.settled(id, 500), 'pending', 'a node refuses it, another one might not')
  const begun = await poor()
  const left = await at.claimed(begun, 'tempo')
  await runSettlementCommand(at.actors, { payment: begun }, recordPaymentSubmittedCommand, {
    txHash: begun.hash,
  })
  const { timestamp } = await chain.client.getBlock()
  const ahead = Math.max(0, Math.floor(Date.now() / 1000) - Number(timestamp))
  await chain.client.increaseTime({ seconds: ahead + 60 })
  await chain.mine(1)
  t.equal(await at.settler.settled(id, 10_000), 'lost')
  t.equal(await at.settler.settled(left, 10_000), 'lost', 'its node died when it was to send it')
  await assertNoInvariantViolations(t, at.sql)
})

/** A local BSC with a settler on it, and payers who have approved Permit2. */
async function bsc(t: Test) {
  const chain = await startLocalBsc()
  t.teardown(() => chain.stop())
  const account = privateKeyToAccount(generatePrivateKey())
  await chain.fund(account.address, 10n ** 18n)
  const { asset, chainId, domain } = PAYMENT_NETWORKS.bsc
  const token = { address: asset, chainId, ...domain }
  const at = await settling(t, { bsc: { client: createEvmClient(chain), account, token } })
  const price = fromUsdc(0.03)
  const amount = toAtomicUnits(price, PAYMENT_NETWORKS.bsc.decimals)
  const deadline = BigInt(Math.floor(Date.now() / 1000) + 300)

  const approved = async (spender: HexString, payer: PrivateKeyAccount) => {
    const abi = parseAbi(['function approve(address spender, uint256 value) returns (bool)'])
    const args = [spender, amount] as const
    await sendTransactionFrom(chain, payer, { to: asset, data: encodeFunctionData({ abi, args }) })
  }
  const rich = async () => {
    const payer = privateKeyToAccount(generatePrivateKey())
    await chain.mint(payer.address, amount)
    await approved(PERMIT2_ADDRESS, payer)
    return payer
  }
  const permitOf = (
    payer: PrivateKeyAccount,
    nonce = BigInt(generatePrivateKey()),
  ): Permit2Transfer => ({
    from: payer.address.toLowerCase(),
    token: asset,
    amount,
    spender: X402_EXACT_PROXY_ADDRESS,
    nonce,
    deadline,
    to: TEST_TREASURY,
    validAfter: 0n,
  })
  const signed = async (payer: PrivateKeyAccount, permit = permitOf(payer)) => {
    const { from, spender, nonce } = permit
    const signature = await signPermit2(payer, chainId, permit)
    const proof = { kind: 'permit2', signature, spender, deadline } as const
    const terms = {
      chain: PAYMENT_NETWORKS.bsc.caip2,
      asset,
      from,
      amount,
      nonce: String(nonce),
      proof,
    }
    const payment = samplePayment(0.03, { ...terms, validBefore: deadline })
    return { payment, call: permit2SettleCall(permit, signature) }
  }
  return { ...at, chain, asset, amount, approved, rich, permitOf, signed }
}

t.test('Permit2 on BSC settles through the proxy', async (t) => {
  const at = await bsc(t)
  const payments = [await at.signed(await at.rich()), await at.signed(await at.rich())]
  const ids = await Promise.all(payments.map(({ payment }) => at.claimed(payment, 'bsc')))
  const ends = await Promise.all(ids.map((id) => at.settler.settled(id, 10_000)))
  t.strictSame(ends, ['settled', 'settled'])
  t.equal(await at.chain.balanceOf(TEST_TREASURY), 60_000n * 10n ** 12n)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a nonce used by its owner for another permit is lost after its deadline', async (t) => {
  const at = await bsc(t)
  const payer = await at.rich()
  const permit = at.permitOf(payer)
  const { payment } = await at.signed(payer, permit)
  const elsewhere = await at.signed(payer, { ...permit, to: payer.address.toLowerCase() })
  await sendTransactionFrom(at.chain, payer, elsewhere.call)
  const id = await at.claimed(payment, 'bsc')
  t.equal(await at.settler.settled(id, 500), 'pending', 'a node may lag behind its own state')
  await at.chain.client.increaseTime({ seconds: 400 })
  await at.chain.mine(1)
  t.equal(await at.settler.settled(id, 10_000), 'lost')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('one transfer that matches two cancelled permits pays for one of them', async (t) => {
  const at = await bsc(t)
  const payer = await at.rich()
  const permits = [at.permitOf(payer, 7n), at.permitOf(payer, 8n)] as const
  const claims = [await at.signed(payer, permits[0]), await at.signed(payer, permits[1])] as const
  const ids = await Promise.all(claims.map(({ payment }) => at.claimed(payment, 'bsc')))
  const abi = parseAbi([
    'function invalidateUnorderedNonces(uint256 word, uint256 mask)',
    'function transferFrom(address from, address to, uint256 value) returns (bool)',
  ])
  const word = encodeFunctionData({
    abi,
    functionName: 'invalidateUnorderedNonces',
    args: [0n, (1n << 7n) | (1n << 8n)],
  })
  await sendTransactionFrom(at.chain, payer, { to: PERMIT2_ADDRESS, data: word })
  await at.approved(MULTICALL3_ADDRESS, payer)
  const args = [payer.address, TEST_TREASURY, at.amount] as const
  const moved = encodeFunctionData({ abi, functionName: 'transferFrom', args })
  const calls = [{ to: at.asset, data: moved }, ...claims.map(({ call }) => call)]
  const crafted = encodeMulticall(calls.map(({ to, data }) => ({ to, data, fails: 'may' })))
  await sendTransactionFrom(at.chain, payer, crafted, { gas: 1_000_000n })
  const ends = await Promise.all(ids.map((id) => at.settler.settled(id, 10_000)))
  t.strictSame(ends.sort(), ['lost', 'settled'])
  await assertNoInvariantViolations(t, at.sql)
})

t.test(
  'Solana: the facilitator’s reply counts, and a missed reply is requested again',
  async (t) => {
    const answers: (object | null)[] = []
    const server = createServer((request, response) => {
      request.resume().on('end', () => {
        const answer = answers.shift() ?? null
        if (answer === null) request.socket.destroy()
        else response.end(JSON.stringify(answer))
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const clock = createOffsetClock()
    const facilitator = createFacilitatorClient({ url, send: fetch, clock, timeoutMs: 2_000 })
    const at = await settling(t, { facilitator })
    const requirement = samplePaymentOffer().requirements[2] as NonNullable<
      ReturnType<typeof samplePaymentOffer>['requirements'][2]
    >
    const signed = () =>
      samplePayment(0.03, {
        chain: PAYMENT_NETWORKS.solana.caip2,
        asset: PAYMENT_NETWORKS.solana.asset,
        from: 'Payer',
        proof: { kind: 'solana', transaction: 'AQAB', requirement },
      })
    const yes = (transaction: string) => ({
      success: true,
      transaction,
      network: 'solana',
      payer: 'P',
    })
    const no = {
      success: false,
      transaction: '',
      network: 'solana',
      errorReason: 'insufficient_funds',
    }

    answers.push(yes('5first'))
    const good = await at.claimed(signed(), 'solana')
    t.equal(await at.settler.settled(good, 5_000), 'settled')
    t.equal(await at.txOf(good), '5first')

    answers.push(no)
    t.equal(await at.settler.settled(await at.claimed(signed(), 'solana'), 5_000), 'lost')

    answers.push(null, no, yes('5second'))
    const missed = await at.claimed(signed(), 'solana')
    t.equal(await at.settler.settled(missed, 10_000), 'settled', 'a no after that is not believed')
    t.equal(await at.txOf(missed), '5second')

    answers.push(null, no, no, no, no, no, no)
    const gone = await at.claimed(signed(), 'solana')
    t.equal(await at.settler.settled(gone, 600), 'pending')
    at.clock.pass(400_000)
    t.equal(await at.settler.settled(gone, 600), 'pending', 'no reply says that it is lost')
    await assertNoInvariantViolations(t, at.sql)
  },
)
