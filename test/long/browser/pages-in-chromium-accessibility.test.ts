import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import t from 'tap'
import {
  launchChromium,
  skipWithoutChromium,
} from '../../support/inspector/open-inspector-in-chromium.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { findFreePort } from '../../../chaos/free-port.ts'

/** Every page in Chromium: accessible in both themes and four widths, without errors or other hosts. */

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const WIDTHS = [390, 768, 1280, 1600] as const
const THEMES = ['light', 'dark'] as const
/** Where a screenshot of each page, width and theme goes, to be looked at; none are made without it. */
const FOLDER = process.env['PAGES_SCREENSHOTS']
const ALL_RULES: readonly string[] = []
const COLOR_RULES: readonly string[] = ['color-contrast', 'link-in-text-block']
const SLOWDOWN = 4
const HOSTILE = `<script>alert("1")</script>'&<img src=x onerror=alert(1)>`
/** What the library of the reference leaves; nothing of it is critical. */
const LEFT_BY_LIBRARY = [
  'color-contrast',
  'landmark-one-main',
  'landmark-unique',
  'region',
  'scrollable-region-focusable',
  'heading-order',
  'link-in-text-block',
]

const FIRST_PAINT = `new Promise((resolve) =>
  new PerformanceObserver((list) => {
    const found = list.getEntriesByName('first-contentful-paint')[0]
    if (found !== undefined) resolve(found.startTime)
  }).observe({ type: 'paint', buffered: true }))`

interface AxeResult {
  readonly violations: readonly {
    readonly id: string
    readonly impact: string
    readonly nodes: readonly { readonly target: readonly string[] }[]
  }[]
}

interface OpenPage {
  readonly page: Page
  readonly faults: string[]
  close(): Promise<void>
}

