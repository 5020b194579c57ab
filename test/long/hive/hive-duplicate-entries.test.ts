import { randomUUID } from 'node:crypto'
import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { countReplies } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'

const TEXT =
  'Gas on Base stays low on weekends through November, so batch transfers are best sent early on ' +
  'Sunday mornings, when blobs are cheap, few bridges settle and the sequencer has hardly any queue. ' +
  'Set the tip to zero then, since nobody outbids you, and check the base fee once before you send.'

const main = await startInProcessTestStation(t)
const beside = await spawnSecondNode(t, main)
const write = (guest: TestAgent, content: string, fields: object = {}, node: TestStation = main) =>
  node.call(guest, 'hive_write', { content, ...fields })
const entries = async () => (await main.sql`select from hive_entries`).count

t.test('an author that repeats a text gets its existing entry and no second royalty', async (t) => {
  const her = await main.onboard()
  const first = await write(her, TEXT, { namespace: 'base' })
  t.match(first, { status: 200, body: { status: 'stored' } })
  const before = await entries()
  for (const same of [TEXT, `  ${TEXT.toUpperCase()} `, TEXT.replaceAll(', ', ' - ')]) {
    const again = await write(her, same, { namespace: 'elsewhere', tags: ['other'] })
    t.match(again, {
      status: 200,
      body: {
        id: first.body['id'],
        namespace: 'base',
        status: 'duplicate',
        created_at: first.body['created_at'],
        _meta: { cost_usdc: 0, waived: /equal text/ },
      },
    })
  }
  t.equal(await entries(), before)
  t.match(await write(her, TEXT, { is_public: false }), { body: { status: 'stored' } })
  t.match(await write(her, `${TEXT} And one thing more.`), { body: { status: 'stored' } })
})

t.test('concurrent equal writes of one author create one entry on two nodes', async (t) => {
  const his = await main.onboard()
  const text = `${randomUUID()} ${'unlike any other text in the Hive so far. '.repeat(3)}`
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, at) => write(his, text, {}, at % 2 === 0 ? main : beside)),
  )
  const stored = await main.sql`select id from hive_entries where agent_id = ${his.id}`
  t.equal(stored.count, 1, JSON.stringify(countReplies(answers)))
  const good = answers.filter(({ status }) => status === 200)
  t.strictSame(new Set(good.map(({ body }) => body['id'])), new Set([stored[0]?.['id']]))
  t.equal(good.filter(({ body }) => body['status'] === 'stored').length, 1)
  // On a busy machine one of them may get a retry.
  t.ok(answers.every(({ status, body }) => status === 200 || body.code === 'hive_write_pending'))
})

t.test('of authors that publish one text concurrently on two nodes, one succeeds', async (t) => {
  const authors = await Promise.all(Array.from({ length: 6 }, () => main.onboard()))
  for (let round = 0; round < 5; round += 1) {
    const text = `${TEXT} Seen in round ${round} by ${randomUUID()}, who looked at it for a whole week.`
    // Equal texts, and one with a word replaced by a synonym.
    const near = ['', 'entire', 'full', '', 'complete', ''].map((word) =>
      word === '' ? text : text.replace('whole', word),
    )
    const before = await entries()
    const answers = await Promise.all(
      authors.map((author, at) =>
        write(author, near[at] ?? text, {}, at % 2 === 0 ? main : beside),
      ),
    )
    t.equal(await entries(), before + 1, JSON.stringify(countReplies(answers)))
    const [stored, ...others] = answers.filter(({ status }) => status === 200)
    t.strictSame([stored?.body['status'], others], ['stored', []])
    for (const { status, body } of answers.filter((one) => one !== stored)) {
      t.equal(status, 409)
      // On a busy machine one of them may get a retry.
      if (body.code !== 'hive_write_pending')
        t.match(body, { code: 'hive_copy', entry_id: stored?.body['id'] })
    }
  }
  await main.verify()
})

t.test('the Idempotency-Key of a claim takes it over after a lost commit', async (t) => {
  const [her, him] = [await main.onboard(), await main.onboard()]
  const text = `${TEXT} Written down by ${randomUUID()} after the day was over and nothing was left.`
  const claimed = randomUUID()
  await main.sql`
    insert into hive_texts (agent_id, is_public, hash, entry_id, bands, claimed_until, claimed_by)
    values (${her.id}, true, hash_hive_text(${text}), ${claimed}, '{}', now() + interval '20 seconds',
            'key first')`
  const by = (guest: TestAgent, key: string) =>
    main.call(guest, 'hive_write', { content: text }, { 'idempotency-key': key })
  const pending = { status: 409, body: { code: 'hive_write_pending' } }
  t.match(await by(her, 'second'), pending)
  t.match(await by(him, 'first'), pending, 'the key of another agent is another key')
  // The commit may still land: both write the same entry, and one of them is stored.
  t.match(await by(her, 'first'), { status: 200, body: { id: claimed, status: 'stored' } })
  t.match(await by(him, 'first'), { status: 409, body: { code: 'hive_copy', entry_id: claimed } })
})

