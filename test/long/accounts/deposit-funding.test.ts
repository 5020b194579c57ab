import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text as readAll } from 'node:stream/consumers'
import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import {
  paymentSignatureHeader,
  startTestStationWithPaymentChain,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  requestUntilReplyMatches,
  usdcToMicrosBigint,
} from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

const HTML = { accept: 'text/html' }
const joined = (main: InProcessStation, fields: object = {}) =>
  main.ask('POST', '/api/onboard', { json: { name: 'tester', ...fields } })

t.test('a station without deposits names no deposit address', async (t) => {
  const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '0.052' })
  const { body } = await joined(main, { owner_email: 'owner@example.com' })
  const [id, key] = [String(body['agent_id']), String(body['api_key'])]
  t.match(body, { deposits: 'off', funding_path: null })
  const sentence = `This station takes no deposits: send nothing. Its operator can give this agent credits with \`gas grant ${id} <usdc> --note <why>\`.`
  t.equal(body['tell_your_operator'], sentence)
  const advice = await main.ask('POST', '/api/agent/recommend', { key, json: {} })
  t.ok(String(advice.body['message']).endsWith(sentence), 'and so does the advice to its owner')

  t.match(await main.call({ id, key }, 'hive_trending'), { status: 200 })
  const remedy = { action: 'ask_operator', command: `gas grant ${id} <usdc> --note <why>` }
  const refused = await main.call({ id, key }, 'agent_evolve')
  t.match(refused, { status: 402, body: { code: 'payment_required', fund_url: /\/fund\// } })
  t.strictSame(refused.body['remedy'], remedy)
  const tip = { to_agent_id: id, amount_usdc: 1 }
  const friend = await main.onboard()
  const poor = await main.ask('POST', '/api/agent/send', { key: friend.key, json: tip })
  t.match(poor, { status: 402, body: { remedy: { action: 'ask_operator' } } })
  const batch = await main.ask('POST', '/api/pipeline', {
    key,
    json: { calls: [{ tool: 'agent_evolve' }] },
  })
  t.match(batch.body, { results: [{ ok: false, error: { remedy } }] })

  const mailed = await requestUntilReplyMatches(
    async () => main.sql<{ body: string }[]>`
      select body from alerts where agent_id = ${id} and topic like 'low_balance%'`,
    (rows) => rows.length > 0,
  )
  for (const { body: letter } of mailed) {
    t.ok(letter.includes(sentence))
    t.notMatch(letter, /send USDC|Fund it here/)
  }
})

t.test('a station with deposits names the deposit address in the same messages', async (t) => {
  const { main } = await startTestStationWithPaymentChain(t, { STARTER_CREDITS_USDC: '0' })
  const { body } = await joined(main)
  const [id, key] = [String(body['agent_id']), String(body['api_key'])]
  const address = String(body['wallet_address'])
  t.match(body, { deposits: 'on', funding_path: { address } })
  t.match(body['tell_your_operator'], `send USDC on Base (chain id 8453) to ${address}`)
  const refused = await main.call({ id, key }, 'hive_trending')
  const url = `http://gas.test/fund/${id}`
  t.match(refused.body, { remedy: { action: 'fund', method: 'GET', url } })
})

t.test('a deposit below the minimum is shown and credited with the next one', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t, { STARTER_CREDITS_USDC: '0' })
  const her = await main.onboard()
  const status = async () => (await main.ask('GET', `/fund/${her.id}/status`)).body
  const deposits = async () => {
    const { body } = await main.ask('GET', '/api/wallet/deposits', { key: her.key })
    return body['deposits'] as Record<string, unknown>[]
  }
  const lines = (body: Record<string, unknown>) =>
    (body['display'] as Record<string, string>)['deposits']
  const address = String((await status())['wallet_address'])

  await till.mintUsdc(address, usdcToMicrosBigint(0.4))
  const required = LIMITS.depositConfirmations
  for (const confirmations of [1, required - 2]) {
    if (confirmations > 1) await till.base.mine(confirmations - 1)
    const seen = await requestUntilReplyMatches(status, (body) =>
      String(lines(body)).startsWith(`0.4 USDC seen, ${confirmations} of`),
    )
    t.match(seen, {
      tier: 'empty',
      last_deposit: null,
      incoming: [
        { amount_usdc: 0.4, tx_hash: /^0x/, confirmations, required_confirmations: required },
      ],
    })
  }
  await till.base.mine(2)
  const waiting = await requestUntilReplyMatches(status, (body) => body['pending_usdc'] === 0.4)
  t.match(waiting, { incoming: [], tier: 'empty', last_deposit: { credited_at: null } })
  t.equal(lines(waiting), '0.4 of 1 USDC: credited when the sum reaches 1 USDC')
  t.match(await deposits(), [{ amount_usdc: 0.4, credited_at: null, bonus_usdc: 0 }])

  await till.mintUsdc(address, usdcToMicrosBigint(0.7))
  await till.base.mine(required)
  const credited = await requestUntilReplyMatches(status, (body) => body['tier'] === 'healthy')
  t.match(credited, { pending_usdc: 0 })
  t.notOk('first_deposit_bonus' in credited, 'it would tell which agents have one owner')
  const [second, first] = await deposits()
  t.match(second, { amount_usdc: 0.7, credited_at: /Z$/, bonus_usdc: 0.275 })
  t.equal(first?.['credited_at'], second?.['credited_at'], 'the second has credited both')
  t.match(
    lines(credited),
    new RegExp(`^0\\.7 USDC credited.*, transaction ${String(second?.['tx_hash'])}$`),
  )
  const page = await main.ask('GET', `/fund/${her.id}`, { headers: HTML })
  const text = page.text.replace(/<[^>]+>/g, '')
  t.ok(text.includes(String(lines(credited))), 'the page says the same')

  await till.mintUsdc(address, usdcToMicrosBigint(0.3))
  await till.base.mine(required)
  await requestUntilReplyMatches(status, (body) => body['pending_usdc'] === 0.3)
  const [, again] = await deposits()
  t.equal(again?.['credited_at'], second?.['credited_at'], 'what was credited stays so')
  await main.verify()
})