async function open(
  browser: Browser,
  url: string,
  path: string,
  { width, theme }: { width: number; theme: 'light' | 'dark' },
): Promise<OpenPage> {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: theme,
    bypassCSP: false,
  })
  const page = await context.newPage()
  const faults: string[] = []
  page.on('console', (message) => {
    // Chromium logs the status of an error page itself.
    if (message.type() === 'error' && !/status of 404/.test(message.text()))
      faults.push(message.text())
  })
  page.on('pageerror', (error) => faults.push(String(error)))
  page.on('dialog', (dialog) => {
    faults.push(`dialog ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:'))
      faults.push(`request to ${request.url()}`)
  })
  await page.goto(url + path)
  return { page, faults, close: () => context.close() }
}

/** Loads axe in a world of its own: the policy of a page allows no script but its own. */
async function axeOf(page: Page): Promise<(rules?: readonly string[]) => Promise<string[]>> {
  const session = await page.context().newCDPSession(page)
  const { frameTree } = await session.send('Page.getFrameTree')
  const { executionContextId } = await session.send('Page.createIsolatedWorld', {
    frameId: frameTree.frame.id,
  })
  const evaluate = async (expression: string) =>
    session.send('Runtime.evaluate', {
      expression,
      contextId: executionContextId,
      awaitPromise: true,
      returnByValue: true,
    })
  await evaluate(AXE)
  return async (rules = ALL_RULES) => {
    const only = rules === ALL_RULES ? {} : { runOnly: rules }
    const options = JSON.stringify({ resultTypes: ['violations'], ...only })
    const { result } = await evaluate(`axe.run(${options})`)
    const { violations } = result.value as AxeResult
    return violations.map(({ id, impact, nodes }) => {
      const places = nodes.slice(0, 3).map(({ target }) => target.join(' '))
      return `${id} (${impact}): ${places.join(', ')}`
    })
  }
}

t.test('pages in Chromium', { skip: skipWithoutChromium, timeout: 240_000 }, async (t) => {
  const PORT = String(await findFreePort())
  const main = await startInProcessTestStation(t, { PUBLIC_URL: `http://127.0.0.1:${PORT}` })
  const browser = await launchChromium()
  t.teardown(() => browser.close())
  const { id, key } = await main.onboard()
  const { body } = await main.ask('POST', '/api/bounties', {
    key,
    json: { title: 'An answer', description: HOSTILE, domain: 'base', reward_usdc: 0.05 },
  })
  const bounty = String(body['bounty_id'])
  const memory = await main.call({ id, key }, 'vault_write', { content: HOSTILE, type: 'fact' })
  const sold = await main.ask('POST', '/api/marketplace/list', {
    key,
    json: {
      name: 'Notes',
      description: HOSTILE,
      entry_ids: [(memory.body['pack'] as { id: string }).id],
      price_usdc: 0.1,
    },
  })
  const listing = String(sold.body['pack_id'])
  await main.sql`update bounties set title = ${HOSTILE} where bounty_id = ${bounty}`
  await main.sql`update agents set name = ${HOSTILE} where agent_id = ${id}`
  const [digest, ended] = ['d'.repeat(32), 'e'.repeat(32)]
  await main.sql`
    insert into digest_addresses (email, token, unsubscribed_at)
    values ('owner@agents.example', ${digest}, null), ('other@agents.example', ${ended}, now())`
  const own = [
    '/',
    '/tools/web_search',
    '/tools/x402_parse',
    '/docs',
    '/docs/quickstart',
    '/docs/limits',
    '/problems',
    '/problems/payment_required',
    '/cookbook',
    '/cookbook/market-brief',
    '/bounties',
    `/bounties/${bounty}`,
    '/marketplace',
    `/marketplace/${listing}`,
    '/hall-of-agents',
    '/owner',
    `/fund/${id}`,
    `/digest/${digest}`,
    `/digest/${ended}`,
    '/nothing',
  ]

  t.test('are accessible in both themes at four widths', async (t) => {
    for (const path of own) {
      const { page, faults, close } = await open(browser, main.url, path, {
        width: 1280,
        theme: 'light',
      })
      const check = await axeOf(page)
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 })
        const wide = await page.evaluate<number>('document.documentElement.scrollWidth')
        t.ok(wide <= width, `${path} is ${wide} px wide at ${width}`)
        for (const colorScheme of THEMES) {
          await page.emulateMedia({ colorScheme })
          // Themes differ in colours only: the other rules find the same in both.
          const rules = colorScheme === 'light' ? ALL_RULES : COLOR_RULES
          t.strictSame(await check(rules), [], `${path} ${colorScheme} ${width}`)
          if (FOLDER === undefined) continue
          const name = `${path.slice(1, 30).replaceAll('/', '-') || 'home'}-${width}-${colorScheme}.png`
          await page.screenshot({ path: join(FOLDER, name), fullPage: true })
        }
      }
      t.strictSame(faults, [], path)
      await close()
    }
  })

  t.test('are light', async (t) => {
    for (const path of [
      '/',
      '/tools/web_search',
      '/docs/quickstart',
      '/marketplace',
      '/docs/reference',
    ]) {
      const context = await browser.newContext({ viewport: { width: 390, height: 900 } })
      const page = await context.newPage()
      const session = await context.newCDPSession(page)
      let [bytes, requests] = [0, 0]
      session.on('Network.loadingFinished', ({ encodedDataLength }) => {
        bytes += encodedDataLength
        requests += 1
      })
      await session.send('Network.enable')
      await session.send('Emulation.setCPUThrottlingRate', { rate: SLOWDOWN })
      await page.goto(main.url + path, { waitUntil: 'load' })
      if (path === '/docs/reference') await page.waitForSelector('openapi-explorer')
      const paint = await page.evaluate<number>(FIRST_PAINT)
      t.comment(
        `${path}: ${requests} requests, ${Math.round(bytes / 1024)} KiB, first paint ${Math.round(paint)} ms at ${SLOWDOWN}x slower CPU`,
      )
      t.ok(bytes < (path === '/docs/reference' ? 400 : 40) * 1024, `${path} is light`)
      await context.close()
    }
  })

  t.test('run a tool with a key of the tab', async (t) => {
    const { page, faults, close } = await open(browser, main.url, '/tools/hive_trending', {
      width: 1280,
      theme: 'light',
    })
    await page.waitForSelector('#price:has-text("Make a key first")')
    t.equal((await page.context().cookies()).length, 0)
    await page.click('#make-key')
    await page.waitForSelector('#key:not([hidden])')
    await page.waitForSelector('#price:text-is("0.005 USDC from your credits")')
    await page.fill('#field-limit', '3')
    await page.click('#run')
    await page.waitForSelector('#answer dl')
    t.match(await page.textContent('#answer dl'), /Charged0.005 USDCLeft0.495 USDC/)
    t.equal(await page.textContent('[data-balance]'), '0.495 USDC')
    await page.fill('#field-limit', '999')
    await page.evaluate(`document.querySelector('form').noValidate = true`)
    await page.click('#run')
    await page.waitForSelector('#answer .problem')
    t.match(await page.textContent('#answer .problem'), /\/limit must be a whole number/)
    t.strictSame(
      faults.filter((fault) => !/status of 400/.test(fault)),
      [],
    )
    const other = await page.context().newPage()
    await other.goto(`${main.url}/tools/hive_trending`)
    t.equal(await other.evaluate('sessionStorage.length'), 0, 'another tab has no key')
    await close()
  })

  t.test('the reference sends a request that works, with the key of the tab', async (t) => {
    const { page, faults, close } = await open(browser, main.url, '/', {
      width: 1280,
      theme: 'dark',
    })
    await page.click('#make-key')
    await page.waitForSelector('#key:not([hidden])')
    await page.goto(`${main.url}/docs/reference`)
    const explorer = page.locator('openapi-explorer')
    const loaded = explorer.getByText('Call a tool', { exact: true }).first()
    await loaded.waitFor()
    for (const found of await (
      await axeOf(page)
    )()) {
      t.notMatch(found, /critical/)
      t.ok(
        LEFT_BY_LIBRARY.some((one) => found.startsWith(one)),
        found,
      )
    }
    await loaded.click()
    const answered = page.waitForResponse((reply) => reply.url().endsWith('/api/refuel'))
    await explorer.locator('button:has-text("Execute")').first().click()
    const reply = await answered
    t.equal(reply.status(), 200)
    t.match(await reply.request().headerValue('x-api-key'), /^gas_/)
    t.match(reply.request().postDataJSON(), { tool: 'web_search', query: 'account abstraction' })
    t.strictSame(faults, [])
    await close()
  })
})
