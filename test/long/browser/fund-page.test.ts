import { execFile } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import QRCode from 'qrcode'
import t from 'tap'
import { compactHtml } from '../../support/http/compact-html.ts'
import type { TestHttpClient } from '../../support/http/test-http-client.ts'
import { STRANGE_AMOUNTS } from '../../support/http/strange-amounts.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { startTestStationWithPaymentChain } from '../../support/payments/test-station-with-payment-chain.ts'
import {
  requestUntilReplyMatches,
  usdcToMicrosBigint,
} from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

const run = promisify(execFile)
const CHROMIUM = '/usr/bin/chromium'
const HTML = { accept: 'text/html,application/xhtml+xml' }
const USDC = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'

/** A page without the white space between its parts. */
async function openPage({ ask }: { readonly ask: TestHttpClient }, path: string) {
  const page = await ask('GET', path, { headers: HTML })
  return { ...page, text: compactHtml(page.text) }
}

/** The dark modules of a code as the SVG draws them: `M` and `m` move, `h` draws a row. */
function modulesOf(svg: string): string {
  const [, path = ''] = /stroke="#000000" d="([^"]+)"/.exec(svg) ?? []
  let [x, y] = [0, 0]
  const dark: string[] = []
  for (const [, move = '', numbers = ''] of path.matchAll(/([MmhH])([^MmhH]*)/g)) {
    const [a = 0, b = 0] = numbers.trim().split(/[ ,]+/).map(Number)
    if (move === 'M') [x, y] = [a, b]
    else if (move === 'm') [x, y] = [x + a, y + b]
    else for (let at = 0; at < a; at += 1, x += 1) dark.push(`${x},${Math.floor(y)}`)
  }
  return dark.sort().join(' ')
}

/** The same for a text, by the encoder's own table of modules. */
function modulesFor(text: string, margin: number): string {
  const { modules } = QRCode.create(text, { errorCorrectionLevel: 'M' })
  const dark = Array.from(modules.data).flatMap((bit, at) =>
    bit === 0 ? [] : [`${(at % modules.size) + margin},${Math.floor(at / modules.size) + margin}`],
  )
  return dark.sort().join(' ')
}

t.test('the page shows address, codes and amounts without external assets', async (t) => {
  const { main } = await startTestStationWithPaymentChain(t)
  const her = await main.onboard()
  const { status, headers, text } = await openPage(main, `/fund/${her.id}`)
  const wallet = await main.ask('GET', '/api/wallet', { key: her.key })
  const address = String(wallet.body['wallet_address'])
  t.equal(status, 200)
  t.match(headers, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' })
  t.match(text, `<code id="address">${address}</code>`)
  t.ok(text.indexOf('Open in a wallet') < text.indexOf('<svg'), 'the wallet comes before its code')
  const codes = [...text.matchAll(/<svg .*?<\/svg>/gs)].map(([svg]) => svg)
  const uri = `ethereum:${USDC}@8453/transfer?address=${address}`
  const uris = [
    uri,
    ...[1, 5, 20, 50].map((amount) => `${uri}&uint256=${usdcToMicrosBigint(amount)}`),
  ]
  t.equal(codes.length, uris.length)
  uris.forEach((wanted, at) => {
    t.equal(modulesOf(codes[at] ?? ''), modulesFor(wanted, 3), `code ${at} says ${wanted}`)
    t.ok(text.includes(`href="${wanted.replaceAll('&', '&amp;')}"`))
  })
  t.match(text, 'The first deposit of an owner brings 25 % more')

  t.notMatch(text, /(src|href|action)="(https?:)?\/\//, 'nothing is loaded from elsewhere')
  t.notMatch(text, / (on\w+|style)=/, 'no code and no style in attributes')
  const policy = String(headers['content-security-policy'])
  t.match(policy, /default-src 'none'; .*frame-ancestors 'none'/)
  t.notMatch(policy, /unsafe|\*|https?:/)
})

t.test('a visitor enters an amount of their own', async (t) => {
  const { main } = await startTestStationWithPaymentChain(t)
  const her = await main.onboard()
  const open = async (amount: string) =>
    (await openPage(main, `/fund/${her.id}?amount=${amount}`)).text
  const own = await open('7.5')
  t.match(own, '<input type="radio" name="amount" id="a5" checked><label for="a5"><b>7.5 USDC</b>')
  t.match(own, '&amp;uint256=7500000">Open in a wallet: 7.5 USDC</a>')
  t.match(await open('20'), '<input type="radio" name="amount" id="a3" checked>')
  for (const wrong of ['0', '-1', '1e9', '0.0000001', 'x', '%3Cscript%3E', 'NaN', ''])
    t.notMatch(await open(wrong), /id="a5"|<script>/, wrong)
  t.match(await open('7%2C5'), 'Open in a wallet: 7.5 USDC')
  t.match(await open('1%2C000'), '1,000 can mean 1 or 1000: type 1.00 or 1000.')
  for (const [text, usdc] of STRANGE_AMOUNTS)
    if (usdc === null && text.length <= 20)
      t.match(await open(encodeURIComponent(text)), /id="own-fault" role="alert"/, text)
})

t.test('an agent name is escaped in the page', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const name = `<script>alert("1")</script>'&`
  await main.sql`update agents set name = ${name} where agent_id = ${her.id}`
  const { text } = await openPage(main, `/fund/${her.id}`)
  t.notMatch(text, '<script>alert')
  t.match(text, '<h1>Fund &lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;</h1>')
  t.match(text, '<title>Fund &lt;script&gt;')
})

t.test('without a chain the page reports it and shows no payment', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const { status, text } = await openPage(main, `/fund/${her.id}`)
  t.equal(status, 200)
  t.match(text, 'Do not send anything')
  t.notMatch(text, '<svg')
  t.notMatch(text, 'ethereum:')
  t.notMatch(text, '0x', 'no address and no token')
  t.match(text, `<code>gas grant ${her.id} &lt;usdc&gt; --note &lt;why&gt;</code>`)
  t.match(await main.ask('GET', `/fund/${her.id}/status`), { body: { deposits: 'off' } })
})

