import t from 'tap'
import type { PrivateKeyAccount } from 'viem'
import { createEvmClient } from '../../../chain/evm/evm-client.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import type { HexString, NormalizedPayment } from '../../../chain/onchain-payment-types.ts'
import { createSignerRecoveryPool } from '../../../chain/evm/signer-recovery-pool.ts'
import { signEip3009Authorization } from '../../../chain/evm/eip3009.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { HOUR } from '../../../core/clock.ts'
import { fromUsdc } from '../../../core/money.ts'
import { createPaymentChains } from '../../../payments/payment-chains.ts'
import { createPaymentClaims, type PaymentClaimRequest } from '../../../payments/payment-claims.ts'
import { createEarlierPaymentUseLookup, toPaymentRef } from '../../../payments/payment-lookup.ts'
import { deliverPaidCallsCommand } from '../../../payments/commands/payment-claim-commands.ts'
import {
  recordPaymentLostCommand,
  recordPaymentOutcomeUnknownCommand,
} from '../../../payments/commands/settlement-commands.ts'
import { createPaymentVerifier } from '../../../payments/payment-verifier.ts'
import { createCallLogStore } from '../../../persistence/calls/call-log-store.ts'
import { createWalletStore } from '../../../persistence/payments/wallet-store.ts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'
import {
  runSettlementCommand,
  samplePaymentClaimInput,
  samplePaidCallOutcome,
  samplePayment,
  TEST_TREASURY,
} from '../../support/payments/sample-payment-claims.ts'
import { toSettlementId } from '../../../payments/commands/payment-claim-commands.ts'
import {
  sendTransactionFrom,
  settlementTransferCallOf,
  createRandomEvmAccount,
  pollUntilTrue,
  startSettlerScenario,
} from '../../support/payments/settler-scenario.ts'

const { asset, chainId, domain } = PAYMENT_NETWORKS.base
const token = { address: asset, chainId, ...domain }

/** Claims as a station makes them; the verifier has its own gate to the chain. */
async function begin(t: Parameters<typeof startSettlerScenario>[0], exposureUsdc = 5) {
  const all = await startSettlerScenario(t)
  const { chain, actors, store, settler, sql, clock, account } = all
  const gate = await startRpcFaultProxy(t, chain.rpcUrl)
  const made = createPaymentChains({
    base: {
      client: createEvmClient({ rpcUrl: gate.url, chainId, timeoutMs: 30_000 }),
      usdc: asset,
    },
    bsc: null,
    tempo: null,
    solana: null,
    treasury: TEST_TREASURY,
    settler: account.address.toLowerCase(),
    realm: 'gas.test',
    log: () => {},
  })
  await made.check()
  // A chain is reported after its first request.
  await settler.sweep()
  const recovery = createSignerRecoveryPool()
  t.teardown(() => recovery.close())
  let readings = 0
  const verify = createPaymentVerifier(made, recovery, createWalletStore(sql).custodial)
  const lookup = createEarlierPaymentUseLookup({
    actors,
    callLog: createCallLogStore(sql),
    settlementUrl: ({ settlement }) => settlement,
  })
  const { claim } = createPaymentClaims({
    clock,
    actors,
    verify: (payment) => ((readings += 1), verify(payment)),
    lookup,
    settlements: store,
    settler,
    exposure: fromUsdc(exposureUsdc),
  })

  async function signed(payer: PrivateKeyAccount, usdc: number): Promise<NormalizedPayment> {
    const payment = samplePayment(usdc, { from: payer.address.toLowerCase() })
    const { from, to, amount: value, validAfter, validBefore } = payment
    const nonce = payment.nonce as HexString
    const authorization = { from, to, value, validAfter, validBefore, nonce }
    const signature = await signEip3009Authorization(payer, token, authorization)
    return { ...payment, proof: { kind: 'eip3009', signature } }
  }

  async function payer(usdc: number): Promise<PrivateKeyAccount> {
    const one = createRandomEvmAccount()
    await chain.mint(one.address, fromUsdc(usdc))
    return one
  }

  const useOf = (payment: NormalizedPayment): PaymentClaimRequest => ({
    payment,
    request: {
      path: '/x',
      body: Buffer.alloc(0),
      paymentHeader: null,
      fingerprint: 'request',
      address: 'home',
    },
    buyer: { agentId: null, callId: newUuidV7(Date.now()), patienceMs: 60_000 },
    purpose: { kind: 'call' },
    offer: null,
  })

  /** Claims a payment and hands its call over, so that it is due. */
  async function delivered(payment: NormalizedPayment): Promise<void> {
    const use = useOf(payment)
    await claim(use)
    const claimed = samplePaymentClaimInput(payment, { callId: use.buyer.callId })
    await runSettlementCommand(
      actors,
      claimed,
      deliverPaidCallsCommand,
      samplePaidCallOutcome(claimed),
    )
  }

  const settled = async (payment: NormalizedPayment): Promise<void> => {
    settler.kick(toSettlementId(payment))
    await settler.settled(toSettlementId(payment), 60_000)
  }

  return {
    ...all,
    reading: gate,
    claim,
    lookup,
    signed,
    payer,
    useOf,
    delivered,
    settled,
    readings: () => readings,
  }
}