t.test('a top-up returns the bonus and the credits it released', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t, { STARTER_CREDITS_USDC: '0' })
  const her = await main.onboard()
  const { body } = await main.ask('GET', '/api/wallet', { key: her.key })
  await till.mintUsdc(String(body['wallet_address']), usdcToMicrosBigint(0.4))
  await till.base.mine(LIMITS.depositConfirmations)
  const wallet = () => main.ask('GET', '/api/wallet/status', { key: her.key })
  await requestUntilReplyMatches(wallet, ({ body: { pending_usdc } }) => pending_usdc === 0.4)
  const payer = await till.createPayer(usdcToMicrosBigint(5))
  const buy = async (amount: number) =>
    main.ask('POST', '/api/credits/topup', {
      key: her.key,
      json: { amount_usdc: amount },
      headers: await paymentSignatureHeader(payer, till, usdcToMicrosBigint(amount)),
    })
  t.match(await buy(2), {
    status: 200,
    body: { credited_usdc: 2, bonus_usdc: 0.6, released_usdc: 0.4, balance_usdc: 3 },
  })
  t.match(await buy(1), {
    status: 200,
    body: { credited_usdc: 1, bonus_usdc: 0, released_usdc: 0, balance_usdc: 4 },
  })
  await main.verify()
})

t.test('a token other than USDC ends the start with one line', async (t) => {
  const till = await startTestPaymentChain(t)
  const { settings } = await createTestDatabase(t)
  const station = spawn(process.execPath, serviceProgramArgs('main'), {
    cwd: REPOSITORY_ROOT,
    env: {
      PATH: process.env['PATH'],
      PORT: '0',
      REDIS: 'none',
      DATABASE_URL: settings.databaseUrl,
      DATA_DIR: createStationDataDir(t),
      ...till.settings,
      USDC_ADDRESS_BASE: till.treasury,
    },
  })
  const [said, [code]] = await Promise.all([readAll(station.stderr), once(station, 'exit')])
  t.equal(code, 78)
  t.equal(said.match(/USDC_ADDRESS_BASE/g)?.length, 1, said)
  t.notMatch(said, /\n +at /, 'no stack')
})

t.test('health names the setting that a rail lacks', async (t) => {
  const till = await startTestPaymentChain(t)
  const { SETTLER_PRIVATE_KEY: _left, ...settings } = till.settings
  const main = await startInProcessTestStation(t, settings)
  const { body } = await main.ask('GET', '/api/network/health')
  t.match(JSON.stringify(body), 'off: SETTLER_PRIVATE_KEY missing')
})
