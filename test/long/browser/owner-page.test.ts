import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import t from 'tap'
import { createTestPauseGate } from '../../support/actors/test-actor-node.ts'
import {
  launchChromium,
  createWebpScreenshotTaker,
  skipWithoutChromium,
} from '../../support/inspector/open-inspector-in-chromium.ts'
import {
  eventually,
  startTestMailServer,
} from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import { STRANGE_AMOUNTS } from '../../support/http/strange-amounts.ts'
import { startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** With a folder named, the pictures of docs/owner.md are written there. */
const FOLDER = process.env['OWNER_SCREENSHOTS']
const picture = FOLDER === undefined ? async () => 0 : createWebpScreenshotTaker(FOLDER)
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const SECOND = 1_000

/** Violations of accessibility, in words. */
async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(AXE)
  return page.evaluate<string[]>(
    `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes[0].html))`,
  )
}

t.test('the five minutes of an owner', { skip: skipWithoutChromium }, async (t) => {
  const mail = await startTestMailServer(t)
  const gate = createTestPauseGate()
  const site = await startFixtureServer(t, (_request, response) => {
    void gate.pass().then(() => {
      response.writeHead(200, { 'content-type': 'text/html' })
      response.end('<title>Shop</title><p>A lamp costs $24.50.</p>')
    })
  })
  const settings = {
    SMTP_URL: mail.url,
    SSRF_ALLOW: '127.0.0.1:1024-65535',
    STARTER_CREDITS_USDC: '5',
  }
  const main = await startInProcessTestStation(t, settings)
  const second = await spawnSecondNode(t, main, settings)
  const her = await main.onboard()
  for (const tool of ['hive_trending', 'hive_trending', 'self_audit'])
    await main.call(her, tool, {})
  await main.ask('POST', '/api/backpack/create', { key: her.key, json: { agent_name: 'scout' } })
  const json = { contact_email: 'owner@agents.example' }
  await main.ask('POST', '/api/agent/contact-email', { key: her.key, json })
  await eventually(() => mail.letters.length > 0, 'the link')
  const text = (mail.letters[0]?.raw ?? '').replace(/=\r?\n/g, '').replaceAll('=3D', '=')
  const [, code = ''] = /#link=([\w-]+)/.exec(text) ?? []

  const browser = await launchChromium()
  t.teardown(() => browser.close())
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  const page = await context.newPage()
  const faults: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(message.text())
  })
  page.on('pageerror', (error) => faults.push(String(error.stack)))
  page.on('request', (request) => {
    if (!request.url().startsWith(`${main.url}/`)) faults.push(`request to ${request.url()}`)
  })

  // A program that checks mails opens the link and runs the page: that uses nothing up.
  const scanner = await browser.newContext()
  const scanned = await scanner.newPage()
  await scanned.goto(`${main.url}/owner#link=${code}`)
  await scanned.waitForSelector('#link-form button')
  await scanner.close()

  // Opens the link, and sees the spend.
  await page.goto(`${main.url}/owner#link=${code}`)
  await page.click('#link-form button')
  await page.waitForSelector('#chart canvas')
  t.notMatch(page.url(), code, 'the code leaves the address')
  const { body: spent } = await main.ask('GET', '/api/agent/spending', { key: her.key })
  t.equal(
    await page.textContent('#spending-sum'),
    `${String(spent['spent_usdc'])} USDC in ${String(spent['calls'])} calls`,
  )
  t.match(await page.textContent('#spending-table'), /hive_trending[^]*self_audit|self_audit/)
  t.equal(await page.locator('#calls tbody tr').count(), Number(spent['calls']))
  await page.locator('#calls button').first().click()
  await page.waitForSelector('#receipt code')

  // Sets a fuse, and hands out a bound key.
  await page.fill('.pack input[name=per_day_usdc]', '1')
  await page.click('.pack button:has-text("Set the fuse")')
  await page.waitForSelector('.pack [role=status]:has-text("Set.")')
  const { body: packs } = await main.ask('GET', '/api/backpacks', { key: her.key })
  t.match(packs, { backpacks: [{ fuse: { per_call_usdc: null, per_day_usdc: 1 } }] })
  await page.fill('#bound-name', 'runaway')
  await page.click('#bound-key-form button')
  await page.waitForSelector('#new-key:not([hidden])')
  const runaway = { id: her.id, key: String(await page.textContent('#new-key code')) }
  t.match(await second.call(runaway, 'hive_trending', {}), { status: 200 })
  const { body: keys } = await main.ask('GET', '/api/keys', { key: her.key })
  t.match(keys, { keys: [{ backpack_id: null }, { name: 'runaway', backpack_id: /^bp_/ }] })

  await page.evaluate(`document.querySelector('#new-key').hidden = true; scrollTo(0, 0)`)
  await picture(page, 'agent')

  // Freezes the agent in mid-pipeline, while it calls on both nodes.
  const look = { tool: 'agent_see', url: `${site.base}/` }
  const pipeline = second.ask('POST', '/api/pipeline', {
    key: runaway.key,
    json: { calls: [look, look] },
  })
  await gate.reached
  const calls: { readonly began: number; readonly ok: boolean; readonly code: string }[] = []
  let isRunning = true
  const runOn = async (node: TestStation) => {
    while (isRunning) {
      const began = performance.now()
      const { status, body } = await node.call(runaway, 'hive_trending', { limit: 1 })
      calls.push({ began, ok: status === 200, code: body.code })
    }
  }
  const loops = [runOn(main), runOn(second)]
  await eventually(() => calls.filter(({ ok }) => ok).length >= 4, 'calls of the runaway')
  const clicked = performance.now()
  await page.click('#freeze')
  await page.waitForSelector('#freeze-box.frozen')
  const seen = performance.now()
  await eventually(() => calls.filter(({ ok }) => !ok).length >= 10, 'refused calls')
  isRunning = false
  await Promise.all(loops)
  const late = calls.filter(({ began }) => began > clicked + SECOND)
  t.comment(`the page shows the freeze after ${Math.round(seen - clicked)} ms`)
  t.strictSame(
    late.filter(({ ok }) => ok),
    [],
    'no call that began a second after the click was made',
  )
  const refusals = calls.filter(({ ok }) => !ok)
  t.strictSame([...new Set(refusals.map(({ code: why }) => why))], ['agent_frozen'])
  gate.open()
  t.match((await pipeline).body, { succeeded: 2, total_cost_usdc: 0.06 }, 'what ran has ended')
  for (const node of [main, second])
    t.match(await node.call(runaway, 'hive_trending', {}), { status: 403 })
  const thaw = { key: runaway.key, json: {} }
  t.match(await main.ask('POST', '/api/agent/unfreeze', thaw), { status: 403 }, 'not by itself')

  // The page in both themes, on a desk and on a phone.
  for (const width of [1280, 390]) {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme })
      t.strictSame(await violationsOf(page), [], `${width} ${colorScheme}`)
      const scrolled = await page.evaluate('document.documentElement.scrollWidth')
      t.equal(scrolled, width, 'nothing is wider than the window')
    }
  }
  await page.evaluate('scrollTo(0, 0)')
  await picture(page, 'frozen-phone')
  await page.reload()
  await page.waitForSelector('#refused td')
  const stopped = await page.locator('#refused tbody tr').first().textContent()
  t.match(stopped, /frozen/i, 'what the freeze has stopped, with its reason')
  await page.click('#freeze')
  await page.waitForSelector('#freeze-box:not(.frozen)')
  for (const node of [main, second])
    t.match(await node.call(runaway, 'hive_trending', {}), { status: 200 })
  // What does not sign in is said in its words, with a session and without one.
  await page.fill('#add-field', 'gas_wrong')
  await page.click('#add-form button')
  await page.waitForSelector('#add-problem:has-text("This is no working API key.")')
  await page.click('#sign-out')
  await page.waitForSelector('#key-form')
  t.strictSame(await violationsOf(page), [])
  await page.fill('#key-field', 'gas_wrong')
  await page.click('#key-form button')
  await page.waitForSelector('#sign-in-problem:has-text("This is no working API key.")')
  // Into the open page, as somebody pastes it.
  await page.goto(`${main.url}/owner#link=${code}`)
  await page.click('#link-form button')
  await page.waitForSelector('#sign-in-problem:has-text("This link was used, or is too old.")')
  t.ok(await page.isVisible('#mail-form'), 'and another link can be asked for')
  t.strictSame(
    faults.filter((fault) => !/status of 401/.test(fault)),
    [],
    'no error, and no request to elsewhere',
  )
  await main.verify()
})

