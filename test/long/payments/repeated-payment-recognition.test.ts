import { Mppx, tempo } from 'mppx/client'
import t, { type Test } from 'tap'
import { createClient, encodeFunctionData, http, parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { tempo as tempoChain } from 'viem/tempo/chains'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import {
  PERMIT2_ADDRESS,
  signPermit2,
  X402_EXACT_PROXY_ADDRESS,
} from '../../../chain/evm/permit2.ts'
import { fromUsdc, type Micros } from '../../../core/money.ts'
import { startLocalBsc, startLocalTempo } from '../../support/chain/local-chain.ts'
import hiveTrending from '../../../tools/intelligence/hive-trending.ts'
import {
  createSignedSolanaTransfer,
  startTestFacilitator,
} from '../../support/chain/test-solana-facilitator.ts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import {
  waitForFinalSettlement,
  signAuthorizationPayingTreasury,
  encodeBase64Json,
  HIVE_TRENDING_PATH,
  postPaidCall,
  HIVE_TRENDING_PRICE_ATOMIC,
  decodePaymentResponse,
  settlementIdOfReply,
  paymentSignatureHeader,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import { requestUntilReplyMatches } from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

type Headers = Record<string, string>
const PATH_USD = '0x20c0000000000000000000000000000000000000'

const till = await startTestPaymentChain(t)
const gate = await startRpcFaultProxy(t, till.base.rpcUrl)
const [bsc, tempoNode] = await Promise.all([startLocalBsc(), startLocalTempo()])
t.teardown(() => Promise.all([bsc.stop(), tempoNode.stop()]))
const facilitator = await startTestFacilitator(t)
const all = {
  ...till.settings,
  RPC_URL_BASE: gate.url,
  RPC_URL_BSC: bsc.rpcUrl,
  RPC_URL_TEMPO: tempoNode.rpcUrl,
  MPP_CURRENCY: PATH_USD,
  MPP_SECRET: 'm'.repeat(32),
  X402_FACILITATOR_URL: facilitator.url,
  TREASURY_ADDRESS_SOLANA: '2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4',
}
const settler = privateKeyToAccount(till.settings['SETTLER_PRIVATE_KEY'] as HexString)
await bsc.fund(settler.address, 10n ** 18n)
const main = await startInProcessTestStation(t, all)
const { database } = main

const acceptedOn = async (network: string): Promise<Record<string, unknown>> => {
  const { headers } = await postPaidCall(main, {})
  const { accepts } = decodePaymentResponse(headers['payment-required']) as unknown as {
    accepts: Record<string, unknown>[]
  }
  return accepts.find((one) => one['network'] === network) ?? {}
}

async function authorized(form: 'v1' | 'v2'): Promise<Headers> {
  const payload = await signAuthorizationPayingTreasury(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  if (form === 'v1')
    return {
      'x-payment': encodeBase64Json({ x402Version: 1, scheme: 'exact', network: 'base', payload }),
    }
  const accepted = await acceptedOn(PAYMENT_NETWORKS.base.caip2)
  return { 'payment-signature': encodeBase64Json({ x402Version: 2, accepted, payload }) }
}

async function permitted(short = 0n): Promise<Headers> {
  const payer = privateKeyToAccount(generatePrivateKey())
  const accepted = await acceptedOn(PAYMENT_NETWORKS.bsc.caip2)
  const [amount, { asset: token }] = [BigInt(accepted['amount'] as string), PAYMENT_NETWORKS.bsc]
  await bsc.mint(payer.address, amount)
  await bsc.fund(payer.address, 10n ** 18n)
  const abi = parseAbi(['function approve(address spender, uint256 value) returns (bool)'])
  const data = encodeFunctionData({ abi, args: [PERMIT2_ADDRESS as HexString, amount - short] })
  const { chain } = bsc.client
  const hash = await bsc.client.sendTransaction({ account: payer, to: token, data, chain })
  await bsc.client.waitForTransactionReceipt({ hash })
  const deadline = BigInt(Math.floor(Date.now() / 1000) + 300)
  const [from, to, nonce] = [payer.address.toLowerCase(), till.treasury, BigInt(hash)]
  const spender = X402_EXACT_PROXY_ADDRESS
  const permit = { from, token, amount, spender, nonce, deadline, to, validAfter: 0n }
  const signature = await signPermit2(payer, PAYMENT_NETWORKS.bsc.chainId, permit)
  const permit2Authorization = {
    from,
    permitted: { token, amount },
    spender,
    nonce,
    deadline,
    witness: { to, validAfter: 0n },
  }
  const payload = { signature, permit2Authorization }
  return { 'payment-signature': encodeBase64Json({ x402Version: 2, accepted, payload }) }
}

async function onSolana(): Promise<Headers> {
  const accepted = await acceptedOn(PAYMENT_NETWORKS.solana.caip2)
  const payload = { transaction: createSignedSolanaTransfer() }
  return { 'payment-signature': encodeBase64Json({ x402Version: 2, accepted, payload }) }
}

/** The payment of the unmodified MPP client, which pays automatically, with its answer. */
async function charged(): Promise<{ headers: Headers; text: string }> {
  let authorization = ''
  const account = privateKeyToAccount(generatePrivateKey())
  await tempoNode.mint(account.address, 1_000_000n)
  const client = Mppx.create({
    polyfill: false,
    fetch: (input, init) => {
      authorization = new Headers(init?.headers).get('authorization') ?? authorization
      return fetch(input, init)
    },
    methods: [
      tempo.charge({
        account,
        getClient: () =>
          createClient({
            chain: tempoChain,
            transport: http(tempoNode.rpcUrl),
            pollingInterval: 50,
          }),
      }),
    ],
  })
  const answer = await client.fetch(`${main.url}${HIVE_TRENDING_PATH}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  })
  return { headers: { authorization }, text: await answer.text() }
}

/** The same bytes with another signature: all that an observer of the nonce can produce. */
function forged(headers: Headers): Headers | null {
  const { 'payment-signature': text = '' } = headers
  const document = text === '' ? null : decodePaymentResponse(text)
  const payload = document?.['payload'] as unknown as { signature?: string; transaction?: string }
  if (typeof payload?.signature !== 'string') return null
  const signature = payload.signature.replace(/^0x../, (two) => (two === '0x11' ? '0x22' : '0x11'))
  return {
    'payment-signature': encodeBase64Json({ ...document, payload: { ...payload, signature } }),
  }
}

const answers: { name: string; headers: Headers; text: string }[] = []

t.test('each rail and each dialect pays once', async (t) => {
  const short = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  const paid: [string, Headers][] = [
    ['v2', await authorized('v2')],
    ['v1', await authorized('v1')],
    ['short', short],
    ['Permit2', await permitted()],
    ['Solana', await onSolana()],
  ]
  for (const [name, headers] of paid) {
    const answer = await postPaidCall(main, headers)
    t.equal(answer.status, 200, `${name}: ${answer.text}`)
    answers.push({ name, headers, text: answer.text })
  }
  const unapproved = await postPaidCall(main, await permitted(1n))
  t.match(unapproved, { status: 412, body: { code: 'permit2_allowance_required' } })
  answers.push({ name: 'MPP', ...(await charged()) })
  for (const { id } of await main.sql<{ id: string }[]>`select distinct id from settlements`)
    t.match(await waitForFinalSettlement(main, id), { state: 'settled' })
})

/** Every payment above gets its stored answer, with any offer of this station. */
async function answersAll(t: Test, at: InProcessStation) {
  for (const { name, headers, text } of answers) {
    const again = await postPaidCall(at, headers)
    t.match(again, { status: 200, headers: { 'idempotency-replayed': 'true' } }, name)
    t.equal(again.text, text, `${name}: the stored answer`)
    const other = await postPaidCall(at, headers, { limit: 3 })
    t.match(
      other,
      { status: 409, body: { code: 'payment_already_used' } },
      `${name}: other request`,
    )
    const stolen = forged(headers)
    if (stolen === null) continue
    const refused = await postPaidCall(at, stolen)
    t.match(refused, { status: 409, body: { code: 'payment_already_used' } }, `${name}: forged`)
  }
}

t.test('a station without any rail recognises them', async (t) => {
  const bare = await startInProcessTestStation(t, { FREE_TIER_PER_DAY: '0' }, { database })
  await answersAll(t, bare)
  const unknown = await postPaidCall(
    bare,
    await paymentSignatureHeader(
      await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
      till,
      HIVE_TRENDING_PRICE_ATOMIC,
    ),
  )
  t.match(unknown, { status: 503, body: { code: 'rail_disabled' } })
})

t.test(
  'a station with another treasury, secret and unreachable nodes recognises them',
  async (t) => {
    const settings = {
      ...all,
      TREASURY_ADDRESS: `0x${'7'.repeat(40)}`,
      RPC_URL_BSC: 'http://127.0.0.1:1',
      RPC_URL_TEMPO: 'http://127.0.0.1:1',
      MPP_SECRET: 'n'.repeat(32),
      X402_FACILITATOR_URL: 'http://127.0.0.1:1',
    }
    const moved = await startInProcessTestStation(t, settings, { database })
    await answersAll(t, moved)
    const old = await paymentSignatureHeader(
      await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
      till,
      HIVE_TRENDING_PRICE_ATOMIC,
    )
    t.match(await postPaidCall(moved, old), { status: 402, body: { reason: /recipient_mismatch/ } })
  },
)

const at = (price: Micros) => Object.assign(hiveTrending, { price })

t.test('a station with another price recognises them', async (t) => {
  const { price } = hiveTrending as { price: Micros }
  t.teardown(() => at(price))
  await main.sql`alter table hive_entries rename to elsewhere`
  const first = await startInProcessTestStation(
    t,
    { ...all, X402_EXPOSURE_USDC: '0' },
    { database },
  )
  const kept = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  t.match(await postPaidCall(first, kept), { status: 500, body: { refunded: false } })
  await main.sql`alter table elsewhere rename to hive_entries`
  at(fromUsdc(0.02))
  await answersAll(t, main)
  const run = await postPaidCall(main, kept)
  t.match(
    run,
    { status: 200, body: { _meta: { cost_usdc: 0.005 } } },
    'at the price it was paid at',
  )
  const old = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  t.match(await postPaidCall(main, old), { status: 402, body: { reason: /value_mismatch/ } })
  await main.verify()
})

t.test('a batch whose plan has changed gets its stored answer', async (t) => {
  const calls = [{ tool: 'hive_trending' }, { tool: 'hive_trending', limit: 2 }]
  const batch = (headers: Headers) =>
    main.ask('POST', '/api/pipeline', { json: { calls }, headers })
  const header = await paymentSignatureHeader(
    await till.createPayer(2n * HIVE_TRENDING_PRICE_ATOMIC),
    till,
    2n * HIVE_TRENDING_PRICE_ATOMIC,
  )
  const answer = await batch(header)
  t.match(answer.body, { ok: true, succeeded: 2 })
  const { price } = hiveTrending as { price: Micros }
  t.teardown(() => at(price))
  at(fromUsdc(0.001))
  t.equal((await batch(header)).text, answer.text)
  at(fromUsdc(0))
  t.equal((await batch(header)).text, answer.text, 'free by now')
  await main.verify()
})

t.test('an unknown outcome is reported as such, and credits are not bought twice', async (t) => {
  const guest = await main.onboard(0)
  const header = await paymentSignatureHeader(await till.createPayer(2_000_000n), till, 2_000_000n)
  const topUp = (station: InProcessStation) =>
    station.ask('POST', '/api/credits/topup', {
      key: guest.key,
      json: { amount_usdc: 2 },
      headers: header,
    })
  const bare = await startInProcessTestStation(t, { FREE_TIER_PER_DAY: '0' }, { database })
  gate.decide((method) => (method === 'eth_sendRawTransaction' ? 'lost' : 'pass'))
  const first = topUp(main)
  await requestUntilReplyMatches(
    async () => {
      const [row] = await main.sql<{ money: string }[]>`
        select state->'value'->>'money' as money from actors where kind = 'settlement'
         and state->'context'->'purpose'->>'kind' = 'topup'`
      return row?.money
    },
    (money) => money === 'unknown',
  )
  t.match(await topUp(bare), { status: 503, body: { code: 'settlement_unknown' } })
  gate.decide(() => 'pass')
  t.match(await first, { status: 200, body: { credited_usdc: 2 } })
  const again = await topUp(bare)
  t.match(again, { status: 200, body: { balance_usdc: 2.5 } })
  t.equal(again.headers['idempotency-replayed'], 'true')
  t.match(decodePaymentResponse(again.headers['payment-response']), {
    transaction: /^0x/,
    settlement_id: settlementIdOfReply(again),
  })
  await main.verify()
})