const short = { code: 'payment_invalid', details: { reason: /insufficient_balance/ } }

t.test('a settlement that is mined but not yet booked is waited for', async (t) => {
  const all = await begin(t)
  const her = await all.payer(0.02)
  const [one, two] = [await all.signed(her, 0.01), await all.signed(her, 0.01)]
  await all.delivered(one)
  // The transaction is mined, and its reply is lost.
  let sent = false
  all.gate.decide((method) => {
    const after = sent
    sent ||= method === 'eth_sendRawTransaction'
    return after ? 'lost' : 'pass'
  })
  all.settler.kick(toSettlementId(one))
  await pollUntilTrue(async () => (await all.chain.balanceOf(her.address)) === fromUsdc(0.01))
  t.not((await all.store.find(toSettlementId(one)))?.money, 'settled')
  const before = all.readings()
  const second = all.claim(all.useOf(two))
  await Promise.race([pollUntilTrue(async () => all.readings() >= before + 2), second])
  all.gate.decide(() => 'pass')
  await all.settled(one)
  t.match(await second, { ref: toPaymentRef(two) }, 'it has the money for it')
})

t.test('a payer whose funds are reserved by other claims has insufficient funds', async (t) => {
  const all = await begin(t)
  const her = await all.payer(0.01)
  await all.delivered(await all.signed(her, 0.01))
  const before = all.readings()
  await t.rejects(all.claim(all.useOf(await all.signed(her, 0.01))), short)
  t.ok(all.readings() > before + 1, 'it was waited for')
  const gone = await all.signed(await all.payer(0.009), 0.01)
  const last = all.readings()
  await t.rejects(all.claim(all.useOf(gone)), short)
  t.equal(all.readings(), last + 1, 'a payer without funds is rejected at once')
})

t.test('a balance from before the last settled block is read again', async (t) => {
  const all = await begin(t)
  const her = await all.payer(0.02)
  const [one, two] = [await all.signed(her, 0.01), await all.signed(her, 0.01)]
  await all.delivered(one)
  // The reading is of the block before; until it is here, the other payment has settled.
  all.reading.beforeAnswers(async () => {
    all.reading.beforeAnswers(() => {})
    await all.settled(one)
  })
  const before = all.readings()
  t.match(await all.claim(all.useOf(two)), { ref: toPaymentRef(two) })
  t.equal(all.readings(), before + 2)
})

