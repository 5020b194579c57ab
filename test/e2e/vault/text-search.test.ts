import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** Search in the vault and the Hive in every script and spelling, and memories that are stored again. */

const station = await startInProcessTestStation(t)
const { ask, call, onboard, sql } = station

/** A text, what finds it, and what does not. */
const TEXTS: [text: string, found: string[], others: string[]][] = [
  [
    '用户喜欢喝绿茶不喜欢咖啡，每天早上八点在办公室',
    ['绿茶', '茶', '喜欢喝绿茶', '办公室'],
    ['红茶', '智能合约'],
  ],
  [
    'これは東京のスマートコントラクトの脆弱性についての記事です',
    ['東京', '脆弱性', 'スマートコントラクト'],
    ['大阪'],
  ],
  ['ฉันชอบดื่มชาเขียวทุกเช้าที่สำนักงานในกรุงเทพ', ['ชาเขียว', 'กรุงเทพ'], []],
  ['ຂ້ອຍມັກດື່ມຊາຂຽວທຸກເຊົ້າຢູ່ຫ້ອງການ', ['ຊາຂຽວ'], []],
  ['ខ្ញុំចូលចិត្តផឹកតែបៃតងរាល់ព្រឹកនៅការិយាល័យ', ['តែបៃតង'], []],
  ['ကျွန်တော်လက်ဖက်ရည်စိမ်းသောက်ရတာကြိုက်တယ်မနက်တိုင်း', ['လက်ဖက်ရည်'], []],
  [
    '사용자는 매일 아침 커피를 마시고 녹차는 마시지 않는다',
    ['커피', '커피를', '녹차', '커피'.normalize('NFD')],
    [],
  ],
  [
    'The café on the corner sells crème brûlée to Ærøskøbing and to İstanbul each noon',
    [
      'café',
      'cafe',
      'cafe\u0301',
      'CAFÉ',
      'creme brulee',
      'ｃａｆｅ',
      'ca\u00adfé',
      'istanbul',
      'Aeroskobing',
    ],
    ['kaffee'],
  ],
]

const author = await onboard()
for (const [content] of TEXTS) {
  const wrote = await call(author, 'vault_write', { content, type: 'fact' })
  if (wrote.status !== 200) throw new Error(wrote.text)
  const shared = await call(author, 'hive_write', {
    content: `${content} — ${content} — ${content}`,
  })
  if (shared.status !== 200) throw new Error(shared.text)
}

const contentsOf = (found: unknown): string[] =>
  (found as { content: string }[]).map(({ content }) => content)
const inVault = async (q: string) => {
  const { body } = await ask('GET', `/api/vault/query?q=${encodeURIComponent(q)}&limit=1`, {
    key: author.key,
  })
  return contentsOf(body['memories'] ?? body['results'])
}
const inHive = async (q: string) => {
  const { body } = await ask('GET', `/api/hive/read?query=${encodeURIComponent(q)}&limit=1`, {
    key: author.key,
  })
  return contentsOf(body['entries'])
}

t.test('a memory is found in each script and spelling, best first', async (t) => {
  for (const [text, found] of TEXTS)
    for (const query of found) t.strictSame(await inVault(query), [text], query)
})

t.test('an entry of the Hive is found alike, and others are not', async (t) => {
  for (const [text, found, others] of TEXTS) {
    for (const query of found) t.match(await inHive(query), [`${text} — ${text} — ${text}`], query)
    for (const query of others)
      t.notOk(
        (await inHive(query)).some((one) => one.startsWith(text)),
        query,
      )
  }
  t.notOk(
    (await inHive('cafe -茶')).some((one) => one.includes('茶')),
    'an excluded run',
  )
  t.match(await inHive('"喝绿茶"'), [/绿茶/], 'a phrase')
  t.strictSame(await inHive('"茶绿喝"'), [])
})

t.test('a query that nothing can match is refused before it is charged', async (t) => {
  for (const query of ['…', '\u3164\u3164', '\u200b', '---', '🫖'])
    for (const path of ['vault/query?q', 'hive/read?query']) {
      const { status } = await ask('GET', `/api/${path}=${encodeURIComponent(query)}`, {
        key: author.key,
      })
      t.equal(status, 400, `${path} ${escape(query)}`)
    }
})

t.test('a memory that is stored again is the earlier one, and costs nothing', async (t) => {
  const agent = await onboard()
  const memory = { content: 'The deploy of the café runs at noon.', type: 'fact', tags: ['a'] }
  const first = await call(agent, 'vault_write', memory)
  const { id } = first.body['pack'] as { id: string }
  for (const content of [
    memory.content,
    ` ${memory.content}\n`,
    memory.content.normalize('NFD'),
    memory.content.replace('de', 'd\u200be'),
  ]) {
    const again = await call(agent, 'vault_write', { ...memory, content })
    t.match(again, {
      status: 200,
      body: {
        status: 'duplicate',
        duplicate_of: id,
        pack: { id, content: memory.content },
        _meta: { cost_usdc: 0, waived: String },
      },
    })
  }
  const [counted] =
    await sql`select count(*)::int as n from vault_memories where agent_id = ${agent.id}`
  t.equal(counted?.['n'], 1)
  for (const other of [
    { ...memory, immortal: true },
    { ...memory, type: 'insight' },
    { ...memory, content: 'The deploy of the cafe runs at noon.' },
    { ...memory, supersedes: [id] },
  ])
    t.match(await call(agent, 'vault_write', other), { status: 200, body: { status: 'stored' } })
  const expired = await call(await onboard(), 'vault_write', memory)
  t.match(expired.body, { status: 'stored' }, 'of another agent')
})

t.test('what an older version has indexed is found after the migration', async (t) => {
  const { readFile } = await import('node:fs/promises')
  const text = await readFile('persistence/migrations/0027-text-search.sql', 'utf8')
  await sql`update vault_memories set content_search = to_tsvector('english', content)`
  await sql`update hive_entries set content_search = to_tsvector('english', content)`
  t.strictSame(await inHive('智能'), [])
  await sql.unsafe(text.slice(text.indexOf('-- What is stored.')))
  t.match(await inVault('绿茶'), [/绿茶/])
  t.match(await inHive('cafe'), [/café/])
  await station.verify()
})
