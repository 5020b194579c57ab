import { execFile } from 'node:child_process'
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { formatTreeHead } from '../../../core/attestations/fee-attestations.ts'
import { parseVerifierKey, signNote, toPublicKey } from '../../../core/attestations/signed-note.ts'
import { verifySavedAttestations } from '../../../core/attestations/verify-saved-attestations.ts'
import { toCanonicalJson } from '../../../core/json/canonical.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { createCallLogStore } from '../../../persistence/calls/call-log-store.ts'
import { rotateAttestationKey } from '../../../persistence/attestations/attestation-key-store.ts'
import { acceptUnmatchedPublishedTreeHeads } from '../../../persistence/attestations/attestation-tree-writer.ts'
import { verifyDatabaseInvariants } from '../../../persistence/verify/verify-database-invariants.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import {
  createAgentBackpack,
  createBackpackBoundKey,
} from '../../support/agents/test-backpack-bound-keys.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  dropAppendOnlyGuards,
  insertUnqueuedFee,
  rewriteAttestationTree,
  TEST_STATION_SEALING_KEYS,
  type StoredAttestationLeaf,
} from '../../support/ledger/rewrite-attestations.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** The public ledger of fees: sums, proofs, receipts, and what a stranger finds of a rewritten ledger. */

const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '5' }, { gatherFeesMs: 20 })
const { sql } = main
const ann = await main.onboard()
const bob = await main.onboard()
const TOOL = 'hive_trending'
/** The fields of answers that the tests compute with. */
interface Answer extends Record<string, unknown> {
  readonly keys: string[]
  readonly heads: Record<string, unknown>[]
  readonly attestations: Record<string, unknown>[]
  readonly fees: Record<string, unknown>[]
  readonly note: string
  readonly request_key: string
  readonly verificationMethod: unknown[]
  readonly assertionMethod: unknown[]
}
const read = async (path: string, key?: string): Promise<Answer> => {
  const reply = await main.ask('GET', path, { key })
  if (reply.status !== 200) throw new Error(`${path} answered ${reply.status}: ${reply.text}`)
  return reply.body as unknown as Answer
}
const toKeys = (texts: readonly string[]) =>
  texts.map((text) => parseVerifierKey(text)).filter((key) => key !== null)
const feesInLedger = async () => {
  const [row] = await sql<{ n: number; held: bigint }[]>`
    select count(*) filter (where credit = 'treasury:fees')::int as n,
           sum(case 'treasury:fees' when credit then amount_micros when debit then -amount_micros else 0 end)::bigint
             as held from transfers`
  return { count: row?.n ?? 0, held: Number(row?.held ?? 0n) / 1e6 }
}
const settle = async () => {
  const { count } = await feesInLedger()
  await eventually(
    async () => Number((await read('/api/attestations/head'))['tree_size']) === count,
    `a head of ${count} fees`,
  )
}

t.test('the summary equals the ledger, and rows name neither agents nor calls', async (t) => {
  t.match(await read('/api/attestations/head'), { tree_size: 0, note: null })
  t.match(await read('/api/attestations/summary'), { tree_size: 0, treasury_usdc: 0 })
  for (let call = 0; call < 3; call += 1) await main.call(ann, TOOL)
  await main.call(bob, TOOL, {}, { 'x-ghost-mode': 'stealth' })
  const tip = { to_agent_id: bob.id, amount_usdc: 1 }
  await main.ask('POST', '/api/tip', { key: ann.key, json: tip })
  await settle()
  const { count, held } = await feesInLedger()
  const summary = await read('/api/attestations/summary')
  t.match(summary, { tree_size: count, treasury_usdc: held, fees_usdc: held, rewinds: [] })
  t.match(summary['kinds'], [
    { kind: 'fee', leaves: 4 },
    { kind: 'tip_fee', leaves: 1, amount_usdc: 0.05 },
  ])
  const first = await read('/api/attestations?limit=2')
  const rest = await read(`/api/attestations?cursor=${String(first['next_cursor'])}`)
  const rows = [...first.attestations, ...rest.attestations]
  t.strictSame(
    rows.map(({ index }) => index),
    [4, 3, 2, 1, 0],
  )
  const text = JSON.stringify(rows)
  const ids = await sql<{ id: string }[]>`
    select call_id::text as id from calls union all select owner from calls union all select id::text from ledger`
  for (const { id } of ids) t.notOk(text.includes(id), 'no id is in a row')
  t.match(rows[0]?.['at'], /:00\.000Z$/, 'the minute only')
  t.equal(new Set(rows.map(({ leaf }) => String(leaf).slice(-64))).size, 5, 'salted')
  const [salts] = await sql<{ n: number }[]>`
    select count(distinct salt)::int as n from attestation_leaves`
  t.equal(salts?.n, 5, 'each with a salt of its own')
})