t.test(
  'whatever is typed as a limit, the station has exactly that or what it had, and the page says which',
  { skip: skipWithoutChromium },
  async (t) => {
    const main = await startInProcessTestStation(t)
    const her = await main.onboard()
    const json = { agent_name: 'scout', fuse: { per_day_usdc: 0.02 } }
    const made = await main.ask('POST', '/api/backpack/create', { key: her.key, json })
    const path = `/api/backpack/${made.body.backpack_id}`
    const limit = async () => {
      const { body } = await main.ask('GET', path, { key: her.key })
      return (body['fuse'] as Record<string, number | null>)['per_day_usdc']
    }
    const browser = await launchChromium()
    t.teardown(() => browser.close())
    const page = await browser.newPage()
    await page.goto(`${main.url}/owner`)
    await page.fill('#key-field', her.key)
    await page.click('#key-form button')
    const day = page.locator('.pack input[name=per_day_usdc]')
    await day.waitFor()
    /** Types a text, submits, and returns what the field held and what the form said. */
    const submit = (field: string, form: string, text: string) =>
      page.evaluate<{ typed: string; said: string; kept: string }>(`(async () => {
        const field = document.querySelector(${JSON.stringify(field)})
        const form = document.querySelector(${JSON.stringify(form)})
        field.value = ${JSON.stringify(text)}
        const typed = field.value
        field.dispatchEvent(new Event('input', { bubbles: true }))
        while (form.querySelector('button').disabled) await new Promise((next) => requestAnimationFrame(next))
        const find = () => form.querySelector('.fault[role=alert], [role=status]:not(:empty)')
        form.requestSubmit()
        while (find() === null) await new Promise((next) => requestAnimationFrame(next))
        return { typed, said: find().textContent, kept: form.querySelector('.kept')?.textContent ?? '' }
      })()`)
    const values = new Map(STRANGE_AMOUNTS)
    let has: number | null = 0.02
    for (const [text] of STRANGE_AMOUNTS) {
      const shown = await submit('.pack input[name=per_day_usdc]', '.pack', text)
      const usdc = values.get(shown.typed) ?? null
      if (usdc !== null) has = usdc
      t.equal(await limit(), has, `${JSON.stringify(text)}: the station has ${has}`)
      t.match(shown.said, usdc === null ? /Nothing was changed/ : /^Set\./)
      t.match(shown.kept, `Limit a day: ${has} USDC. 0 USDC used.`)
    }
    await page.locator('#new-pack summary').click()
    await page.fill('#pack-name', 'x')
    for (const [text, usdc] of STRANGE_AMOUNTS)
      if (usdc === null && text !== '' && !text.includes('\n'))
        t.match((await submit('#pack-day', '#pack-form', text)).said, /Nothing was changed/, text)
    const { body: packs } = await main.ask('GET', '/api/backpacks', { key: her.key })
    t.equal(packs['count'], 1, 'no Backpack was made of what is no amount')
    await page.fill('#pack-day', '')
    await page.click('#pack-form button')
    await page.waitForSelector('#pack-said:has-text("Press again")')

    // A refusal is told at its form, in words, and goes with the next deed, whichever that is.
    const asked = `${main.url}/api/backpack/create`
    await page.route(asked, (route) =>
      route.continue({ postData: JSON.stringify({ agent_name: 'x', fuse: { per_day_usdc: -1 } }) }),
    )
    await page.fill('#pack-day', '1')
    await page.click('#pack-form button')
    const refusal = page.locator('#pack-form .refusal')
    await refusal.waitFor()
    const words = (await refusal.textContent()) ?? ''
    t.match(words, /^Nothing was changed. “per day” must be a USDC amount above 0/)
    t.notMatch(words, /\/fuse|schema/)
    await page.unroute(asked)
    await page.locator('.pack button:has-text("Revoke")').first().click()
    t.equal(await refusal.count(), 0, 'an older refusal is not said of a later deed')
    await page.locator('#pack-form').evaluate('(form) => form.reset()')

    // A limit is removed by a second press, and only then.
    await day.fill('')
    await page.click('.pack button')
    await page.waitForSelector('.pack [role=status]:has-text("Press again to remove it")')
    t.equal(await limit(), has)
    await page.click('.pack button')
    await page.waitForSelector('.pack [role=status]:has-text("Set.")')
    t.equal(await limit(), null)
    t.match(await page.textContent('.pack .kept'), 'Limit a day: No limit')
  },
)
