import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import {
  launchChromium,
  skipWithoutChromium,
} from '../../support/inspector/open-inspector-in-chromium.ts'
import {
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'

/** What the owner's page does when others change things too, presses come twice, or answers get lost. */

async function openPage(t: Test, main: TestStation, owners: readonly TestAgent[]): Promise<Page> {
  const browser = await launchChromium()
  t.teardown(() => browser.close())
  const page = await browser.newPage()
  await page.goto(`${main.url}/owner`)
  const [first, ...others] = owners
  await page.fill('#key-field', first?.key ?? '')
  await page.click('#key-form button')
  await page.waitForSelector('#agent-tabs li')
  for (const other of others) {
    await page.fill('#add-field', other.key)
    await page.click('#add-form button')
    await page.waitForSelector(`#agent-id:has-text("${other.id}")`)
  }
  return page
}

t.test('the page of an owner', { skip: skipWithoutChromium }, async (t) => {
  const main = await startInProcessTestStation(t)
  const create = async (owner: TestAgent, per_day_usdc: number) => {
    const json = { agent_name: 'scout', fuse: { per_day_usdc } }
    const { body } = await main.ask('POST', '/api/backpack/create', { key: owner.key, json })
    return `/api/backpack/${String(body['backpack_id'])}`
  }
  const fuseOf = async (owner: TestAgent, path: string) =>
    (await main.ask('GET', path, { key: owner.key })).body['fuse']

  t.test('sends only what was typed, and not on limits that were changed elsewhere', async (t) => {
    const her = await main.onboard()
    const path = await create(her, 1)
    const page = await openPage(t, main, [her])
    const said = page.locator('.pack [role=status]')
    // Whatever is read again every five seconds would show it first.
    await page.route(`${main.url}/api/backpacks`, () => undefined)
    await page.fill('.pack input[name=per_month_usdc]', '5')
    const lowered = { key: her.key, json: { fuse: { per_day_usdc: 0.01 } } }
    await main.ask('PATCH', path, lowered)
    await page.click('.pack button')
    await said.filter({ hasText: 'was changed elsewhere' }).waitFor()
    t.match(await fuseOf(her, path), { per_day_usdc: 0.01, per_month_usdc: null })
    t.match(await page.textContent('.pack .kept'), 'Limit a day: 0.01 USDC')
    await page.click('.pack button')
    await said.filter({ hasText: 'Set.' }).waitFor()
    t.match(await fuseOf(her, path), { per_day_usdc: 0.01, per_month_usdc: 5 })
  })

  t.test('removes nothing by a double click or by Enter twice', async (t) => {
    const her = await main.onboard()
    const path = await create(her, 1)
    const page = await openPage(t, main, [her])
    const question = page.locator('.pack [role=status]', { hasText: 'Press again' })
    await page.fill('.pack input[name=per_day_usdc]', '')
    await page.dblclick('.pack button')
    await question.waitFor()
    await page.locator('.pack button:enabled', { hasText: 'Remove the limit' }).waitFor()
    await page.evaluate(`{
      const form = document.querySelector('.pack')
      form.dispatchEvent(new Event('input', { bubbles: true }))
      form.requestSubmit()
      form.requestSubmit()
    }`)
    await page.locator('.pack button:enabled', { hasText: 'Remove the limit' }).waitFor()
    await page.dblclick('.pack button:has-text("Revoke")')
    await page.locator('.pack button:enabled', { hasText: 'Revoke for good?' }).waitFor()
    const { body } = await main.ask('GET', path, { key: her.key })
    t.match(body, { state: 'active', fuse: { per_day_usdc: 1 } })
    await page.locator('#new-pack summary').click()
    await page.fill('#pack-name', 'second')
    await page.dblclick('#pack-form button')
    await page.locator('#pack-said', { hasText: 'Press again' }).waitFor()
    await page.locator('#pack-form button:enabled').waitFor()
    const { body: packs } = await main.ask('GET', '/api/backpacks', { key: her.key })
    t.equal(packs['count'], 1)
  })

  t.test('says that an outcome is unknown, and repeats the same request', async (t) => {
    const her = await main.onboard()
    const page = await openPage(t, main, [her])
    const asked = `${main.url}/api/backpack/create`
    await page.route(asked, async (route) => {
      await route.fetch()
      await route.abort()
    })
    await page.locator('#new-pack summary').click()
    await page.fill('#pack-name', 'lost')
    await page.fill('#pack-day', '1')
    await page.click('#pack-form button')
    const refusal = page.locator('#pack-form .refusal')
    await refusal.waitFor()
    t.match(await refusal.textContent(), /may have been done or not/)
    t.notMatch(await refusal.textContent(), /Nothing was changed/)
    await page.unroute(asked)
    await page.click('#pack-form button')
    await page.waitForSelector('#new-pack:not([open])')
    const { body } = await main.ask('GET', '/api/backpacks', { key: her.key })
    t.match(body, { count: 1, backpacks: [{ agent_name: 'lost' }] })
  })

  t.test('names the agent of a new key, and shows the freeze of no other agent', async (t) => {
    const [ann, bob] = [await main.onboard(), await main.onboard()]
    await create(ann, 1)
    const page = await openPage(t, main, [bob, ann])
    const nameOf = (id: string) =>
      page.evaluate<string>(
        `fetch('/owner/session').then((r) => r.json()).then(({ agents }) => agents.find((a) => a.agent_id === ${JSON.stringify(id)}).name)`,
      )
    const tab = page.locator('#agent-tabs button').first()
    for (const [path, press] of [
      ['/api/keys', '#bound-key-form button'],
      ['/api/agent/freeze', '#freeze'],
    ] as const) {
      await page.fill('#bound-name', 'late')
      let pass = () => {}
      const held = new Promise<void>((resolve) => (pass = resolve))
      await page.route(`${main.url}${path}`, async (route) => {
        if (route.request().method() !== 'POST') return route.continue()
        const response = await route.fetch()
        await held
        await route.fulfill({ response })
      })
      const answered = page.waitForResponse(
        (one) => one.url().endsWith(path) && one.request().method() === 'POST',
      )
      await page.click(press)
      await tab.click()
      await page.waitForSelector(`#agent-id:has-text("${bob.id}")`)
      pass()
      await answered
      await page.unroute(`${main.url}${path}`)
      if (path === '/api/keys') {
        await page.waitForSelector('#new-key:not([hidden])')
        t.equal(await page.textContent('#new-key-agent'), await nameOf(ann.id))
        await page.locator('#agent-tabs button').last().click()
        await page.waitForSelector(`#agent-id:has-text("${ann.id}")`)
      }
    }
    const { body } = await main.ask('GET', '/api/agent/me', { key: ann.key })
    t.ok(body['frozen_at'], 'the one whose button was pressed')
    t.equal(await page.textContent('#freeze-title'), 'Active')
  })

  await main.verify()
})
