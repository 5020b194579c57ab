import t from 'tap'
import { DAY, HOUR } from '../../../core/clock.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import { createAgentBackpack } from '../../support/agents/test-backpack-bound-keys.ts'
import {
  eventually,
  startTestMailServer,
  waitUntilOwnerAlertsDispatched,
} from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

/** Weekly digests: to whom, with which figures, once, and how they end. */

const ORIGIN = { origin: 'http://gas.test' }
const TOOL = 'hive_trending'
const mail = await startTestMailServer(t)
const settings = { SMTP_URL: mail.url, STARTER_CREDITS_USDC: '3' }
const main = await startInProcessTestStation(t, settings)
const { database, sql } = main
const WEEK = 7 * DAY
const nextMonday = Math.ceil((Date.now() - 4 * DAY) / WEEK) * WEEK + 4 * DAY

const lettersTo = (address: string) => mail.letters.filter(({ to }) => to.includes(address))
const digestsTo = (address: string) =>
  lettersTo(address).filter(({ subject }) => subject.includes('last week'))
/** The text of a letter without its encoding. */
const read = (raw = '') =>
  raw
    .replace(/=\r?\n/g, '')
    .replaceAll('=3D', '=')
    .replaceAll('\r', '')

async function confirm({ key }: TestAgent, email: string): Promise<void> {
  const json = { contact_email: email }
  await main.ask('POST', '/api/agent/contact-email', { key, json })
  await eventually(() => lettersTo(email).length > 0, 'the link')
  const [, link] = /#link=([\w-]+)/.exec(read(lettersTo(email).at(-1)?.raw)) ?? []
  const opened = await main.ask('POST', '/owner/session', { json: { link }, headers: ORIGIN })
  if (opened.status !== 200) throw new Error(opened.text)
}
/** A node whose clock stands this long after the end of the week: its job runs at its start. */
const startLater = (ms: number) =>
  startInProcessTestStation(t, settings, { database, clock: createTestClock(nextMonday + ms) })
const weeksDone = async () => (await sql`select from weekly_digests`).count

const [ann, bob, idle, stranger, moved] = await Promise.all(
  Array.from({ length: 5 }, () => main.onboard()),
)
if (!ann || !bob || !idle || !stranger || !moved) throw new Error('five agents')
await confirm(ann, 'ann@agents.example')
await confirm(bob, 'bob@agents.example')
await confirm(idle, 'idle@agents.example')
await confirm(moved, 'moved@agents.example')
for (let call = 0; call < 3; call += 1) await main.call(ann, TOOL)
await main.call(ann, 'agent_reputation', { agent_id: ann.id })
for (const agent of [bob, stranger, moved]) await main.call(agent, TOOL)
/** What a pass of 50 calls costs. */
const PASS_USDC = 1.5
await main.ask('POST', '/api/task/passes/buy', { key: ann.key, json: { pass: 'micro' } })
const plan = { title: 'A strategy', description: 'It works.', strategy_tool: 'price_feed' }
await main.call(ann, 'strategy_publish', plan)
const fused = await createAgentBackpack(main, ann, { fuse: { per_call_usdc: 0.001 } })
await main.call(ann, TOOL, {}, { 'x-backpack-id': fused })
await main.ask('POST', '/api/tip', {
  key: bob.key,
  json: { to_agent_id: ann.id, amount_usdc: 0.2 },
})
// Any program with the key may write an address: until it is confirmed nothing is sent there.
await main.ask('POST', '/api/agent/contact-email', {
  key: moved.key,
  json: { contact_email: 'other@agents.example' },
})

t.test('nothing is sent before the rows of the week have committed', async (t) => {
  await startLater(HOUR / 2)
  t.equal(await weeksDone(), 0)
})

t.test('two nodes send each digest once, through an outage of the mail server', async (t) => {
  mail.mood.refuse = 451
  await Promise.all([startLater(2 * HOUR), startLater(2 * HOUR)])
  await eventually(async () => (await weeksDone()) === 3, 'the digests are written')
  const waiting = () => sql<{ n: number }[]>`
    select count(*)::int as n from alerts
     where topic = 'weekly_digest' and state = 'pending' and attempts > 0`
  await eventually(async () => (await waiting())[0]?.n === 2, 'tried')
  t.strictSame(digestsTo('ann@agents.example'), [])
  mail.mood.refuse = null
  await startLater(3 * HOUR)
  await waitUntilOwnerAlertsDispatched({ sql })
  for (const name of ['ann', 'bob']) t.equal(digestsTo(`${name}@agents.example`).length, 1, name)
  for (const name of ['idle', 'moved', 'other'])
    t.equal(digestsTo(`${name}@agents.example`).length, 0, name)
})