t.test('a station without fees signs nothing', async (t) => {
  const before = await read('/api/attestations/heads')
  await main.onboard()
  const send = { to_agent_id: bob.id, amount_usdc: 0.1 }
  await main.ask('POST', '/api/agent/send', { key: ann.key, json: send })
  await main.call(ann, TOOL)
  await settle()
  const after = await read('/api/attestations/heads')
  t.equal(after['count'], Number(before['count']) + 1, 'one head for one fee')
})

t.test('proofs over HTTP hold offline, and a changed one does not', async (t) => {
  const [head, did] = [await read('/api/attestations/head'), await read('/.well-known/did.json')]
  t.match(did, { id: 'did:web:gas.test', verificationMethod: [{ type: 'Multikey' }] })
  const keys = toKeys(head.keys)
  t.equal(keys[0]?.name, 'gas.test/attestations')
  const heads = await read('/api/attestations/heads')
  const older = heads.heads.at(-1) ?? {}
  const consistency = await read(`/api/attestations/consistency?from=${String(older['tree_size'])}`)
  const proof = await read('/api/attestations/proof?index=2')
  const check = (...answers: object[]) =>
    verifySavedAttestations(
      answers.map((json, at) => ({ name: String(at), json })),
      keys,
    ).map(({ ok }) => ok)
  t.strictSame(check(proof, consistency, older, head), [true, true, true, true])
  t.strictSame(check(head, { ...proof, leaf: String(proof['leaf']).replace('-v1 ', '-v2 ') }), [
    true,
    false,
  ])
  t.strictSame(check(head, older, { ...consistency, consistency: [] }), [true, true, false])
  t.strictSame(check({ ...head, note: head.note.replace(/\n\d+\n/, '\n2\n') }), [false])
  const [size, empty] = [head['tree_size'], { consistency: [] }]
  t.strictSame(
    check(older, head, { ...empty, from_size: size, to_size: size }),
    [true, true, true, false],
    'a proof from the later head to itself does not lead from the older one',
  )
  t.strictSame(check(older, head), [true, true, false], 'nor does no proof at all')
  for (const [path, status, code] of [
    ['consistency?from=99', 409, 'head_ahead_of_ledger'],
    ['consistency?from=3&to=2', 400, 'invalid_input'],
    ['proof?index=99', 404, 'leaf_not_found'],
    ['proof?index=0&size=99', 409, 'head_ahead_of_ledger'],
    ['proof?index=-1', 400, 'invalid_input'],
  ] as const)
    t.match(await main.ask('GET', `/api/attestations/${path}`), { status, body: { code } }, path)
})

