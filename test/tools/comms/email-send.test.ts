import { createServer, type AddressInfo, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import t from 'tap'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'
import { startTestMailServer } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import { createTestPauseGate } from '../../support/actors/test-actor-node.ts'
import {
  startInProcessTestStation,
  type TestAgent,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import type { TeardownScope } from '../../support/upstreams/fixture-server.ts'
import { createRetentionSweeper } from '../../../persistence/retention-sweeper.ts'
import { createMailSuppressionStore } from '../../../persistence/notifications/mail-suppression-store.ts'
import emailSend from '../../../tools/comms/email-send.ts'
import { unknownMailboxStatusOfSmtpError } from '../../../providers/mail/smtp-bounce.ts'
import {
  createRecordingToolContext,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const LETTER = { to: 'owner@example.com', subject: 'Report', body: 'All is well.\n.\nReally.' }
const RICH = { MAIL_FROM: 'The Station <station@gas.test>' }

const send = (station: InProcessStation, guest: TestAgent, fields: object = {}, headers = {}) =>
  station.call(guest, 'email_send', { ...LETTER, ...fields }, headers)

/** An agent with deposited credits: promotional ones send no mail. */
async function onboardWithCash(station: InProcessStation): Promise<TestAgent> {
  const guest = await station.onboard()
  await insertArrivedDeposit(station, guest.id, 2)
  await waitUntilTrue('its deposit is there', async () => (await station.balance(guest)) > 2)
  return guest
}

t.test(
  'without a mail server it is rejected before a hold, and the catalogue reports it',
  async (t) => {
    const { context: asking } = createRecordingToolContext({ mail: null })
    const refused = awaitRejectionDetails((async () => emailSend.preflight?.(LETTER, asking))())
    t.match(await refused, { code: 'provider_not_configured', requires: ['SMTP_URL'] })
    t.match(emailSend.availability?.(asking), { available: false, requires: ['SMTP_URL'] })
  },
)

t.test('messages are sent one at a time, ten a day', async (t) => {
  const box = await startTestMailServer(t)
  const settings = { ...RICH, SMTP_URL: box.url }
  const station = await startInProcessTestStation(t, settings)
  const guest = await onboardWithCash(station)
  const before = await station.balance(guest)
  const injected = 'Hello\r\nBcc: spy@example.com\r\n\r\nnot the body'
  t.equal((await send(station, guest, { subject: injected })).status, 400, 'a subject is one line')
  const { status, body } = await send(station, guest, { subject: 'Hello Bcc: spy@example.com' })
  t.equal(status, 200)
  t.match(body, { status: 'accepted', to: LETTER.to, _meta: { cost_usdc: 0.05 } })
  t.equal(await station.balance(guest), Math.round((before - 0.05) * 1e6) / 1e6)
  // One recipient, a fixed sender, and no header but its own.
  const [letter] = box.letters
  t.match(letter, { to: [LETTER.to], from: 'station+agents@gas.test' })
  const [head = '', ...text] = (letter?.raw ?? '').split('\r\n\r\n')
  t.match(head, /^From: An agent <station\+agents@gas\.test>$/m)
  t.match(head, new RegExp(`^Message-ID: <${String(body['message_id'])}@gas\\.test>$`, 'm'))
  t.notMatch(head, /^Bcc:/im)
  t.match(head, /^Content-Type: text\/plain/m)
  t.match(text.join(''), /All is well\.\r\n\.\r\nReally\./)
  const whole = text.join('').replaceAll('=\r\n', '')
  t.match(whole, new RegExp(`Written by the agent ${guest.id}, a customer of http://gas.test`))
  for (const to of [
    'a@example.com, b@example.com',
    'A <a@example.com>, B <b@example.com>',
    'a@b',
    'a@example.com\r\nBcc: x@y.zz',
  ])
    t.equal((await send(station, guest, { to })).status, 400, to)
  t.equal(box.letters.length, 1)

  await t.test('a rejected mail is refunded and not counted', async (t) => {
    const cash = await station.balance(guest)
    for (const code of [550, 451]) {
      box.mood.refuse = code
      const refused = await send(station, guest)
      t.equal(refused.status, 502)
      t.match(refused.body, { code: 'upstream_error', smtp_status: code, refunded: true })
    }
    box.mood.refuse = null
    t.equal(await station.balance(guest), cash)
    t.equal(box.letters.length, 1)
  })

  const beside = await startInProcessTestStation(t, settings, { database: station.database })
  const cash = await station.balance(guest)
  const answers = await Promise.all(
    Array.from({ length: 14 }, (_, n) => send(n % 2 === 0 ? station : beside, guest)),
  )
  const statuses = answers.map(({ status }) => status).sort((a, b) => a - b)
  t.strictSame(statuses, [...Array(9).fill(200), ...Array(5).fill(429)], 'on two nodes at once')
  t.equal(box.letters.length, 10)
  const refused = answers.find(({ status }) => status === 429)
  t.match(refused?.body, { code: 'quota_exceeded', limit_source: 'quota', limit_calls: 10 })
  const wait = Number(refused?.headers['retry-after'])
  t.ok(wait > 0 && wait <= 86_400, 'until the end of the UTC day')
  t.equal(await station.balance(guest), Math.round((cash - 0.45) * 1e6) / 1e6)
  const { body: quoted } = await send(station, guest, { dry_run: true })
  t.match(quoted, { would_refuse: { code: 'quota_exceeded', status: 429 } })
  t.equal((await send(station, await onboardWithCash(station))).status, 200, 'another has its own')
  await station.verify()
})

t.test('a call whose key was answered for another request meanwhile holds nothing', async (t) => {
  const box = await startTestMailServer(t)
  const station = await startInProcessTestStation(t, { ...RICH, SMTP_URL: box.url })
  const guest = await onboardWithCash(station)
  const { sql } = station
  const before = await station.balance(guest)
  for (const code of [null, 451]) {
    const key = { 'idempotency-key': `letter-${code}` }
    let arrived = () => {}
    let goOn = () => {}
    const there = new Promise<void>((resolve) => (arrived = resolve))
    const allowed = new Promise<void>((resolve) => (goOn = resolve))
    box.mood.holds = () => (arrived(), allowed)
    box.mood.refuse = code
    const sending = send(station, guest, {}, key)
    await there
    t.equal((await sql`select 1 from timers where command = 'hold.expire'`).length, 1)
    const other = { key: guest.key, json: {}, headers: key }
    t.equal((await station.ask('POST', '/api/keys', other)).status, 200)
    goOn()
    t.ok((await sending).status >= 400)
    t.equal((await sql`select 1 from timers where command = 'hold.expire'`).length, 0)
    t.equal(await station.balance(guest), before)
  }
  box.mood.refuse = null
  const sent = box.letters.length
  // Between its look-up and its hold the timer of a lost node answers its key.
  const [locked, answered] = [createTestPauseGate(), createTestPauseGate()]
  const lock = sql.begin(async (tx) => {
    await tx`lock table mail_suppressions in access exclusive mode`
    locked.open()
    await answered.pass()
  })
  await locked.pass()
  const late = send(station, guest, {}, { 'idempotency-key': 'late' })
  await waitUntilTrue('it waits in its preflight', async () => {
    const waiting = await sql`select from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and query like '%mail_suppressions%'`
    return waiting.length > 0
  })
  await sql`
      insert into calls (owner, call_id, agent_id, operation, tool, rail, cost_micros, status, error_code,
                         ms, ghost, idempotency_key, request_hash, response, at)
      values (${guest.id}, ${newUuidV7(Date.now())}, ${guest.id}, 'refuel', 'email_send', 'credits', 0, 'failed',
              'outcome_unknown', 1, false, 'late', 'other', '{"status":503,"body":{}}', now())`
  answered.open()
  await lock
  t.match(await late, { status: 422, body: { code: 'idempotency_key_reused' } })
  t.equal(box.letters.length, sent, 'it is not sent')
  t.equal(await station.balance(guest), before)
  await station.verify()
})

t.test('recipients that bounced or unsubscribed get no mail, at no cost', async (t) => {
  const box = await startTestMailServer(t)
  const station = await startInProcessTestStation(t, { ...RICH, SMTP_URL: box.url })
  const [guest, other] = [await onboardWithCash(station), await onboardWithCash(station)]
  const before = await station.balance(guest)
  const { sql } = station
  box.mood.unknown = {
    'nobody@example.com': 'No such user here',
    'gone@example.com': '5.1.1 <gone@example.com> is unknown',
    'relayed@example.com': 'relay not permitted',
    'spammed@example.com': '5.7.1 message refused by policy',
  }
  for (const to of Object.keys(box.mood.unknown))
    t.match(await send(station, guest, { to }), {
      status: 502,
      body: { code: 'upstream_error', smtp_status: 550, refunded: true },
    })
  const listed = await sql`select address, reason, smtp_status from mail_suppressions order by 1`
  t.strictSame(
    [...listed],
    ['gone', 'nobody'].map((name) => ({
      ...{ address: `${name}@example.com`, reason: 'bounced', smtp_status: 550 },
    })),
    'a rejection because of the content or the station blocks no address',
  )
  await sql`insert into mail_suppressions (address, reason) values ('tired@example.com', 'asked')`
  box.mood.unknown = {}
  const refused = (reason: string) => ({
    status: 422,
    body: { code: 'recipient_suppressed', reason },
  })
  for (const one of [guest, other])
    t.match(await send(station, one, { to: 'Nobody@Example.com' }), refused('bounced'))
  const tired = await send(station, guest, { to: 'tired@example.com' })
  t.match(tired, refused('asked'))
  t.match(tired.body, { detail: 'Its owner has unsubscribed.', until: null })
  t.match(await send(station, guest, { to: 'gone@example.com', dry_run: true }), refused('bounced'))
  t.equal(box.letters.length, 0)
  t.equal(await station.balance(guest), before)
  t.equal((await send(station, guest, { to: 'relayed@example.com' })).status, 200)

  await sql`update mail_suppressions set at = now() - interval '31 days'`
  t.equal((await send(station, guest, { to: 'nobody@example.com' })).status, 200, 'not for ever')
  t.match(await send(station, guest, { to: 'tired@example.com' }), refused('asked'))
  await createRetentionSweeper(sql).sweep()
  const kept = async () => [...(await sql`select address, smtp_status from mail_suppressions`)]
  t.strictSame(await kept(), [{ address: 'tired@example.com', smtp_status: null }])
  await createMailSuppressionStore(sql).bounced('Tired@example.com', 550)
  t.strictSame(await kept(), [{ address: 'tired@example.com', smtp_status: null }])
  t.match(await send(station, guest, { to: 'tired@example.com' }), refused('asked'), 'for good')
  await station.verify()
})

t.test('a reply about the address blocks it, any other reply does not', async (t) => {
  const answers: [string, string, number | null][] = [
    ['RCPT TO', '550 No such user', 550],
    ['RCPT TO', '553 5.1.3 bad address syntax', 553],
    ['RCPT TO', '556 5.1.10 domain takes no mail', 556],
    ['DATA', '550 5.1.1 user unknown', 550],
    ['RCPT TO', '550 5.2.1 mailbox disabled', 550],
    ['RCPT TO', '550 5.1.1 no such user, see https://example.com', 550],
    ['RCPT TO', '552 5.2.2 mailbox full', null],
    ['RCPT TO', '550 5.2.1 receives mail at a rate that prevents more', null],
    ['RCPT TO', '550 5.2.1 over quota, try later', null],
    ['RCPT TO', '550 Message rate exceeded', null],
    ['RCPT TO', '550 Too many messages', null],
    ['RCPT TO', '550 5.1.0 no such thing', null],
    ['RCPT TO', '550 5.1.1 sender rejected', null],
    ['MAIL FROM', '550 5.1.0 sender rejected', null],
    ['MAIL FROM', '550 5.1.1 unknown', null],
    ['DATA', '554 5.1.0 Message content rejected', null],
    ['DATA', '554 5.1.1 Message content rejected', null],
    ['AUTH PLAIN', '550 5.1.1 unknown', null],
    ['RCPT TO', '550 5.1.8 sender address rejected', null],
    ['RCPT TO', '554 5.7.1 relay access denied', null],
    ['RCPT TO', '550 relay not permitted', null],
    ['RCPT TO', '550 blocked, see https://example.com', null],
    ['DATA', '550 no', null],
    ['MAIL FROM', '550 no', null],
    ['RCPT TO', '450 4.2.1 try again', null],
    ['RCPT TO', '450 5.1.1 try again', null],
  ]
  for (const [command, response, status] of answers) {
    const responseCode = Number(response.slice(0, 3))
    const error = Object.assign(new Error('refused'), { command, response, responseCode })
    t.equal(unknownMailboxStatusOfSmtpError(error), status, `${command}: ${response}`)
  }
})

t.test('a message with an unknown outcome is never sent again', async (t) => {
  const server = await forgetful(t)
  const station = await startInProcessTestStation(t, { ...RICH, SMTP_URL: server.url })
  const guest = await onboardWithCash(station)
  const before = await station.balance(guest)

  server.dropsAt = 'MAIL'
  const early = await send(station, guest)
  t.equal(early.status, 502)
  t.match(early.body, { code: 'upstream_error', refunded: true })
  t.equal(server.letters, 0)

  server.dropsAt = '.'
  const key = { 'idempotency-key': 'letter-1' }
  const lost = await send(station, guest, {}, key)
  t.equal(lost.status, 503)
  t.match(lost.body, { code: 'outcome_unknown', refunded: true, cost_usdc: 0 })
  t.equal(server.letters, 1)
  const again = await send(station, guest, {}, key)
  t.match(again.body, { code: 'outcome_unknown', call_id: lost.body['call_id'] })
  t.equal(server.letters, 1, 'the key answers, nothing is sent')
  t.equal(await station.balance(guest), before)
  await station.verify()
})

/** Speaks SMTP until a command, then hangs up; `.` is the end of a letter it has read whole. */
async function forgetful(t: TeardownScope) {
  const state = { dropsAt: '', letters: 0, url: '' }
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    let data = false
    socket.write('220 test\r\n')
    createInterface(socket).on('line', (text) => {
      const command = data ? text : (text.split(/[ :]/)[0] ?? '').toUpperCase()
      if (data && text !== '.') return
      if (command === '.') state.letters += 1
      data = command === 'DATA'
      if (command === state.dropsAt) return void socket.destroy()
      socket.write(data ? '354 go on\r\n' : '250 ok\r\n')
    })
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise((done) => server.close(done))
  })
  state.url = `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`
  return state
}

t.test('a mail of an agent does not pass for one of the station', async (t) => {
  const box = await startTestMailServer(t)
  const settings = { SMTP_URL: box.url, MAIL_FROM_AGENTS: 'Mail of agents <agents@other.test>' }
  const station = await startInProcessTestStation(t, settings)
  const poor = await station.onboard()
  const promo = await send(station, poor)
  t.match(promo, { status: 402, body: { code: 'cash_required', cash_usdc: 0 } })
  t.match(promo.body['detail'], /promotional credits do not pay/)
  const guest = await onboardWithCash(station)
  const link = 'https://gas.evil.example/owner/?#link=x'
  for (const [fields, pointer] of [
    [{ subject: 'Re: Confirm your address' }, '/subject'],
    [{ body: `This link signs you in: ${link}` }, '/body'],
    [{ body: 'All of it: gas.test/owner' }, '/body'],
  ] as const)
    t.match(await send(station, guest, fields), { status: 400, body: { errors: [{ pointer }] } })
  t.equal(box.letters.length, 0)
  t.equal((await send(station, guest, { body: `Bye\n${'\n'.repeat(200)}` })).status, 200)
  t.match(box.letters[0], { from: 'agents@other.test', raw: new RegExp(guest.id) })
  const hidden = '=?UTF-8?Q?Sign_in?='
  t.equal((await send(station, guest, { subject: hidden })).status, 200)
  t.equal(box.letters[1]?.subject, hidden.replace('=?', '= ?'), 'nothing that a reader decodes')
  await station.verify()
})
