import { Receipt } from 'mppx'
import { Mppx, tempo } from 'mppx/client'
import t from 'tap'
import { createClient, http } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { tempo as tempoChain } from 'viem/tempo/chains'
import { startLocalTempo } from '../../support/chain/local-chain.ts'
import type { TestReply } from '../../support/http/test-http-client.ts'
import {
  startInProcessTestStation,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import {
  waitForFinalSettlement,
  assertPaymentsBalance,
  signAuthorizationPayingTreasury,
  encodeBase64Json,
  HIVE_TRENDING_PRICE_ATOMIC,
  decodePaymentResponse,
  settlementIdOfReply,
  paymentSignatureHeader,
  startTestStationWithPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'

const STREAM = '/api/refuel/stream'
const json = { tool: 'hive_trending' }

const stream = (main: TestStation, headers: Record<string, string>) =>
  main.ask('POST', STREAM, { json, headers })

/** The metadata of the result. */
const metaOf = ({ frames }: TestReply): Record<string, string> => ({
  ...(frames.find(({ event }) => event === 'result')?.data._meta as object),
})

t.test('a stream that settles after its call reports the payment in its result', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const payer = await till.createPayer(2n * HIVE_TRENDING_PRICE_ATOMIC)
  const header = await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)
  const answer = await stream(main, header)
  t.equal(answer.headers['payment-response'], undefined, 'the call may fail, and cost nothing')
  const told = decodePaymentResponse(metaOf(answer)['payment_response'])
  t.match(told, {
    success: true,
    transaction: '',
    network: 'eip155:8453',
    payer: payer.address.toLowerCase(),
    settlement_url: metaOf(answer)['settlement_url'],
  })
  const settled = await waitForFinalSettlement(main, String(told['settlement_id']))
  t.match(settled, { state: 'settled', delivery: 'delivered' })

  const again = await stream(main, header)
  t.match(decodePaymentResponse(again.headers['payment-response']), {
    transaction: settled['tx_hash'],
  })
  t.notOk('payment_response' in metaOf(again), 'said once')

  const payload = await signAuthorizationPayingTreasury(payer, till, HIVE_TRENDING_PRICE_ATOMIC)
  const first = { x402Version: 1, scheme: 'exact', network: 'base', payload }
  const old = await stream(main, { 'x-payment': encodeBase64Json(first) })
  t.equal(old.headers['x-payment-response'], undefined)
  t.match(decodePaymentResponse(metaOf(old)['x_payment_response']), {
    success: true,
    network: 'base',
  })
  await assertPaymentsBalance(t, main, till, 2n * HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('a stream whose payment settles first starts with it', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t, { X402_EXPOSURE_USDC: '0' })
  const answer = await stream(
    main,
    await paymentSignatureHeader(
      await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
      till,
      HIVE_TRENDING_PRICE_ATOMIC,
    ),
  )
  const { success, transaction } = decodePaymentResponse(answer.headers['payment-response'])
  t.equal(success, true)
  const receipt = await till.base.client.getTransactionReceipt({ hash: transaction as never })
  t.equal(receipt.status, 'success')
  t.match(metaOf(answer), { rail: 'eip3009' })
  t.notOk('payment_response' in metaOf(answer), 'said once')
  t.match(await waitForFinalSettlement(main, settlementIdOfReply(answer)), { tx_hash: transaction })
  await assertPaymentsBalance(t, main, till, HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('the unmodified MPP client gets the receipt of a stream', async (t) => {
  const chain = await startLocalTempo()
  t.teardown(chain.stop)
  const main = await startInProcessTestStation(t, {
    RPC_URL_TEMPO: chain.rpcUrl,
    TREASURY_ADDRESS: '0x00000000000000000000000000000000000beef1',
    MPP_CURRENCY: '0x20c0000000000000000000000000000000000000',
    FREE_TIER_PER_DAY: '0',
  })
  const account = privateKeyToAccount(generatePrivateKey())
  await chain.mint(account.address, 1_000_000n)
  const getClient = () =>
    createClient({ chain: tempoChain, transport: http(chain.rpcUrl), pollingInterval: 50 })
  const client = Mppx.create({ polyfill: false, methods: [tempo.charge({ account, getClient })] })
  const answer = await client.fetch(`${main.url}${STREAM}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(json),
  })
  t.match(await answer.text(), /event: result\ndata: .*"rail":"mpp"/)
  const { reference } = Receipt.fromResponse(answer)
  const [row] = await main.sql<{ tx_hash: string }[]>`
    select state->'context'->>'txHash' as tx_hash from actors where kind = 'settlement'`
  t.equal(row?.tx_hash, reference)
  await main.verify()
})
