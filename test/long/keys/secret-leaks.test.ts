import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { decryptWalletKey } from '../../../chain/custody/custodial-wallets.ts'
import { parseMasterKey, deriveEncryptionKey } from '../../../core/key-derivation-and-encryption.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { startLocalTempo } from '../../support/chain/local-chain.ts'
import type { TestReply, TestRequestOptions } from '../../support/http/test-http-client.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { connectInspectorTestSocket } from '../../support/inspector/inspector-test-socket.ts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'
import {
  assertLedgerSound,
  spawnTestStationProcess,
  type ChildProcessStation,
} from '../../support/station/start-test-station.ts'
import { findFreePort } from '../../../chaos/free-port.ts'
import {
  paymentSignatureHeader,
  startTestPaymentChain,
  type TestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'
import { requestUntilReplyMatches } from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

const PATH = process.env['PATH'] ?? ''
const hasRedis = PATH.split(delimiter).some((dir) => existsSync(join(dir, 'redis-server')))
const MASTER = randomBytes(32).toString('base64')
/** No secret: found everywhere, or the search is blind. */
const MARKER = `marker-${randomBytes(12).toString('hex')}`
const PRICE = 5_000n

type Secrets = Map<string, string>

/** Every spelling of some bytes that a dump, a log or a header may have. */
function spellings(bytes: Buffer): string[] {
  const hex = bytes.toString('hex')
  const found = [bytes.toString('latin1'), hex, hex.toUpperCase()]
  // Inside a longer text base64 begins at any of three places, and its ends belong to the neighbours.
  for (const before of [0, 1, 2]) {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    const sure = whole.slice(before === 0 ? 0 : before + 1).replace(/=+$/, '')
    const inner = bytes.length % 3 === (3 - before) % 3 ? sure : sure.slice(0, -1)
    found.push(inner, inner.replaceAll('+', '-').replaceAll('/', '_'))
  }
  return [...new Set(found)]
}

/** A secret as text, and its bytes if it is an encoding itself. */
function needles(secret: string): string[] {
  const bytes = [Buffer.from(secret, 'utf8')]
  if (/^0x[0-9a-f]+$/.test(secret)) bytes.push(Buffer.from(secret.slice(2), 'hex'))
  if (secret === MASTER) bytes.push(Buffer.from(secret, 'base64'))
  return bytes.flatMap(spellings)
}

const holds = (hay: string, secret: string): boolean =>
  needles(secret).some((needle) => hay.includes(needle))

/** Every column of every row of every table, bytea in hexadecimal. */
async function tables(sql: Sql): Promise<[string, string][]> {
  const names = await sql<{ name: string }[]>`
    select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')`
  return Promise.all(
    names.map(async ({ name }) => {
      const [row] = await sql.unsafe<{ all: string | null }[]>(
        `select string_agg(t::text, E'\\n') as all from only ${name} t`,
      )
      return [`table ${name}`, row?.all ?? ''] as [string, string]
    }),
  )
}

/** Every key of a Redis with its value. */
async function keysOf(redis: Redis): Promise<[string, string][]> {
  const read: Record<string, (key: string) => Promise<unknown>> = {
    string: async (key) => (await redis.getBuffer(key))?.toString('latin1'),
    hash: (key) => redis.hgetall(key),
    list: (key) => redis.lrange(key, 0, -1),
    set: (key) => redis.smembers(key),
    zset: (key) => redis.zrange(key, '0', '-1'),
    stream: (key) => redis.xrange(key, '-', '+'),
  }
  const keys = await redis.keys('*')
  return Promise.all(
    keys.map(async (key) => {
      const value = await read[await redis.type(key)]?.(key)
      const text = typeof value === 'string' ? value : JSON.stringify(value ?? '')
      return [`redis ${key.slice(0, 40)}`, `${key} ${text}`] as [string, string]
    }),
  )
}

/** A Redis of this test, with a password. */
async function ownRedis(t: Test, password: string): Promise<{ url: string; client: Redis }> {
  const port = await findFreePort()
  const options = ['--port', String(port), '--save', '', '--requirepass', password]
  const child = spawn('redis-server', [...options, '--bind', '127.0.0.1'], { stdio: 'ignore' })
  const url = `redis://:${password}@127.0.0.1:${port}`
  const client = new Redis(url, { retryStrategy: () => 20 })
  client.on('error', () => {})
  t.teardown(() => {
    client.disconnect()
    child.kill('SIGKILL')
  })
  await client.ping()
  return { url, client }
}

/** A station whose answers are recorded, with the secrets that each answer may show. */
function recorder(main: ChildProcessStation) {
  const answers: { text: string; shows: readonly string[] }[] = []
  const ask = async (
    method: string,
    path: string,
    asked: TestRequestOptions = {},
    shows: string[] = [],
  ) => {
    const answer = await main.ask(method, path, asked)
    const head = JSON.stringify(answer.headers)
    answers.push({ text: `${method} ${answer.status} ${head} ${answer.text}`, shows })
    return answer
  }
  return { answers, ask }
}
type Ask = ReturnType<typeof recorder>['ask']

interface Scene {
  readonly ask: Ask
  readonly till: TestPaymentChain
  readonly secrets: Secrets
  readonly sql: Sql
  /** The log so far. */
  readonly said: readonly string[]
  /** Loses every request to the chain from now on, or none. */
  readonly chainLost: (lost: boolean) => void
}

const secretOf = (secrets: Secrets, name: string): string => secrets.get(name) ?? ''
const good = (t: Test, { status, body }: TestReply) => t.ok(status < 300, `${status} ${body.code}`)

/** A new agent, further keys, a rotation: each shown once, and again under its Idempotency-Key. */
async function keys(t: Test, { ask, secrets, sql }: Scene): Promise<string> {
  const born = { json: { name: MARKER }, headers: { 'idempotency-key': 'born-0123456789abcdefgh' } }
  const first = await ask('POST', '/api/onboard', born, ['first key'])
  good(t, first)
  secrets.set('first key', first.body.api_key)
  t.equal(
    (await ask('POST', '/api/onboard', born, ['first key'])).body.api_key,
    first.body.api_key,
    'the same answer again',
  )
  const made = { key: first.body.api_key, json: { name: 'second' } }
  const second = await ask('POST', '/api/keys', made, ['second key'])
  good(t, second)
  secrets.set('second key', second.body.api_key)
  const turn = {
    key: first.body.api_key,
    json: {},
    headers: { 'idempotency-key': 'turn' },
  }
  const rotated = await ask('POST', '/api/keys/rotate', turn, ['rotated key'])
  good(t, rotated)
  secrets.set('rotated key', rotated.body.api_key)
  await ask('GET', '/api/keys', { key: rotated.body.api_key })
  await ask('GET', '/api/agent/me', { key: rotated.body.api_key })
  const [row] = await sql<{ address: string; sealed: Buffer }[]>`
    select address, sealed from wallets where agent_id = ${first.body.agent_id}`
  const sealing = deriveEncryptionKey(parseMasterKey(MASTER), 'wallet')
  if (row === undefined) throw new Error('the agent has no wallet')
  secrets.set('wallet key', decryptWalletKey(sealing, first.body.agent_id, row))
  return rotated.body.api_key
}

/** A secret of a third party, kept and sent to the one host it is for. */
async function keyring(t: Test, { ask, secrets }: Scene, key: string): Promise<void> {
  const seen: string[] = []
  const upstream = await startFixtureServer(t, (request, response) => {
    seen.push(String(request.headers['x-token']))
    sendJsonFixture(response, { answer: MARKER })
  })
  const secret = secretOf(secrets, 'keyring secret')
  const made = await ask('POST', '/api/backpack/create', {
    key,
    json: { agent_name: 'scout', fuse: {} },
  })
  const path = `/api/backpack/${made.body.backpack_id}/keyring`
  const entry = { name: 'TOKEN', secret, hosts: ['127.0.0.1'] }
  good(t, await ask('POST', path, { key, json: entry, headers: { 'idempotency-key': 'ring' } }))
  await ask('POST', path, { key, json: entry, headers: { 'idempotency-key': 'ring' } })
  await ask('GET', path, { key })
  for (const odd of [
    { ...entry, name: 'not a name' },
    { ...entry, secret: { value: secret } },
    { ...entry, hosts: secret },
  ]) {
    t.match(await ask('POST', path, { key, json: odd }), { status: 400 })
  }
  const headers = { 'x-backpack-id': made.body.backpack_id }
  for (const port of [new URL(upstream.base).port, '1']) {
    const fetched = {
      url: `http://127.0.0.1:${port}/`,
      headers: { 'x-token': '{{keyring.TOKEN}}' },
    }
    await ask('POST', '/api/t/data-retrieval', { key, json: fetched, headers })
  }
  t.strictSame(seen, [secret], 'it did arrive where it belongs')
}

/** Paid calls, credits, and the export of a wallet. */
async function money(t: Test, { ask, till, secrets, said, chainLost }: Scene, key: string) {
  const payer = await till.createPayer(10_000_000n)
  const call = async (headers: Record<string, string>, asked: TestRequestOptions = {}) =>
    ask('POST', '/api/t/hive-trending', { json: {}, ...asked, headers })
  const challenged = await call({})
  t.match(challenged.headers, { 'www-authenticate': /^Payment / }, 'MPP_SECRET is in use')
  good(t, await call(await paymentSignatureHeader(payer, till, PRICE)))
  good(t, await call(await paymentSignatureHeader(payer, till, PRICE), { key }))
  const topUp = {
    key,
    json: { amount_usdc: 1 },
    headers: await paymentSignatureHeader(payer, till, 1_000_000n),
  }
  good(t, await ask('POST', '/api/credits/topup', topUp))
  chainLost(true)
  t.match(await call(await paymentSignatureHeader(payer, till, PRICE)), { status: 503 })
  // The deposit scanner has logged that its chain is unreachable.
  await requestUntilReplyMatches(
    async () => said.some((line) => line.includes('cannot be read for deposits')),
    (told) => told,
  )
  chainLost(false)
  const confirm = { key, json: { confirm: true }, headers: { 'idempotency-key': 'export' } }
  for (const _ of ['once', 'again']) {
    const handed = await ask('POST', '/api/wallet/export', confirm, ['wallet key'])
    t.equal(handed.body['private_key'], secretOf(secrets, 'wallet key'), handed.text.slice(0, 80))
  }
}

/**
 * Sends every kind of invalid request with a secret in it. An error may name an unknown path, tool or
 * field to its caller; it repeats no value and no header.
 */
async function blunders({ ask, secrets }: Scene, key: string): Promise<void> {
  for (const [name, secret] of secrets) {
    const odd = encodeURIComponent(secret)
    await ask('GET', '/api/agent/me', { key: secret })
    await ask('GET', '/api/agent/me', { key: `${secret}x` })
    await ask('GET', '/api/agent/me', { headers: { authorization: `Bearer ${secret}` } })
    await ask('GET', `/api/agent/me?api_key=${odd}`)
    await ask('GET', `/api/credits/balance?limit=${odd}`, { key })
    await ask('GET', `/api/task/${odd}`, { key }, [name])
    await ask('GET', `/${odd}`, {}, [name])
    await ask('GET', '/metrics', { headers: { authorization: `Bearer ${secret}x` } })
    await ask('POST', '/api/onboard', { json: { name: { [secret]: secret } } })
    await ask('POST', '/api/onboard', { raw: `{"name": "${secret}` })
    await ask('POST', '/api/keys', { key, json: { scopes: [secret] } })
    await ask('POST', '/api/keys', { key, json: { [secret]: 1 } }, [name])
    await ask('POST', '/api/refuel', { key, json: { tool: secret } }, [name])
    await ask('POST', '/api/wallet/export', { key, json: { confirm: secret } })
    for (const header of ['payment-signature', 'x-payment', 'idempotency-key', 'x-task-id'])
      await ask('POST', '/api/t/hive-trending', { json: {}, headers: { [header]: secret } })
    const auth = `Payment ${Buffer.from(secret).toString('base64url')}`
    await ask('POST', '/api/t/hive-trending', { json: {}, headers: { authorization: auth } })
  }
}

/** Fills the memory of the station, so that it keeps snapshots in Redis. */
async function crowd({ ask }: Scene): Promise<void> {
  const agents = Array.from({ length: 30 }, () => ({ name: MARKER }))
  for (let at = 0; at < 5; at++) {
    // Its answers show keys that are not searched for.
    await ask('POST', '/api/onboard/bulk', { json: { agents } })
  }
}

/** What the inspector tells of all that: its feed so far, and what is read of the past. */
async function inspect(t: Test, { ask, secrets }: Scene, key: string): Promise<void> {
  const headers = { authorization: `Bearer ${secretOf(secrets, 'operator token')}` }
  const { body: me } = await ask('GET', '/api/agent/me', { key })
  const lists = ['kind=settlement', 'kind=payer', `agent=${me.agent_id}`]
  for (const query of lists) {
    const list = await ask('GET', `/api/actors?limit=20&${query}`, { headers })
    const actors = list.body['actors'] as { kind: string; id: string }[]
    t.ok(actors.length > 0, query)
    for (const { kind, id } of actors)
      good(
        t,
        await ask('GET', `/api/actors/${kind}/${encodeURIComponent(id)}/history`, { headers }),
      )
  }
  good(t, await ask('GET', `/api/why?agent=${me.agent_id}`, { headers }))
}

t.test('known secrets are only in the one answer that shows them', async (t) => {
  const { settings, sql } = await createTestDatabase(t)
  const till = await startTestPaymentChain(t)
  const tempo = await startLocalTempo()
  t.teardown(tempo.stop)
  const gate = await startRpcFaultProxy(t, till.base.rpcUrl)
  const random = () => randomBytes(24).toString('base64url')
  const secrets: Secrets = new Map([
    ['master key', MASTER],
    ['settler key', till.settings['SETTLER_PRIVATE_KEY'] ?? ''],
    ['MPP secret', random()],
    ['operator token', random()],
    ['key of the RPC', random()],
    ['key of CoinGecko', random()],
    ['keyring secret', random()],
    ['password of Redis', random()],
  ])
  const redis = hasRedis ? await ownRedis(t, secretOf(secrets, 'password of Redis')) : null
  const main = await spawnTestStationProcess(t, {
    ...till.settings,
    LOG_LEVEL: 'trace',
    DATABASE_URL: settings.databaseUrl,
    DATA_DIR: createStationDataDir(t),
    PUBLIC_URL: 'http://gas.test',
    MASTER_KEY: MASTER,
    RPC_URL_BASE: `${gate.url}/v2/${secretOf(secrets, 'key of the RPC')}`,
    RPC_URL_TEMPO: tempo.rpcUrl,
    MPP_CURRENCY: tempo.usdc,
    MPP_SECRET: secretOf(secrets, 'MPP secret'),
    OPERATOR_TOKEN: secretOf(secrets, 'operator token'),
    COINGECKO_API_KEY: secretOf(secrets, 'key of CoinGecko'),
    SSRF_ALLOW: '127.0.0.1:1-65535',
    RESIDENT_AGENTS: '100',
    BULK_ONBOARD_MAX: '30',
    ...(redis === null ? {} : { REDIS_URL: redis.url, REDIS: 'auto' }),
  })
  const { ask, answers } = recorder(main)
  const chainLost = (lost: boolean) => gate.decide(() => (lost ? 'lost' : 'pass'))
  const scene: Scene = { ask, till, secrets, sql, said: main.outputLines, chainLost }

  const headers = { authorization: `Bearer ${secretOf(secrets, 'operator token')}` }
  const watch = await connectInspectorTestSocket(t, main.url, { headers })
  const key = await keys(t, scene)
  await keyring(t, scene, key)
  await crowd(scene)
  await money(t, scene, key)
  await blunders(scene, key)
  await inspect(t, scene, key)
  good(t, await ask('GET', '/metrics', { headers }))
  good(t, await ask('GET', '/api/network/health'))
  await assertLedgerSound(t, sql)

  const places: [string, string][] = [
    ...(await tables(sql)),
    ...(redis === null ? [] : await keysOf(redis.client)),
    ...main.outputLines.map((line) => [`log ${line.slice(0, 300)}`, line] as [string, string]),
  ]
  answers.push({ text: watch.text(), shows: [] })
  t.test('the search finds a planted secret', async (t) => {
    for (const kind of ['agent', 'backpack', 'settlement', 'payer'])
      t.ok(
        watch.frames.some(({ sessionId }) => sessionId?.startsWith(`${kind}:`)),
        `the inspector has told of a ${kind}`,
      )
    for (const kind of ['table', 'log', ...(redis === null ? [] : ['redis'])]) {
      const there = places.filter(([place]) => place.startsWith(kind))
      t.ok(there.length > 0, `${kind}: ${there.length} places`)
    }
    t.ok(places.some(([place, text]) => place === 'table public.agents' && holds(text, MARKER)))
    t.ok(answers.some(({ text }) => holds(text, MARKER)))
    for (const before of ['', 'a', 'ab'])
      for (const spelling of ['hex', 'base64', 'base64url'] as const)
        t.ok(holds(Buffer.from(`${before}${MARKER}zz`).toString(spelling), MARKER), spelling)
    for (const [name, secret] of secrets) t.ok(secret.length >= 20, `${name} is known`)
    t.ok(
      main.outputLines.some((line) => line.includes('"level":50')),
      'failures were logged',
    )
  })
  for (const [name, secret] of secrets) {
    t.test(`${name} is found nowhere else`, async (t) => {
      const kept = places.filter(([, text]) => holds(text, secret)).map(([place]) => place)
      t.strictSame(kept.slice(0, 5), [], 'kept')
      const told = answers.filter(({ text, shows }) => !shows.includes(name) && holds(text, secret))
      t.strictSame(
        told.slice(0, 5).map(({ text }) => text.slice(0, 700)),
        [],
        'told',
      )
    })
  }
})