t.test('an unknown agent has no page', async (t) => {
  const main = await startInProcessTestStation(t)
  for (const id of ['018f6f7a-0000-7000-8000-000000000000', 'nobody', '%3Cscript%3E']) {
    const page = await openPage(main, `/fund/${id}`)
    t.match(page, { status: 404, headers: { 'content-type': /^text\/html/, vary: /Accept/i } })
    t.match(page.text, 'There is no such agent')
    t.notMatch(page.text, id)
    const machine = await main.ask('GET', `/fund/${id}`)
    t.match(machine, { status: 404, body: { code: 'agent_not_found' } })
    t.match(await main.ask('GET', `/fund/${id}/status`), { status: 404 })
  }
})

t.test('the status follows a deposit and reveals no balance', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const her = await main.onboard(0)
  const status = () => main.ask('GET', `/fund/${her.id}/status`)
  const before = await status()
  t.match(before, { status: 200, headers: { 'cache-control': 'no-store' } })
  t.match(before.body, { deposits: 'on', tier: 'empty', last_deposit: null })
  await till.mintUsdc(String(before.body['wallet_address']), usdcToMicrosBigint(3))
  await till.base.mine(6)
  const { body, text } = await requestUntilReplyMatches(
    status,
    ({ body }) => body['tier'] === 'healthy',
  )
  t.match(body, { last_deposit: { state: /^(provisional|final)$/, at: /Z$/ } })
  t.notMatch(text, /balance_usdc|cash|promo/)
  const page = await openPage(main, `/fund/${her.id}`)
  t.match(
    page.text,
    /<dd id="deposit" class="lines">3 USDC credited.*, transaction <a href="https:\/\/basescan.org\/tx\/(0x[0-9a-f]{64})" rel="noreferrer">\1<\/a>/,
  )
  t.match(page.text, 'The first deposit of an owner', 'whose owner had which bonus is not public')
})

const missing = existsSync(CHROMIUM) ? false : `${CHROMIUM} is not installed`
t.test('a browser renders the page on a phone and on a desktop', { skip: missing }, async (t) => {
  const { main } = await startTestStationWithPaymentChain(t)
  const her = await main.onboard()
  const folder = t.testdir({})
  const sizes: [string, number, number][] = [
    ['phone', 390, 1700],
    ['desk', 1280, 1200],
  ]
  for (const [name, width, height] of sizes) {
    const shot = join(folder, `${name}.png`)
    const { stderr } = await run(CHROMIUM, [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--hide-scrollbars',
      '--enable-logging=stderr',
      '--v=0',
      `--user-data-dir=${join(folder, `profile-${name}`)}`,
      `--window-size=${width},${height}`,
      `--screenshot=${shot}`,
      `${main.url}/fund/${her.id}`,
    ])
    t.ok(statSync(shot).size > 10_000, name)
    t.notMatch(stderr, /Content Security Policy|Uncaught|CONSOLE.*error/i)
  }
})
