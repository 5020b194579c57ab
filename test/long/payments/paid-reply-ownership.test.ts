import { Mppx, tempo } from 'mppx/client'
import t from 'tap'
import { createClient, http } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { tempo as tempoChain } from 'viem/tempo/chains'
import { fromUsdc, type Micros } from '../../../core/money.ts'
import { startLocalTempo } from '../../support/chain/local-chain.ts'
import hiveTrending from '../../../tools/intelligence/hive-trending.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  startInProcessTestStation,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import {
  waitForFinalSettlement,
  assertPaymentsBalance,
  signAuthorizationPayingTreasury,
  encodeBase64Json,
  HIVE_TRENDING_PATH,
  HIVE_TRENDING_PRICE_ATOMIC,
  decodePaymentResponse,
  settlementIdOfReply,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'

type Headers = Record<string, string>

const till = await startTestPaymentChain(t)
const node = await startLocalTempo()
t.teardown(node.stop)
const settings = {
  ...till.settings,
  RPC_URL_TEMPO: node.rpcUrl,
  MPP_CURRENCY: '0x20c0000000000000000000000000000000000000',
}
const main = await startInProcessTestStation(t, settings)

const home = { 'x-forwarded-for': '203.0.113.7' }
const away = { 'x-forwarded-for': '198.51.100.9' }
const ask = (headers: Headers, at: TestStation = main, json: object = {}) =>
  at.ask('POST', HIVE_TRENDING_PATH, { json, headers })
