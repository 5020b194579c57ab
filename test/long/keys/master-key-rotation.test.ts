import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { privateKeyToAddress } from 'viem/accounts'
import { ensureMasterKey, loadMasterKeys, replaceMasterKeyFile } from '../../../app/master-key.ts'
import { rotateMasterKey } from '../../../app/cli/operator/cli-rotate-master-key.ts'
import { SecretString } from '../../../app/secret-string.ts'
import {
  hmacSha256,
  parseMasterKey,
  masterKeyId,
  deriveEncryptionKey,
  deriveSubkey,
  type MasterKey,
} from '../../../core/key-derivation-and-encryption.ts'
import { createKeyringStore } from '../../../persistence/agents/backpack-keyring-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import {
  assertLedgerSound,
  spawnTestStationProcess,
  startInProcessTestStation,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'
import { requestUntilReplyMatches } from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

const fresh = () => randomBytes(32).toString('base64')
const [OLD, NEW, STRANGE] = [fresh(), fresh(), fresh()]
const idOf = (key: string) => masterKeyId(parseMasterKey(key))
const SECRET = `sk-${randomBytes(12).toString('hex')}`

interface Ran {
  readonly code: number | string
  readonly said: string
}

/** A `gas` command as a process of its own. */
function gas(
  args: string[],
  settings: Record<string, string>,
): { child: ChildProcess; ran: Promise<Ran> } {
  const child = spawn(process.execPath, [...serviceProgramArgs('cli'), ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], NODE_ENV: 'test', ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  child.stdout.on('data', (part) => (said += String(part)))
  child.stderr.on('data', (part) => (said += String(part)))
  const ran = new Promise<Ran>((resolve) => {
    child.once('close', (code, signal) => resolve({ code: code ?? String(signal), said }))
  })
  return { child, ran }
}

/** Every envelope of the database by the key that its bytes name. */
async function keysIn(sql: Sql): Promise<Record<string, number>> {
  const rows = await sql<{ id: string; n: number }[]>`
    select encode(substring(sealed from 3 for 4), 'hex') as id, count(*)::int as n from (
      select sealed from station_keys union all select sealed from wallets
      union all select sealed from fleet_wallets union all select sealed from keyring
      union all select sealed from schedule_params where sealed is not null
      union all select sealed from webhooks union all select sealed from idempotency_drafts
      union all select decode(response::jsonb->>'sealed', 'base64') from calls
        where response like '%"sealed":%') e group by 1`
  return Object.fromEntries(rows.map(({ id, n }) => [id, n]))
}

t.test('a master key is replaced under running stations despite crashes', async (t) => {
  const database = await createTestDatabase(t)
  const { settings, sql } = database
  const dir = createStationDataDir(t)
  const seen: string[] = []
  const upstream = await startFixtureServer(t, (request, response) => {
    seen.push(String(request.headers['x-token']))
    sendJsonFixture(response, {})
  })
  const common = {
    DATABASE_URL: settings.databaseUrl,
    DATA_DIR: dir,
    PUBLIC_URL: 'http://gas.test',
    SSRF_ALLOW: '127.0.0.1:1-65535',
  }
  const station = (t: Test, keys: Record<string, string>) =>
    startInProcessTestStation(t, { ...common, ...keys }, { database })
  const rotate = (keys: Record<string, string>) =>
    gas(['rotate-master-key'], { ...common, ...keys }).ran
  const inHere = (...keys: [string, ...string[]]) => {
    const [current, ...others] = keys.map(parseMasterKey) as [MasterKey, ...MasterKey[]]
    return rotateMasterKey(sql, [current, ...others], () => {})
  }
  const both = { MASTER_KEY: NEW, MASTER_KEY_PREVIOUS: OLD }

  const first = await station(t, { MASTER_KEY: OLD })
  const born = {
    json: { name: 'scout' },
    headers: { 'idempotency-key': 'born-0123456789abcdefgh' },
  }
  const { body: agent } = await first.ask('POST', '/api/onboard', born)
  const key = agent.api_key
  const ask = (on: TestStation, path: string, fields: object = {}, headers = {}) =>
    on.ask('POST', path, { key, json: fields, headers })
  const pack = (await ask(first, '/api/backpack/create', { agent_name: 'scout', fuse: {} })).body
  const ring = { name: 'TOKEN', secret: SECRET, hosts: ['127.0.0.1'] }
  t.equal((await ask(first, `/api/backpack/${pack.backpack_id}/keyring`, ring)).status, 200)
  t.equal((await ask(first, '/api/fleet/create', { name: 'crew' })).status, 200)
  const fetched = { url: upstream.base, headers: { 'x-token': '{{keyring.TOKEN}}' } }
  const use = (on: TestStation) =>
    ask(on, '/api/t/data-retrieval', fetched, { 'x-backpack-id': pack.backpack_id })
  const bought = await ask(first, '/api/refuel', { tool: 'hive_trending' })
  const { receipt, call_id: callId } = bought.body._meta
  t.equal((await use(first)).status, 200)
  const wallet = agent['wallet_address']
  // Enough for several pages, so that an end in the middle leaves some of them.
  for (let at = 0; at < 11; at += 1)
    await first.ask('POST', '/api/onboard/bulk', {
      json: { agents: Array.from({ length: 20 }, () => ({ name: 'many' })) },
      ip: `203.0.113.${at}`,
    } as never)
  const before = await keysIn(sql)
  t.strictSame(Object.keys(before), [idOf(OLD)])
  const same = async (t: Test, why: string) => {
    t.strictSame(await keysIn(sql), before, `nothing changed: ${why}`)
    t.strictSame([...(await sql`select from master_keys where retired_at is not null`)], [])
  }

  await t.test('invalid keys change nothing and are reported', async (t) => {
    const refused: [string, Promise<void>, RegExp][] = [
      ['one key', inHere(OLD), /one master key only/],
      ['only the new one', inHere(NEW), /one master key only/],
      ['another old one', inHere(NEW, STRANGE), new RegExp(idOf(OLD))],
      ['exchanged', inHere(OLD, NEW), /exchanged/],
    ]
    for (const [why, ran, says] of refused) await t.rejects(ran, says, why)
    const [without, unreadable] = await Promise.all([
      rotate(both),
      rotate({ ...both, MASTER_KEY_PREVIOUS: 'x' }),
    ])
    t.match(
      without,
      { code: 1, said: /restart it with both keys/ },
      'a station has the old one only',
    )
    t.match(unreadable, { code: 78, said: /32 bytes/ })
    for (const secret of [OLD, NEW]) t.notOk((without.said + unreadable.said).includes(secret))
    await same(t, 'refused')
  })
  await first.station.close()

  await t.test('a station with another key does not start', async (t) => {
    await t.rejects(station(t, { MASTER_KEY: STRANGE }), new RegExp(idOf(OLD)))
    await t.rejects(station(t, { MASTER_KEY: NEW }), /MASTER_KEY_PREVIOUS to rotate it/)
    await same(t, 'a refused start')
  })

  const [one, two] = await Promise.all([
    station(t, both),
    spawnTestStationProcess(t, { ...common, ...both }),
  ])
  await t.test('after kill -9 in the middle stations read both halves', async (t) => {
    const [last] = await sql<{ agent_id: string }[]>`
      select agent_id from wallets order by agent_id desc limit 1`
    const killed = gas(['rotate-master-key'], { ...common, ...both })
    await sql.begin(async (tx) => {
      await tx`select from wallets where agent_id = ${last!.agent_id} for update`
      await requestUntilReplyMatches(
        () => sql`select from pg_stat_activity where wait_event_type = 'Lock'
          and datname = current_database() and query like '%update wallets%'`,
        (waiting) => waiting.length > 0,
      )
      killed.child.kill('SIGKILL')
      t.match(await killed.ran, { code: 'SIGKILL' })
    })
    const halves = await keysIn(sql)
    t.ok((halves[idOf(OLD)] ?? 0) > 0 && (halves[idOf(NEW)] ?? 0) > 100, JSON.stringify(halves))
    for (const on of [one, two]) {
      t.equal((await use(on)).status, 200, 'a secret')
      t.equal((await on.ask('GET', '/api/wallet', { key })).status, 200)
      t.ok((await on.onboard()).key, 'new wallets are sealed')
    }
    const again = await two.ask('POST', '/api/onboard', born)
    t.equal(again.body.api_key, key, 'an answer that was kept')
  })

  await t.test('sealing with the old key is rejected from then on', async (t) => {
    const late = createKeyringStore(sql, deriveEncryptionKey(parseMasterKey(OLD), 'keyring'))
    const place = { agentId: agent.agent_id, backpackId: pack.backpack_id, name: 'LATE' }
    const put = sql.begin((tx) => late.put(tx, place, 'x', [], new Date(), 10))
    await t.rejects(put, /retired/)
  })

  await t.test(
    'an interrupted rotation can be repeated to its end, and reports what it read',
    async (t) => {
      const ran = await rotate(both)
      t.match(ran, { code: 0, said: /each opens under/ })
      t.match(ran.said, new RegExp(`${idOf(OLD)} opens nothing any more`))
      const after = await keysIn(sql)
      t.strictSame(Object.keys(after), [idOf(NEW)])
      await inHere(NEW, OLD)
      t.strictSame(await keysIn(sql), after, 'repeating it changes nothing')
      t.strictSame(
        [...(await sql`select from wallets where key_id <> ${idOf(NEW)}`)],
        [],
        'and the rows say so',
      )
    },
  )
  for (const on of [one, two]) t.equal((await use(on)).status, 200, 'the stations go on')
  await Promise.all([one.station.close(), two.end('SIGTERM')])

  await t.test('everything is readable with the new key alone', async (t) => {
    const only = await station(t, { MASTER_KEY: NEW })
    t.equal((await only.ask('GET', '/api/agent/me', { key })).status, 200, 'an API key')
    t.equal((await use(only)).status, 200)
    t.ok(seen.length > 4 && seen.every((token) => token === SECRET))
    t.equal((await only.ask('POST', '/api/onboard', born)).body.api_key, key)
    const checked = await gas(['receipt', agent.agent_id, String(callId), String(receipt)], {
      ...common,
      MASTER_KEY: NEW,
    }).ran
    t.match(checked, { code: 0, said: /valid: hive_trending/ }, 'a receipt from before')
    const nothing = await gas(['receipt', 'x', 'y', 'z'], { ...common, MASTER_KEY: NEW }).ran
    t.match(nothing, { code: 1, said: /not a receipt of this ledger/ })
    const handed = await ask(only, '/api/wallet/export', { confirm: true })
    t.equal(handed.body['wallet_address'], wallet)
    t.equal(privateKeyToAddress(handed.body['private_key'] as `0x${string}`), wallet)
    await only.station.close()
  })

  await t.test('a station does not start with the old key', async (t) => {
    await t.rejects(station(t, { MASTER_KEY: OLD }), /rotated out of use/)
    const back = { MASTER_KEY: OLD, MASTER_KEY_PREVIOUS: NEW }
    await t.rejects(station(t, back), /rotated out of use/)
    await assertLedgerSound(t, sql)
  })
})

t.test('an envelope that no key opens is reported, and the old key is kept', async (t) => {
  const main = await startInProcessTestStation(t, { MASTER_KEY: OLD })
  const [her, thief] = [await main.onboard(), await main.onboard()]
  await main.station.close()
  await main.sql`update wallets w set sealed = o.sealed from wallets o
    where w.agent_id = ${thief.id} and o.agent_id = ${her.id}`
  const ran = rotateMasterKey(main.sql, [parseMasterKey(NEW), parseMasterKey(OLD)], () => {})
  await t.rejects(ran, new RegExp(`1 of .* do not open.*wallets ${thief.id}`))
})

t.test('an older station keeps the keys that were derived from its master key', async (t) => {
  const database = await createTestDatabase(t)
  const { sql } = database
  const before = await startInProcessTestStation(t, { MASTER_KEY: OLD }, { database })
  const her = await before.onboard()
  await before.station.close()
  const [stored] = await sql<{ hash: Buffer }[]>`select hash from api_keys`
  // As its key was stored by a version that knew no keys of the station.
  const hash = hmacSha256(deriveSubkey(parseMasterKey(OLD), 'pepper'), her.key)
  t.notOk(stored?.hash.equals(hash), 'a new station has a pepper of its own')
  await sql`update api_keys set hash = ${hash}`
  await sql`delete from station_keys`
  await sql`delete from master_keys`
  const early = startInProcessTestStation(t, { MASTER_KEY: NEW }, { database })
  await t.rejects(early, new RegExp(idOf(OLD)))
  const keys = { MASTER_KEY: NEW, MASTER_KEY_PREVIOUS: OLD }
  const after = await startInProcessTestStation(t, keys, { database })
  t.equal((await after.ask('GET', '/api/agent/me', { key: her.key })).status, 200)
})

t.test('a key file in the data directory is replaced and never lost', async (t) => {
  const dataDir = t.testdir()
  const where = { masterKey: null, masterKeyPrevious: null, dataDir }
  const first = ensureMasterKey(dataDir).reveal()
  t.strictSame(loadMasterKeys(where).map(masterKeyId), [idOf(first)])
  replaceMasterKeyFile(dataDir)
  const second = ensureMasterKey(dataDir).reveal()
  t.not(second, first)
  t.strictSame(loadMasterKeys(where).map(masterKeyId), [idOf(second), idOf(first)])
  t.throws(() => replaceMasterKeyFile(dataDir), /finish that rotation/)
  t.strictSame(loadMasterKeys(where).map(masterKeyId), [idOf(second), idOf(first)])
  const given = { ...where, masterKey: new SecretString(OLD) }
  t.strictSame(
    loadMasterKeys(given).map(masterKeyId),
    [idOf(OLD)],
    'files are for stations without settings',
  )
  const kept = readdirSync(dataDir).map((name) => readFileSync(join(dataDir, name), 'utf8').trim())
  t.strictSame(kept.toSorted(), [first, second].toSorted(), 'and no draft is left')
})
