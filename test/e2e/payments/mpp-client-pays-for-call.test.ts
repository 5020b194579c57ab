import { Receipt } from 'mppx'
import { Mppx, tempo } from 'mppx/client'
import t from 'tap'
import { createClient, http } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { tempo as tempoChain } from 'viem/tempo/chains'
import { startLocalTempo } from '../../support/chain/local-chain.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const PRICE = 5_000n
const TREASURY = '0x00000000000000000000000000000000000beef1'
const PATH_USD = '0x20c0000000000000000000000000000000000000'
/** The first account of every anvil: it has money from the start. */
const payer = privateKeyToAccount(
  '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
)

t.test(
  'the unmodified MPP client pays for a call, and its credential is accepted once',
  async (t) => {
    const chain = await startLocalTempo()
    t.teardown(chain.stop)
    const main = await startInProcessTestStation(t, {
      RPC_URL_TEMPO: chain.rpcUrl,
      TREASURY_ADDRESS: TREASURY,
      MPP_CURRENCY: PATH_USD,
      FREE_TIER_PER_DAY: '0',
    })
    const asked = await main.ask('POST', '/api/t/hive-trending', { json: {} })
    t.equal(asked.status, 402)
    t.match(asked.headers['www-authenticate'], /^Payment id=/)
    t.equal(asked.headers['payment-required'], undefined, 'nothing that a client of x402 can pay')
    t.notOk('accepts' in asked.body || 'x402Version' in asked.body, 'in neither version')
    t.match(asked.body, { code: 'payment_required', challengeId: /./ })

    let authorization = ''
    const listening: typeof fetch = (input, init) => {
      const headers = new Headers(init?.headers)
      authorization = headers.get('authorization') ?? authorization
      return fetch(input, init)
    }
    const getClient = () =>
      createClient({ chain: tempoChain, transport: http(chain.rpcUrl), pollingInterval: 50 })
    const client = Mppx.create({
      polyfill: false,
      fetch: listening,
      methods: [tempo.charge({ account: payer, getClient })],
    })
    const request = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"limit":2}',
    }
    const before = await chain.balanceOf(TREASURY)
    const answer = await client.fetch(`${main.url}/api/t/hive-trending`, request)
    const text = await answer.text()
    t.equal(answer.status, 200, text)
    t.match(JSON.parse(text), { _meta: { rail: 'mpp', cost_usdc: 0.005 } })
    const { reference } = Receipt.fromResponse(answer)
    t.equal((await chain.balanceOf(TREASURY)) - before, PRICE, 'the money is on the chain')
    const [row] = await main.sql<{ tx_hash: string }[]>`
    select state->'context'->>'txHash' as tx_hash from actors where kind = 'settlement'`
    t.equal(row?.tx_hash, reference)
    await main.verify()

    const send = (body: string) =>
      main.ask('POST', '/api/t/hive-trending', {
        raw: body,
        headers: { authorization, 'content-type': 'application/json' },
      })
    const again = await send('{"limit":2}')
    t.match(again, { status: 200, text, headers: { 'idempotency-replayed': 'true' } })
    const swapped = await send('{"limit":3}')
    t.match(swapped, { status: 409, body: { code: 'payment_already_used' } }, 'another body')
    t.equal((await chain.balanceOf(TREASURY)) - before, PRICE)
    const [sum] = await main.sql<{ sum: bigint }[]>`
    select coalesce(sum(amount_micros), 0)::bigint as sum from transfers where debit = 'world:tempo'`
    t.equal(sum?.sum, PRICE)
  },
)