const signed = async () => {
  return signAuthorizationPayingTreasury(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
}
const short = (payload: unknown): Headers => ({
  'payment-signature': encodeBase64Json({ x402Version: 2, payload }),
})
const v1 = (payload: unknown): Headers => ({
  'x-payment': encodeBase64Json({ x402Version: 1, scheme: 'exact', network: 'base', payload }),
})

/** An entry of a new 402, as its asker got it. */
async function entry(headers: Headers): Promise<Record<string, unknown>> {
  const required = decodePaymentResponse(
    (await ask(headers)).headers['payment-required'],
  ) as unknown as {
    accepts: Record<string, unknown>[]
  }
  return required.accepts[0] ?? {}
}

/** Paid, settled, and so known to everybody. */
async function published(headers: Headers): Promise<TestReply> {
  const answer = await ask(headers)
  t.equal(answer.status, 200, answer.text)
  t.match(await waitForFinalSettlement(main, settlementIdOfReply(answer)), { state: 'settled' })
  return answer
}

const isRefused = { status: 409, body: { code: 'payment_already_used', settlement_id: /^stl_/ } }
const isAnswered = ({ text }: TestReply) => ({
  status: 200,
  text,
  headers: { 'idempotency-replayed': 'true' },
})

t.test('a payment found on a chain does not return another caller’s reply', async (t) => {
  const payload = await signed()
  const first = await published({ ...short(payload), ...home })
  const shout = (hex: string) => `0x${hex.slice(2).toUpperCase()}`
  const { authorization, signature } = payload
  const from = shout(authorization.from)
  const upper = { authorization: { ...authorization, from }, signature: shout(signature) }
  const v2 = {
    'payment-signature': encodeBase64Json({ x402Version: 2, accepted: await entry(away), payload }),
  }
  const copies = [short(payload), v1(payload), v2, short(upper)]
  const told = new Set<string>()
  for (const copy of copies) {
    const stolen = await ask({ ...copy, ...away })
    t.match(stolen, isRefused)
    const other = await ask({ ...copy, ...away }, main, { limit: 3 })
    for (const { detail } of [stolen.body, other.body]) told.add(String(detail))
    t.match(await ask({ ...copy, ...home }), isAnswered(first), 'its own caller has it')
  }
  t.equal(told.size, 1, 'nor does it tell what was asked')
  t.match(await ask({ ...short(payload), ...away, 'idempotency-key': 'k'.repeat(32) }), isRefused)
  const guest = await main.onboard(0)
  t.match(await ask({ ...short(payload), ...home, 'x-api-key': guest.key }), isRefused)
})

t.test(
  'a caller with a new address is identified by the ticket of its 402, its Idempotency-Key or its own id',
  async (t) => {
    const ticketed = await signed()
    const accepted = await entry(home)
    const v2 = (entry: unknown, payload: unknown, more: object = {}): Headers => ({
      'payment-signature': encodeBase64Json({ x402Version: 2, accepted: entry, payload, ...more }),
    })
    const first = await published({ ...v2(accepted, ticketed), ...home })
    t.match(await ask({ ...v2(accepted, ticketed), ...away }), isAnswered(first))
    t.match(await ask({ ...v2(await entry(away), ticketed), ...away }), isRefused, 'another 402')

    const keyed = await signed()
    const key = { 'idempotency-key': 'a-key-that-nobody-guesses' }
    const second = await published({ ...short(keyed), ...key, ...home })
    t.match(await ask({ ...short(keyed), ...key, ...away }), isAnswered(second))
    t.match(await ask({ ...short(keyed), ...home }), isRefused, 'decision 51: the same key')

    const brief = await signed()
    const guessed = { 'idempotency-key': 'fifteen-letters' }
    await published({ ...short(brief), ...guessed, ...home })
    t.match(
      await ask({ ...short(brief), ...guessed, ...away }),
      isRefused,
      'too short to be secret',
    )

    const named = await signed()
    const id = (text: string) => ({ extensions: { 'payment-identifier': { info: { id: text } } } })
    const third = await published({ ...v2(accepted, named, id('i'.repeat(16))), ...home })
    const elsewhere = { ...accepted, extra: { name: 'USD Coin', version: '2' } }
    const own = v2(elsewhere, named, id('i'.repeat(16)))
    t.match(await ask({ ...own, ...away }), isAnswered(third))
    t.match(await ask({ ...v2(elsewhere, named, id('j'.repeat(16))), ...away }), isRefused)
  },
)

t.test('a ticket older than its lifetime identifies no caller', async (t) => {
  const fresh = await entry(home)
  const { extra } = fresh as { extra: { ticket: string } }
  const old = `${(Math.floor(Date.now() / 1000) - 4_000).toString(36)}.${extra.ticket.split('.')[1]}`
  const accepted = { ...fresh, extra: { ...extra, ticket: old } }
  const payload = await signed()
  const header = { 'payment-signature': encodeBase64Json({ x402Version: 2, accepted, payload }) }
  const first = await published({ ...header, ...home })
  t.match(await ask({ ...header, ...away }), isRefused)
  t.match(await ask({ ...header, ...home }), isAnswered(first))
})

t.test(
  'of 64 concurrent copies from two addresses on two nodes at most one address gets the reply',
  async (t) => {
    const two = await startInProcessTestStation(t, settings, main)
    const payload = await signed()
    const header = short(payload)
    const all = await Promise.all(
      Array.from({ length: 64 }, (_, at) => {
        const own = at % 4 === 0
        return ask({ ...header, ...(own ? home : away) }, at % 2 === 0 ? main : two)
      }),
    )
    const bought = (side: number) =>
      all.filter(({ status }, at) => status === 200 && (at % 4 === 0 ? 0 : 1) === side)
    const [hers, theirs] = [bought(0), bought(1)]
    t.ok(
      new Set([...hers, ...theirs].map(({ text }) => text)).size <= 1,
      JSON.stringify(countReplies(all)),
    )
    t.ok(hers.length === 0 || theirs.length === 0, 'only one address gets the reply')
    const late = await Promise.all([ask({ ...header, ...home }), ask({ ...header, ...away }, two)])
    t.ok(late.filter(({ status }) => status === 200).length <= 1)
  },
)

t.test('a payment settled for a failed call can be reused by its own caller only', async (t) => {
  const header = short(await signed())
  // Trends are computed at start, so the table is missing before.
  await main.sql`alter table hive_entries rename to elsewhere`
  const first = await startInProcessTestStation(t, { ...settings, X402_EXPOSURE_USDC: '0' }, main)
  t.match(await ask({ ...header, ...home }, first), { status: 500, body: { refunded: false } })
  await main.sql`alter table elsewhere rename to hive_entries`
  t.match(await ask({ ...header, ...away }, first), isRefused)
  t.match(await ask({ ...header, ...home }, first), { status: 200 })
})

t.test('batches and streams are stored for their caller too', async (t) => {
  const batch = (headers: Headers) =>
    main.ask('POST', '/api/pipeline', { json: { calls: [{ tool: 'hive_trending' }] }, headers })
  const stream = (headers: Headers) =>
    main.ask('POST', '/api/refuel/stream', { json: { tool: 'hive_trending' }, headers })
  for (const way of [batch, stream]) {
    const header = short(await signed())
    const first = await way({ ...header, ...home })
    t.equal(first.status, 200, first.text)
    t.match(await way({ ...header, ...away }), isRefused)
    t.match(await way({ ...header, ...home }), { status: 200 })
    t.match(await ask({ ...header, ...home }), isRefused, 'on another route')
  }
})

t.test('MPP: a challenge is valid for one caller only', async (t) => {
  let sent = ''
  const account = privateKeyToAccount(generatePrivateKey())
  await node.mint(account.address, 1_000_000n)
  const getClient = () =>
    createClient({ chain: tempoChain, transport: http(node.rpcUrl), pollingInterval: 50 })
  const client = Mppx.create({
    polyfill: false,
    fetch: (input, init) => {
      sent = new Headers(init?.headers).get('authorization') ?? sent
      return fetch(input, init)
    },
    methods: [tempo.charge({ account, getClient })],
  })
  const headers = { 'content-type': 'application/json', ...home }
  const init = { method: 'POST', headers, body: '{}' }
  const answer = await client.fetch(`${main.url}${HIVE_TRENDING_PATH}`, init)
  t.equal(answer.status, 200)
  const text = await answer.text()
  t.match(await ask({ authorization: sent, ...away }), { status: 200, text }, 'it has moved')
  const ids = new Set<string>()
  for (let time = 0; time < 8; time += 1) {
    const challenge = (await ask(away)).headers['www-authenticate'] ?? ''
    ids.add(/id="([^"]+)"/.exec(challenge)?.[1] ?? '')
  }
  t.equal(ids.size, 8, 'asked at the same second, too')
  const [, credential = ''] = sent.split(' ')
  const document = JSON.parse(Buffer.from(credential, 'base64url').toString()) as {
    challenge: { opaque?: string }
  }
  t.type(document.challenge.opaque, 'string')
  const opaque = JSON.parse(Buffer.from(document.challenge.opaque ?? '', 'base64url').toString())
  const spelled = { ...document, challenge: { ...document.challenge, opaque } }
  const older = `Payment ${Buffer.from(JSON.stringify(spelled)).toString('base64url')}`
  t.match(await ask({ authorization: older, ...away }), { status: 200, text }, 'an older client')
})