t.test('a receipt has the hashes, the cost and the place of its fee', async (t) => {
  const idempotent = { 'idempotency-key': 'receipt-1' }
  const reply = await main.call(ann, TOOL, {}, idempotent)
  await settle()
  const { call_id: callId, receipt, cost_usdc: cost } = reply.body._meta
  const signed = await read(`/api/calls/${callId}/receipt`, ann.key)
  const answer = toCanonicalJson(JSON.parse(reply.text))
  t.equal(signed['answer_hash'], createHash('sha256').update(answer).digest('hex'))
  const request = ['POST', '/api/refuel', { tool: TOOL }, [null, null, null]]
  t.equal(
    signed['request_hash'],
    createHmac('sha256', Buffer.from(signed.request_key, 'hex'))
      .update(JSON.stringify(request))
      .digest('hex'),
  )
  t.match(signed, { cost_usdc: cost, pending: false, fees: [{ index: 6 }] })
  const head = await read('/api/attestations/head')
  const keys = toKeys(head.keys)
  const check = (json: object) => verifySavedAttestations([{ name: 'r', json }], keys)[0]
  t.match(check(signed), { ok: true, says: new RegExp(`call ${callId}.*with fee 6`) })
  const shown = await read(`/api/receipts/${receipt}`)
  t.match(check(shown), { ok: true }, 'any holder of the token can check it')
  t.match(shown['attestation'], { request_hash: null, request_key: null })
  const [fee] = signed.fees
  const [, other] = await sql<{ index: number }[]>`
    select leaf_index::int as index from attestation_leaves order by leaf_index limit 2`
  t.match(check({ ...signed, fees: [{ ...fee, index: other?.index }] }), { ok: false })
  t.match(check({ ...signed, note: signed.note.replace(/cost_micros \d+/, 'cost_micros 1') }), {
    ok: false,
  })
  const { status } = await main.ask('GET', `/api/calls/${callId}/receipt`, { key: bob.key })
  t.equal(status, 404, 'a stranger cannot ask for it')
  const bound = await createBackpackBoundKey(main, ann, await createAgentBackpack(main, ann))
  const inside = { 'idempotency-key': 'receipt-bound' }
  // A free call adds no fee to the tree.
  const made = await main.call(bound, 'agent_reputation', { agent_id: ann.id }, inside)
  const path = `/api/calls/${made.body._meta.call_id}/receipt`
  t.match(await read(path, bound.key), { request_hash: null, request_key: null })
  t.match(await read(path, ann.key), { request_key: signed.request_key }, 'the key of all calls')

  // A day later the answer is deleted; its hash stays.
  await sql`update calls set at = at - interval '25 hours' where call_id = ${callId}`
  await createCallLogStore(sql).forgetAnswers()
  t.equal(
    (await read(`/api/calls/${callId}/receipt`, ann.key))['answer_hash'],
    signed['answer_hash'],
  )
  await sql`update calls set at = at + interval '25 hours' where call_id = ${callId}`
})

t.test('a stranger with a head of yesterday finds what was rewritten since', async (t) => {
  const kept = join(t.testdir(), 'kept.json')
  writeFileSync(kept, JSON.stringify(await read('/api/attestations/head')))
  const asked = async () => {
    const file = join(REPOSITORY_ROOT, 'examples/verify-attestations.mjs')
    const run = promisify(execFile)(process.execPath, [file, main.url, kept])
    return run.then(
      ({ stdout }) => stdout,
      (error: { stdout: string }) => error.stdout,
    )
  }
  await main.call(bob, TOOL)
  await settle()
  t.match(await asked(), /^ok 8 fees, .* the first 7 are those of/)

  await dropAppendOnlyGuards(sql)
  const whole = await sql<
    StoredAttestationLeaf[]
  >`select * from attestation_leaves order by leaf_index`
  await rewriteAttestationTree(sql, (leaves) => leaves)
  t.match(await asked(), /^ok 8 fees/, 'the same leaves in a tree made again')

  const victim = whole[3] as StoredAttestationLeaf
  const attacks: Record<string, (leaves: StoredAttestationLeaf[]) => StoredAttestationLeaf[]> = {
    changed: (leaves) => leaves.with(3, { ...victim, amount_micros: victim.amount_micros + 1n }),
    removed: (leaves) => leaves.toSpliced(3, 1),
    inserted: (leaves) =>
      leaves.toSpliced(3, 0, {
        ...victim,
        ledger_id: newUuidV7(Date.now()),
        seed: Buffer.alloc(32, 1),
      }),
    replaced: (leaves) => leaves.toSpliced(3, 1).concat(victim),
  }
  for (const [name, attack] of Object.entries(attacks)) {
    await rewriteAttestationTree(sql, attack)
    t.match(await asked(), /^BROKEN/, `a fee was ${name}, and the tree and its signed head with it`)
    await rewriteAttestationTree(sql, () => whole)
  }
  const old = {
    ...victim,
    ledger_id: newUuidV7(Date.now()),
    minute: new Date(Date.now() - 86_400_000),
  }
  await rewriteAttestationTree(sql, (leaves) => [...leaves, old])
  t.match(await asked(), /^BROKEN fee 8 was added later with an earlier time/)
  await rewriteAttestationTree(sql, (leaves) => leaves.slice(0, 5))
  t.match(await asked(), /^BROKEN 7 fees were published, 5 are left/)
  await rewriteAttestationTree(sql, () => whole)
  await sql`update attestation_leaf_packs set amounts[1] = amounts[1] + 1 where first_index = 3`
  t.match(await asked(), /^BROKEN the published fees are not the 7/, 'a row beside its tree')
  await rewriteAttestationTree(sql, () => whole)
  t.match(await asked(), /^ok/)
})