t.test('a near copy of another agent’s entry is rejected with that entry', async (t) => {
  const [her, him] = [await main.onboard(), await main.onboard()]
  const text = TEXT.replace('Base', 'Optimism').replace('Sunday', 'Monday')
  const original = await write(her, `${text} Measured by ${her.id.replaceAll('-', '')}.`)
  const copies = [
    `${text} Measured by ${her.id.replaceAll('-', '')}.`,
    `${text.toLowerCase()} measured by ${her.id.replaceAll('-', '')}`,
    `${text.replace('mornings', 'noons')} Measured by ${her.id.replaceAll('-', '')}.`,
  ]
  const before = await entries()
  for (const copy of copies)
    t.match(await write(him, copy), {
      status: 409,
      body: {
        code: 'hive_copy',
        entry_id: original.body['id'],
        refunded: true,
        detail: /another author says nearly the same/,
      },
    })
  t.equal(await entries(), before)
  const remembered = await main.call(him, 'vault_write', { content: copies[0], type: 'fact' })
  const { id } = remembered.body['pack'] as { id: string }
  t.match(await main.call(him, 'vault_promote', { memory_id: id }), {
    status: 409,
    body: { code: 'hive_copy', entry_id: original.body['id'] },
  })
  t.match(
    await write(him, copies[0] as string, { is_public: false }),
    { status: 200 },
    'in private',
  )
})

t.test('a text that contradicts another or has other numbers is not a copy', async (t) => {
  const [her, him] = [await main.onboard(), await main.onboard()]
  const base = `${TEXT.replaceAll('Base', 'Arbitrum').replace('zero', '0.01')} Seen by ${randomUUID()}.`
  t.match(await write(her, base), { body: { status: 'stored' } })
  for (const other of [
    base.replace('are best sent', 'are not best sent'),
    base.replace('stays low', 'stays high'),
    base.replace('0.01', '0.02'),
    `${base} It holds for the sequencers of four other chains that were looked at as well, which are cheaper still.`,
  ])
    t.match(
      await write(him, other),
      { status: 200, body: { status: 'stored' } },
      other.slice(0, 60),
    )
  const secret = await main.onboard()
  const hidden = `${TEXT} Kept by ${randomUUID()} alone, and seen by nobody else so far today.`
  await write(secret, hidden, { is_public: false })
  t.match(await write(him, hidden), { status: 200 }, 'a private text is not revealed')
})

t.test('an agent’s entries per day are limited', async (t) => {
  const her = await main.onboard()
  const text = () => `${randomUUID()} ${randomUUID()} is a finding of the day.`
  await write(her, text())
  await main.station.close()
  const used = JSON.stringify({ hive_write: LIMITS.hiveWritesPerDay - 2 })
  await main.sql`
    update actors set state = jsonb_set(state, '{context,used}', ${used}::text::jsonb)
     where kind = 'quota' and aggregate_id = ${her.id}`
  const settled = await startInProcessTestStation(t, {}, { database: main.database })
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, at) => write(her, text(), {}, at % 2 === 0 ? settled : beside)),
  )
  t.strictSame(countReplies(answers), { 200: 2, '429 quota_exceeded': 4 })
  const refused = answers.find(({ status }) => status === 429)
  t.match(refused?.body, {
    limit_source: 'quota',
    limit_calls: LIMITS.hiveWritesPerDay,
    retry_after: Number,
    detail: /^Each agent has 500 calls of this tool a day/,
  })
  t.equal(refused?.headers['ratelimit-policy'], `"quota";q=${LIMITS.hiveWritesPerDay};w=86400`)
  const { 'retry-after': after } = refused?.headers ?? {}
  t.equal(refused?.headers['ratelimit'], `"quota";r=0;t=${String(after)}`)
  const [mine] = await main.sql<{ n: number }[]>`
    select count(*)::int as n from hive_entries where agent_id = ${her.id}`
  t.equal(mine?.n, 3)
  const claims = await main.sql`select from hive_texts where agent_id = ${her.id}`
  t.equal(claims.count, 3, 'the texts of writes that failed are free at once')
  await settled.verify()
})