t.test('a payment is the same in every spelling', async (t) => {
  const payload = await signed()
  const first = await published({ ...short(payload), ...home })
  const { authorization, signature } = payload
  const wide = (value: unknown) => Buffer.from(JSON.stringify(value, texts, 1)).toString('base64')
  const texts = (_: string, one: unknown) => (typeof one === 'bigint' ? String(one) : one)
  const document = { x402Version: 2, payload }
  const turned = { payload: { signature, authorization }, x402Version: 2 }
  const plain = encodeBase64Json(document).replace(/=+$/, '')
  const accepted = await entry(home)
  const same: Headers[] = [
    { 'PAYMENT-SIGNATURE': ` ${encodeBase64Json(document)} ` },
    { 'payment-signature': wide(turned) },
    { 'payment-signature': plain.replaceAll('+', '-').replaceAll('/', '_') },
    { 'payment-signature': encodeBase64Json({ ...document, extensions: { mine: 1 } }) },
    { ...short(payload), 'x-payment': 'e30=' },
    // It is identified by its nonce and signature, which were verified with the signed data.
    v1({ authorization: { ...authorization, to: `0x${'6'.repeat(40)}` }, signature }),
  ]
  for (const headers of same) {
    t.match(await ask({ ...headers, ...home }), isAnswered(first), JSON.stringify(headers))
    t.match(await ask({ ...headers, ...away }), isRefused)
  }
  const high = `0x${signature.slice(2, 130)}${signature.endsWith('1b') ? '00' : '01'}`
  const others: Headers[] = [
    short({ authorization, signature: high }),
    short({ authorization: { ...authorization, nonce: `0x${'7'.repeat(64)}` }, signature }),
    { 'x-payment': encodeBase64Json({ x402Version: 1, scheme: 'exact', network: 'bsc', payload }) },
    ...['eip155:56', 'EIP155:8453', 'eip155:4217'].map((network) => ({
      'payment-signature': encodeBase64Json({ ...document, accepted: { ...accepted, network } }),
    })),
    {
      'payment-signature': encodeBase64Json({
        ...document,
        accepted: { ...accepted, asset: `0x${'8'.repeat(40)}` },
      }),
    },
    { 'payment-signature': `${encodeBase64Json(document)},${encodeBase64Json(document)}` },
  ]
  const open = await main.sql`select from settlements`
  for (const headers of others) {
    const { status } = await ask({ ...headers, ...home })
    t.ok([400, 402, 409].includes(status), `${status} ${JSON.stringify(headers)}`)
  }
  t.equal((await main.sql`select from settlements`).length, open.length, 'nothing was claimed')
})

