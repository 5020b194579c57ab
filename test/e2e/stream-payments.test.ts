import { Receipt } from 'mppx'
import { Mppx, tempo } from 'mppx/client'
import t from 'tap'
import { createClient, http } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { tempo as tempoChain } from 'viem/tempo/chains'
import { startTempo } from '../../scripts/chain/local-chain.ts'
import type { Answer } from '../support/client.ts'
import { startStation, type Served } from '../support/station.ts'
import {
  atRest,
  audited,
  authorize,
  base64,
  PRICE,
  responseOf,
  settlementOf,
  shortHeader,
  startPaidStation,
} from '../support/till.ts'

const STREAM = '/api/refuel/stream'
const json = { tool: 'hive_trending' }

const stream = (main: Served, headers: Record<string, string>) =>
  main.ask('POST', STREAM, { json, headers })

/** What the result says of its call. */
const metaOf = ({ frames }: Answer): Record<string, string> => ({
  ...(frames.find(({ event }) => event === 'result')?.data._meta as object),
})

t.test('a stream that settles after its call tells of the payment in its result', async (t) => {
  const { main, till } = await startPaidStation(t)
  const payer = await till.payer(2n * PRICE)
  const header = await shortHeader(payer, till, PRICE)
  const answer = await stream(main, header)
  t.equal(answer.headers['payment-response'], undefined, 'the call may fail, and cost nothing')
  const told = responseOf(metaOf(answer)['payment_response'])
  t.match(told, {
    success: true,
    transaction: '',
    network: 'eip155:8453',
    payer: payer.address.toLowerCase(),
    settlement_url: metaOf(answer)['settlement_url'],
  })
  const settled = await atRest(main, String(told['settlement_id']))
  t.match(settled, { state: 'settled', delivery: 'delivered' })

  const again = await stream(main, header)
  t.match(responseOf(again.headers['payment-response']), { transaction: settled['tx_hash'] })
  t.notOk('payment_response' in metaOf(again), 'said once')

  const payload = await authorize(payer, till, PRICE)
  const first = { x402Version: 1, scheme: 'exact', network: 'base', payload }
  const old = await stream(main, { 'x-payment': base64(first) })
  t.equal(old.headers['x-payment-response'], undefined)
  t.match(responseOf(metaOf(old)['x_payment_response']), { success: true, network: 'base' })
  await audited(t, main, till, 2n * PRICE)
})

t.test('a stream whose payment settles first begins with it', async (t) => {
  const { main, till } = await startPaidStation(t, { X402_EXPOSURE_USDC: '0' })
  const answer = await stream(main, await shortHeader(await till.payer(PRICE), till, PRICE))
  const { success, transaction } = responseOf(answer.headers['payment-response'])
  t.equal(success, true)
  const receipt = await till.base.client.getTransactionReceipt({ hash: transaction as never })
  t.equal(receipt.status, 'success')
  t.match(metaOf(answer), { rail: 'eip3009' })
  t.notOk('payment_response' in metaOf(answer), 'said once')
  t.match(await atRest(main, settlementOf(answer)), { tx_hash: transaction })
  await audited(t, main, till, PRICE)
})

t.test('the unmodified client of MPP gets the receipt of a stream', async (t) => {
  const chain = await startTempo()
  t.teardown(chain.stop)
  const main = await startStation(t, {
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
