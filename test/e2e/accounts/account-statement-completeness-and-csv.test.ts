import { DAILY_BONUS_LIMIT } from '../../../domain/pricing.ts'
import t from 'tap'
import { openCreditDrop } from '../../../app/cli/operator/cli-credit-drops.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../../core/money.ts'
import { topUpFleetCommand } from '../../../payments/commands/fleet-commands.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import {
  assertRunningBalances,
  assertAccountStatementMatchesLedger,
  readWholeAccountStatement,
  type AccountStatementMovementFields,
} from '../../support/ledger/account-statement-assertions.ts'

const TOOL = 'hive_trending'
const PRICE = 0.005

const kindsOf = (lines: readonly AccountStatementMovementFields[]): string[] => [
  ...new Set(lines.map(({ kind }) => kind)),
]
const find = (
  lines: readonly AccountStatementMovementFields[],
  kind: string,
): AccountStatementMovementFields | undefined => lines.find((line) => line.kind === kind)

t.test('the statement contains every kind of movement and adds up', async (t) => {
  const main = await startInProcessTestStation(t)
  const post = async ({ key }: TestAgent, path: string, json: object = {}) => {
    const answer = await main.ask('POST', path, { key, json })
    if (answer.status >= 300) throw new Error(`${path} answered ${answer.status}: ${answer.text}`)
    return answer.body
  }
  const ann = await main.onboard()
  const code = String((await post(ann, '/api/referrals/create'))['referral_code'])
  const join = { name: 'friend', referral_code: code }
  const joined = (await main.ask('POST', '/api/onboard', { json: join })).body
  const bob = { id: joined.agent_id, key: joined.api_key }
  const deposit = await insertArrivedDeposit(main, ann.id, 5)
  await insertArrivedDeposit(main, bob.id, 0.4)
  await insertArrivedDeposit(main, bob.id, 9.6)

  await main.call(ann, TOOL)
  await main.call(bob, TOOL, {}, { 'x-ghost-mode': 'stealth' })
  await main.call(ann, 'code_sandbox', { code: 'throw new Error()', language: 'none' })
  await post(ann, '/api/refuel/stream', { tool: TOOL })
  await post(ann, '/api/pipeline', { calls: [{ tool: TOOL }, { tool: TOOL }] })
  await post(ann, '/api/signal/publish', { channel: 'news', type: 'insight', payload: {} })
  const sent = await post(ann, '/api/agent/send', {
    to_agent_id: bob.id,
    amount_usdc: 1.23,
    memo: '=1+1',
  })
  const tip = await post(bob, '/api/tip', { to_agent_id: ann.id, amount_usdc: 0.33 })
  const bounty = { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.5 }
  const claimed = String((await post(bob, '/api/bounties', bounty))['bounty_id'])
  const ended = String((await post(bob, '/api/bounties', bounty))['bounty_id'])
  await post(ann, `/api/bounties/${claimed}/claim`, { content: 'done' })
  await main.ask('DELETE', `/api/bounties/${ended}`, { key: bob.key })
  const [drop] = await openCreditDrop(main.sql)
  await post(ann, '/api/radio-drop/redeem', { code: drop?.code })
  const strategy = String(
    (await post(ann, '/api/strategies', { title: 'x', description: 'x', params: {} }))['id'],
  )
  await post(bob, `/api/strategies/${strategy}/fork`)
  await post(bob, '/api/packs/install', { slug: 'iagent-core' })
  await main.ask('GET', '/api/referrals/me', { key: ann.key })

  const [mine, theirs] = [
    await assertAccountStatementMatchesLedger(t, main, ann),
    await assertAccountStatementMatchesLedger(t, main, bob),
  ]
  t.strictSame(
    kindsOf(mine).sort(),
    [
      'bounty_payout',
      'call',
      'deposit',
      'deposit_bonus',
      'drop',
      'hold',
      'referral_reward',
      'referral_share',
      'send',
      'share',
      'starter_credits',
      'tip',
    ],
    'what ann did and got',
  )
  t.match(find(mine, 'deposit'), { amount_usdc: 5, cash_usdc: 5, reference: deposit })
  t.match(find(mine, 'send'), {
    amount_usdc: -1.23,
    agent_id: bob.id,
    memo: '=1+1',
    reference: sent['transfer_id'],
    call_id: null,
  })
  t.match(find(theirs, 'tip'), { amount_usdc: -0.33, fee_usdc: 0.0165, agent_id: ann.id })
  t.match(find(mine, 'tip'), {
    amount_usdc: 0.3135,
    fee_usdc: 0,
    agent_id: bob.id,
    reference: tip['transfer_id'],
  })
  t.equal(theirs.filter(({ kind }) => kind === 'bounty_escrow').length, 2)
  t.match(find(theirs, 'bounty_refund'), { amount_usdc: 0.5, reference: ended })
  t.match(find(mine, 'bounty_payout'), { amount_usdc: 0.5, reference: claimed })
  t.match(find(mine, 'share'), { amount_usdc: 0.02, agent_id: null, call_id: null, tool: null })
  t.match(
    theirs.find(({ tool }) => tool === 'strategy_fork'),
    { kind: 'call', amount_usdc: -0.03 },
  )
  t.match(
    theirs.find(({ tool }) => tool === TOOL),
    { kind: 'call', amount_usdc: -PRICE },
    'a private call is in the statement of its own agent',
  )
  await main.verify()
})