t.test('the figures of a digest are those of the ledger', async (t) => {
  const [letter] = digestsTo('ann@agents.example')
  const text = read(letter?.raw)
  const [books] = await sql<{ balance: number; spent: number; earned: number }[]>`
    select (sum(amount_micros) filter (where credit like ${`agent:${ann.id}:%`})
             - coalesce(sum(amount_micros) filter (where debit like ${`agent:${ann.id}:%`}), 0))::float / 1e6 as balance,
           (sum(amount_micros) filter (where debit like ${`agent:${ann.id}:%`}
             and kind in ('charge', 'fee', 'share')))::float / 1e6 as spent,
           (sum(amount_micros) filter (where credit like ${`agent:${ann.id}:%`} and kind = 'tip'))::float / 1e6 as earned
      from transfers`
  t.equal(books?.earned, 0.19, 'a tip without its fee')
  t.match(text, `Balance at the end: ${books?.balance} USDC\n`)
  t.match(text, `Spent on calls and purchases: ${(books?.spent ?? 0) + PASS_USDC} USDC, 6 calls\n`)
  t.match(text, '  strategy_publish: 0 USDC, 1 call\n', 'its pass was paid before')
  t.match(text, `  purchase: ${PASS_USDC} USDC, 1 call\n`)
  t.match(text, '  agent_reputation: 0 USDC, 1 call\n')
  t.match(text, `  ${TOOL}: 0.015 USDC, 3 calls\n`)
  t.match(text, 'Earned: 0.19 USDC\n  tips: 0.19 USDC\n')
  t.match(text, `Fuses tripped: 1\n  ${fused}, per_call: 1\n`)
  t.match(text, `http://gas.test/fund/${ann.id}\n`)
  t.match(text, 'http://gas.test/owner\n')
})

t.test('a digest ends with one click: opening its link changes nothing', async (t) => {
  const [letter] = digestsTo('ann@agents.example')
  const headers = (letter?.raw ?? '').split('\r\n\r\n')[0]?.replace(/\r\n[ \t]/g, ' ') ?? ''
  t.match(headers, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r?$/m)
  const [, path = ''] =
    /^List-Unsubscribe: <http:\/\/gas\.test(\/digest\/[\w-]{32})>\r?$/m.exec(headers) ?? []
  t.match(read(letter?.raw), `http://gas.test${path}`)
  const isSubscribed = async () =>
    (
      await sql`select from digest_addresses where email = 'ann@agents.example'
                  and unsubscribed_at is null`
    ).count === 1
  for (const method of ['GET', 'HEAD']) {
    const page = await main.ask(method, path)
    t.equal(page.status, 200)
    t.match(page.headers, { 'cache-control': 'no-store', 'x-robots-tag': 'noindex' })
    t.notMatch(page.text, 'ann@agents.example', 'a forwarded link tells no address')
  }
  t.ok(await isSubscribed(), 'a scanner has opened it')
  const post = (body: string, type: string, at = path) =>
    fetch(`${main.url}${at}`, { method: 'POST', body, headers: { 'content-type': type } })
  const FORM = 'application/x-www-form-urlencoded'
  t.equal((await post('x=1', FORM)).status, 400)
  t.equal((await post('List-Unsubscribe=One-Click', FORM, `${path.slice(0, -1)}!`)).status, 400)
  t.equal((await post('List-Unsubscribe=One-Click', FORM, `/digest/${'x'.repeat(32)}`)).status, 404)
  t.ok(await isSubscribed())
  const part =
    '--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--'
  t.equal((await post(part, 'multipart/form-data; boundary=b')).status, 200, 'a mail program')
  t.notOk(await isSubscribed())
  t.equal((await post('subscribe=again', FORM)).status, 200, 'the button of the page')
  t.ok(await isSubscribed())
  t.equal((await post('List-Unsubscribe=One-Click', FORM)).status, 200)
  t.equal((await post('List-Unsubscribe=One-Click', FORM)).status, 200, 'twice is once')
  t.notOk(await isSubscribed())
  const strange = await main.ask('POST', '/api/pulse', {
    key: ann.key,
    headers: { 'content-type': FORM },
  })
  t.equal(strange.status, 415, 'other routes take no forms')
})

t.test('the next week has its own digest, and the opt-out stays', async (t) => {
  const clock = createTestClock(nextMonday + 2 * DAY)
  const second = await startInProcessTestStation(t, settings, { database, clock })
  for (const agent of [ann, bob]) await second.call(agent, TOOL)
  await startLater(WEEK + 2 * HOUR)
  await eventually(() => digestsTo('bob@agents.example').length === 2, 'the second week')
  await waitUntilOwnerAlertsDispatched({ sql })
  t.equal(digestsTo('bob@agents.example').length, 2)
  t.equal(digestsTo('ann@agents.example').length, 1)
})

t.test('the ledger is sound', () => main.verify())