t.test('a permanently stale balance is not the fault of the payer', async (t) => {
  const all = await begin(t)
  const her = await all.payer(0.1)
  const others = await Promise.all([1, 2, 3, 4].map(() => all.signed(her, 0.01)))
  for (const other of others) await all.delivered(other)
  all.reading.beforeAnswers(async (methods) => {
    const other = methods.includes('eth_getBlockByNumber') || methods.includes('eth_call')
    const next = other ? others.shift() : undefined
    if (next !== undefined) await all.settled(next)
  })
  const before = all.readings()
  const failing = all.claim(all.useOf(await all.signed(her, 0.01)))
  await t.rejects(failing, { code: 'rail_unavailable', details: { retry_after: 1 } })
  t.equal(all.readings(), before + 4)
})

t.test('a repeated header never gets a request for a new payment', async (t) => {
  const all = await begin(t)
  const payment = await all.signed(await all.payer(0.01), 0.01)
  let pass = () => {}
  const held = new Promise<'pass'>((resolve) => void (pass = () => resolve('pass')))
  let arrived = false
  all.reading.decide(() => {
    all.reading.decide(() => 'pass')
    arrived = true
    return held
  })
  // Nothing is known of it when this one looks; its reading reaches the chain after the other one has settled.
  const slow = all.claim(all.useOf(payment))
  slow.catch(() => {})
  await pollUntilTrue(async () => arrived)
  await all.delivered(payment)
  await all.settled(payment)
  pass()
  await t.rejects(slow, { code: 'payment_in_progress', details: { settlement_id: /^stl_/ } })
})

t.test('a header used up by another claim must be replaced', async (t) => {
  const all = await begin(t)
  const payment = await all.signed(await all.payer(0.01), 0.01)
  await sendTransactionFrom(all.chain, createRandomEvmAccount(), settlementTransferCallOf(payment))
  const used = { code: 'payment_invalid', details: { reason: /nonce_already_used/ } }
  await t.rejects(all.claim(all.useOf(payment)), used)
  const { request } = all.useOf(payment)
  t.equal(await all.lookup.find({ payment, request, agentId: null }), null, 'nothing is kept of it')
})

t.test('open claims count in the shared exposure', async (t) => {
  const all = await begin(t, 0.05)
  const payments: NormalizedPayment[] = []
  for (let one = 0; one < 4; one += 1) payments.push(await all.signed(await all.payer(0.03), 0.03))
  const claimed = await Promise.all(payments.map((payment) => all.claim(all.useOf(payment))))
  const first = claimed.filter(({ tx }) => tx !== null)
  t.equal(first.length, 3, 'one may run first, the others settle before')
})

t.test('a failed claim frees its exposure', async (t) => {
  const all = await begin(t, 0.08)
  const her = await all.payer(0.03)
  await all.delivered(await all.signed(her, 0.03))
  await t.rejects(all.claim(all.useOf(await all.signed(her, 0.03))), short)
  all.clock.pass(300)
  const { tx } = await all.claim(all.useOf(await all.signed(await all.payer(0.05), 0.05)))
  t.equal(tx, null, 'there is room for it')
})

t.test('what was lost in the last day counts against the exposure, for every payer', async (t) => {
  const all = await begin(t, 0.05)
  const lost = await all.signed(await all.payer(0.03), 0.03)
  await all.delivered(lost)
  const claimed = samplePaymentClaimInput(lost)
  await runSettlementCommand(all.actors, claimed, recordPaymentOutcomeUnknownCommand, {})
  const later = { lookAt: Date.now() + HOUR }
  await runSettlementCommand(all.actors, claimed, recordPaymentLostCommand, later)
  all.clock.pass(300)
  const stranger = await all.claim(all.useOf(await all.signed(await all.payer(0.03), 0.03)))
  t.match(stranger, { settled: true, tx: /^0x/ }, 'another wallet settles before its call')
  const small = await all.claim(all.useOf(await all.signed(await all.payer(0.02), 0.02)))
  t.match(small, { settled: false, tx: null }, 'what is left of the exposure is used')
})