t.test('held and lent credits are listed as such', async (t) => {
  const main = await startInProcessTestStation(t)
  const owner = await main.onboard()
  const member = await main.onboard(0.01)
  const made = await main.ask('POST', '/api/fleet/create', {
    key: owner.key,
    json: { name: 'crew' },
  })
  const id = String(made.body['fleet_id'])
  const asked = { fleet_id: id, agent_id: member.id, agent_key: member.key }
  await main.ask('POST', '/api/fleet/add-agent', { key: owner.key, json: asked })
  const transfers = [{ logIndex: 0, amount: fromUsdc(2) }]
  await main.station.actors.ask(id, topUpFleetCommand, {
    tx: `0x${'1'.repeat(64)}`,
    transfers,
    bonusLeft: DAILY_BONUS_LIMIT,
  })
  for (let call = 0; call < 4; call += 1) await main.call(member, TOOL)

  const lines = await assertAccountStatementMatchesLedger(t, main, member)
  const draw = find(lines, 'fleet_draw')
  t.match(draw, { amount_usdc: PRICE, held_usdc: PRICE, promo_usdc: 0, reference: id })
  const paid = lines.find(({ call_id: call, kind }) => kind === 'call' && call === draw?.call_id)
  t.match(paid, { amount_usdc: -PRICE, held_usdc: -PRICE, cash_usdc: 0, promo_usdc: 0 })

  const streamed = await main.ask('POST', '/api/refuel/stream', {
    key: owner.key,
    json: { tool: TOOL },
  })
  t.equal(streamed.status, 200)
  const [end, hold] = await assertAccountStatementMatchesLedger(t, main, owner)
  t.match(hold, { kind: 'hold', amount_usdc: 0, promo_usdc: -PRICE, held_usdc: PRICE, tool: TOOL })
  t.match(end, { kind: 'call', amount_usdc: -PRICE, promo_usdc: 0, held_usdc: -PRICE })
  await main.verify()
})

t.test('pagination returns each movement once while new ones arrive', async (t) => {
  const main = await startInProcessTestStation(t)
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  await insertArrivedDeposit(main, ann.id, 5)
  await insertArrivedDeposit(main, bob.id, 5)
  // Nothing was asked of the agent since: the statement itself credits what has arrived.
  const begin = await assertAccountStatementMatchesLedger(t, main, ann)
  t.match(find(begin, 'deposit'), { cash_usdc: 5 }, 'an arrived deposit is listed at once')
  const act = () =>
    Promise.all([
      main.call(ann, TOOL),
      main.ask('POST', '/api/agent/send', {
        key: bob.key,
        json: { to_agent_id: ann.id, amount_usdc: 0.01 },
      }),
      main.ask('POST', '/api/tip', {
        key: ann.key,
        json: { to_agent_id: bob.id, amount_usdc: 0.01 },
      }),
    ])
  for (let round = 0; round < 10; round += 1) await act()
  const first = await readWholeAccountStatement(main, ann, 200)
  let running = true
  const busy = (async () => {
    while (running) await act()
  })()
  const walks = await Promise.all(
    [1, 3, 4].map((limit) => readWholeAccountStatement(main, ann, limit)),
  )
  running = false
  await busy
  for (const lines of walks) {
    assertRunningBalances(t, lines)
    const ids = lines.map(({ movement_id: id }) => id)
    t.equal(new Set(ids).size, ids.length, 'each movement once')
    t.strictSame([...ids].sort().reverse(), ids, 'in one order')
    const known = new Set(ids)
    t.ok(
      first.every(({ movement_id: id }) => known.has(id)),
      'all that was there before is in it',
    )
  }
  await assertAccountStatementMatchesLedger(t, main, ann)
  await main.verify()
})