t.test('gas verify finds a ledger that is not that of the tree', async (t) => {
  const broken = async () =>
    (await verifyDatabaseInvariants(sql))
      .filter((one) => one.broken.length > 0)
      .map((one) => one.rule)
  await main.call(bob, TOOL)
  await settle()
  const isFound = async (t: Test, name: string) =>
    t.ok((await broken()).includes('A1'), `a fee was ${name}`)
  t.strictSame(await broken(), [])
  const [fee] = await sql<{ id: string; fee_micros: bigint }[]>`
    select id, fee_micros from ledger where kind = 'price' limit 1`
  const id = fee?.id ?? ''
  await sql`update ledger set fee_micros = fee_micros - 1 where id = ${id}`
  await isFound(t, 'changed')
  await sql`update ledger set fee_micros = fee_micros + 1 where id = ${id}`
  await sql`create table gone as select * from ledger where id = ${id}`
  await sql`delete from ledger where id = ${id}`
  await isFound(t, 'removed')
  await sql.begin(async (tx) => {
    await tx`alter table ledger disable trigger ledger_fees_queued`
    await tx`insert into ledger select * from gone`
    await tx`alter table ledger enable trigger ledger_fees_queued`
  })
  const forged = newUuidV7(Date.now())
  await insertUnqueuedFee(sql, forged, `agent:${ann.id}:promo`)
  await isFound(t, 'inserted')
  await sql`delete from ledger where id = ${forged}`
  t.strictSame(await broken(), [])
})

t.test('a new key signs beside the one before; a leaked one signs nothing', async (t) => {
  const [old] = (await read('/api/attestations/head')).keys
  await rotateAttestationKey(sql, TEST_STATION_SEALING_KEYS, false)
  await main.call(bob, TOOL)
  await settle()
  const head = await read('/api/attestations/head')
  const opens = (key = '', json: object = {}) =>
    verifySavedAttestations([{ name: 'h', json }], toKeys([key]))[0]?.ok
  t.strictSame([head.keys.length, head.keys[1]], [2, old])
  for (const key of head.keys) t.ok(opens(key, head), 'both sign')
  await rotateAttestationKey(sql, TEST_STATION_SEALING_KEYS, true)
  await main.call(bob, TOOL)
  await settle()
  const last = await read('/api/attestations/head')
  t.equal(opens(old, last), false)
  t.strictSame([last.keys.length, opens(last.keys[0], last)], [1, true])
  const did = await read('/.well-known/did.json')
  t.strictSame([did.verificationMethod.length, did.assertionMethod.length], [3, 1])
  await main.verify()
})

t.test(
  'a station makes its data directory, also where key and databases are elsewhere',
  async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'gas-attest-'))
    t.teardown(() => rmSync(dir, { recursive: true }))
    const dataDir = join(dir, 'not', 'made')
    const other = await startInProcessTestStation(t, { DATA_DIR: dataDir }, { gatherFeesMs: 20 })
    await other.call(await other.onboard(), TOOL)
    await eventually(() => existsSync(join(dataDir, 'attestation-head')), 'the head is kept there')
    await other.station.close()
  },
)

t.test('a head that is ahead of a restored database is said loudly', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'gas-attest-'))
  t.teardown(() => rmSync(dir, { recursive: true }))
  const name = 'gas.test/attestations'
  const text = formatTreeHead({
    origin: name,
    size: 99,
    root: Buffer.alloc(32, 9),
    at: new Date().toISOString(),
  })
  // The restored database does not know a key that was made after the backup.
  const seed = randomBytes(32)
  const note = signNote(text, [{ name, seed, publicKey: toPublicKey(seed) }])
  writeFileSync(join(dir, 'attestation-head'), note)
  const lines: string[] = []
  const second = await startInProcessTestStation(
    t,
    { DATA_DIR: dir },
    { database: main.database, log: (line) => lines.push(line) },
  )
  t.match(
    lines.join('\n'),
    /the database is older than what this station published: a signed head has 99/,
  )
  const summary = (await second.ask('GET', '/api/attestations/summary')).body
  t.match(summary['rewinds'], [{ tree_size: 99, note, found_size: summary['tree_size'] }])
  const rules = await verifyDatabaseInvariants(sql)
  t.strictSame(
    rules.filter(({ broken }) => broken.length > 0).map(({ rule }) => rule),
    ['A3'],
  )
  t.equal(await acceptUnmatchedPublishedTreeHeads(sql), 1)
  await main.verify()
})