t.test('one payment sent to all routes concurrently on two nodes buys one call', async (t) => {
  const { price } = hiveTrending as { price: Micros }
  t.teardown(() => Object.assign(hiveTrending, { price }))
  Object.assign(hiveTrending, { price: fromUsdc(1) })
  const other = await startInProcessTestStation(t, settings, main)
  const [her, eve] = [await main.onboard(0), await main.onboard(0)]
  const payload = await signAuthorizationPayingTreasury(
    await till.createPayer(3_000_000n),
    till,
    1_000_000n,
  )
  const way = (path: string, json: object, key?: string) => (at: TestStation) =>
    at.ask('POST', path, { key, json, headers: { ...short(payload), ...home } })
  const tool = 'hive_trending'
  const ways = [her.key, eve.key, undefined].flatMap((key) => [
    way(HIVE_TRENDING_PATH, {}, key),
    way('/api/refuel', { tool }, key),
    way('/api/refuel/stream', { tool }, key),
    ...(key === undefined
      ? [way('/api/pipeline', { calls: [{ tool }] })]
      : [way('/api/credits/topup', { amount_usdc: 1 }, key)]),
  ])
  const all = await Promise.all(
    [...ways, ...ways, ...ways, ...ways, ...ways].map((go, at) => go(at % 2 === 0 ? main : other)),
  )
  t.equal(all.length, 60)
  const told = countReplies(all)
  t.ok(
    all.every(({ status }) => [200, 409, 503].includes(status)),
    JSON.stringify(told),
  )
  const answers = await Promise.all(ways.map((go) => go(other)))
  t.equal(
    answers.filter(({ status }) => status === 200).length,
    1,
    JSON.stringify(countReplies(answers)),
  )
  const [row] = await main.sql<{ n: number }[]>`
    select (select count(*) from calls where cost_micros = 1000000)::int
         + (select count(*) from transfers where kind = 'topup')::int as n`
  t.equal(row?.n, 1, 'one call, or one top-up')
})

t.test('every payment was settled once', async (t) => {
  for (const { id } of await main.sql<{ id: string }[]>`select distinct id from settlements`)
    await waitForFinalSettlement(main, id)
  const [row] = await main.sql<{ value: string }[]>`
    select coalesce(sum((state->'context'->'amount'->>'$n')::bigint), 0)::text as value from actors
     where kind = 'settlement' and state->'value'->>'money' = 'settled'
       and state->'context'->>'chain' = 'base'`
  await assertPaymentsBalance(t, main, till, BigInt(row?.value ?? 0))
})