t.test('a late commit behind the cursor does not change a pagination in progress', async (t) => {
  const main = await startInProcessTestStation(t)
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  for (let call = 0; call < 3; call += 1) await main.call(ann, TOOL)
  const before = await readWholeAccountStatement(main, ann, 10)
  const [, , late] = before
  let planted = false
  const lines = await readWholeAccountStatement(main, ann, 1, '', async () => {
    if (planted) return
    planted = true
    // A transfer that was stamped before the oldest call, and commits only now.
    const at = new Date(Date.parse(String(late?.created_at)) - 2_000)
    const [id, transfer] = [newUuidV7(at.getTime()), newUuidV7(at.getTime())]
    const old = id.replace(/^.{8}-.{4}/, (late?.movement_id ?? '').slice(0, 13)).replace(/^./, '0')
    await main.sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, at)
      values (${old}, ${bob.id}, ${`agent:${bob.id}:promo`}, ${`agent:${ann.id}:promo`}, 10000, 'send', ${transfer}, ${at})`
  })
  t.strictSame(lines, before)
})

t.test('a time range is returned with the balances of its end', async (t) => {
  const main = await startInProcessTestStation(t)
  const ann = await main.onboard()
  for (let call = 0; call < 4; call += 1) await main.call(ann, TOOL)
  const all = await readWholeAccountStatement(main, ann, 50)
  const [last, second] = all
  const until = `&to=${last?.created_at}`
  t.strictSame(await readWholeAccountStatement(main, ann, 1, until), all.slice(1), 'to is excluded')
  const since = `&from=${second?.created_at}`
  t.strictSame(
    await readWholeAccountStatement(main, ann, 1, since),
    all.slice(0, 2),
    'from is included',
  )
  const today = String(last?.created_at).slice(0, 10)
  t.strictSame(
    await readWholeAccountStatement(main, ann, 2, `&from=${today}&to=${today}`),
    all,
    'a day is whole',
  )
  const yesterday = new Date(Date.parse(today) - 1).toISOString().slice(0, 10)
  t.strictSame(await readWholeAccountStatement(main, ann, 2, `&to=${yesterday}`), [])
  const ask = (query: string) => main.ask('GET', `/api/agent/statement?${query}`, { key: ann.key })
  t.match(await ask('from=2026-02-30'), { status: 400, body: { errors: [{ pointer: '/from' }] } })
  t.equal((await readWholeAccountStatement(main, ann, 50, '&to=9999-12-31')).length, all.length)
  t.match(await ask('from=9999-12-31T23:59:59-12:00'), { status: 400 }, 'a year of five digits')
  t.match(await ask('from=2026-03-02&to=2026-03-01'), {
    status: 400,
    body: { errors: [{ pointer: '/to' }] },
  })
  const { body } = await ask('limit=1')
  const cursor = String(body['next_cursor'])
  const wrong = { status: 400, body: { errors: [{ pointer: '/cursor' }] } }
  t.match(await ask(`cursor=${cursor}&from=${today}`), wrong, 'a cursor belongs to its span')
  const bob = await main.onboard()
  const others = await main.ask('GET', `/api/agent/statement?cursor=${cursor}`, { key: bob.key })
  t.match(others, wrong, 'and to its agent')
  const text = Buffer.from(cursor, 'base64url').toString('utf8')
  const [id, from, to, at, snapshot, ...amounts] = text.split(' ')
  const late = 'ffffffff-ffff-7fff-bfff-ffffffffffff'
  for (const [path, words] of [
    ['statement', [id, from, to, late, snapshot, ...amounts]],
    ['transfers', [late]],
  ] as const) {
    const forged = Buffer.from(words.join(' '), 'utf8').toString('base64url')
    const answer = await main.ask('GET', `/api/agent/${path}?cursor=${forged}`, { key: ann.key })
    t.equal(answer.status, 200, `${path} after the last id there may be`)
  }
  for (const spoilt of [
    '9:5:',
    '0:5:',
    '5:9:9',
    '5:9:8,7',
    '5:9',
    'x',
    '99999999999999999999:1:',
  ]) {
    const bad = [id, from, to, at, spoilt, ...amounts].join(' ')
    const encoded = Buffer.from(bad, 'utf8').toString('base64url')
    t.match(await ask(`cursor=${encoded}`), wrong, `${spoilt} in place of ${snapshot}`)
  }
  const words = text.split(' ').slice(0, -1)
  for (const [lineage, answer] of [
    [[], { status: 200 }],
    [['0'.repeat(16)], { status: 410, body: { code: 'cursor_of_another_history' } }],
  ] as const) {
    const encoded = Buffer.from([...words, ...lineage].join(' '), 'utf8').toString('base64url')
    t.match(
      await ask(`cursor=${encoded}`),
      answer,
      `of the history ${lineage.join('') || 'that names none'}`,
    )
  }
})

t.test('the CSV is one file that a spreadsheet reads as data', async (t) => {
  const main = await startInProcessTestStation(t)
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  await insertArrivedDeposit(main, ann.id, 5)
  for (const memo of ['=cmd|x', '+1', '-1', '@x', 'plain, "quoted"', ';semi']) {
    const json = { to_agent_id: bob.id, amount_usdc: 0.01, memo }
    const sent = await main.ask('POST', '/api/agent/send', { key: ann.key, json })
    t.equal(sent.status, 200)
  }
  const answer = await main.ask('GET', '/api/agent/statement?format=csv', { key: ann.key })
  t.match(answer.headers['content-type'], /^text\/csv; charset=utf-8/)
  t.match(answer.headers['content-disposition'], /^attachment; filename="statement-.+\.csv"$/)
  const records = parseCsv(answer.text)
  const [header = [], ...rows] = records
  const lines = await readWholeAccountStatement(main, ann, 50)
  t.equal(rows.length, lines.length)
  t.ok(rows.every((row) => row.length === header.length))
  const column = (name: string) => rows.map((row) => row[header.indexOf(name)])
  t.strictSame(
    column('amount_usdc').map(Number),
    lines.map((line) => line.amount_usdc),
  )
  t.ok(column('amount_usdc').includes('-0.01'), 'an amount is a number, below zero too')
  t.strictSame(
    column('memo').filter((memo) => memo !== ''),
    [';semi', 'plain, "quoted"', "'@x", "'-1", "'+1", "'=cmd|x"],
  )
})

/** RFC 4180, by the letter. */
function parseCsv(text: string): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  const cell = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/gy
  for (let match = cell.exec(text); match !== null; match = cell.exec(text)) {
    row.push(match[1] === undefined ? (match[2] ?? '') : match[1].replaceAll('""', '"'))
    if (match[3] === ',') continue
    rows.push(row)
    row = []
  }
  return rows
}

t.test(
  'a tip is listed as one transfer with its fee, on one page, with correct sums',
  async (t) => {
    const main = await startInProcessTestStation(t)
    const [ann, bob] = [await main.onboard(), await main.onboard()]
    await insertArrivedDeposit(main, ann.id, 1)
    const pay = (path: string, from: TestAgent, to: TestAgent, usdc: number, more: object = {}) =>
      main.ask('POST', path, {
        key: from.key,
        json: { to_agent_id: to.id, amount_usdc: usdc, ...more },
      })
    const sent = await pay('/api/agent/send', ann, bob, 0.2)
    // Takes both parts of the purse: four rows of the ledger.
    const tip = await pay('/api/tip', ann, bob, 1, { note: 'thanks' })
    const back = await pay('/api/tip', bob, ann, 0.1)
    interface Row {
      readonly transfer_id: string
    }
    const walk = async ({ key }: TestAgent, limit: number) => {
      const rows: Row[] = []
      let cursor: unknown = ''
      for (; cursor !== null;) {
        const at = cursor === '' ? '' : `&cursor=${cursor as string}`
        const { body } = await main.ask('GET', `/api/agent/transfers?limit=${limit}${at}`, { key })
        rows.push(...(body['transfers'] as Row[]))
        cursor = body['next_cursor']
      }
      return rows
    }
    const [first, second, third] = [back, tip, sent].map(({ body }) => body['transfer_id'])
    const mine = await walk(ann, 1)
    t.match(mine, [
      { id: first, direction: 'received', amount_usdc: 0.1, fee_usdc: 0.005, received_usdc: 0.095 },
      { id: second, direction: 'sent', amount_usdc: 1, fee_usdc: 0.05, received_usdc: 0.95 },
      { id: third, direction: 'sent', amount_usdc: 0.2, fee_usdc: 0, received_usdc: 0.2 },
    ])
    t.equal(mine.length, 3)
    t.match(mine[1], { kind: 'tip', memo: 'thanks', agent_id: bob.id, transfer_id: second })
    t.strictSame(await walk(ann, 2), mine)
    t.match(
      (await walk(bob, 1)).map(({ transfer_id: id }) => id),
      [first, second, third],
    )
    const { body } = await main.ask('GET', '/api/agent/transfers', { key: ann.key })
    t.match(body, { count: 3, sent_usdc: 1.2, received_usdc: 0.095, net_usdc: -1.105 })
  },
)
