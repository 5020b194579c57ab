import t from 'tap'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { createAgentBackpack } from '../../support/agents/test-backpack-bound-keys.ts'
import {
  launchChromium,
  openInspectorInChromium,
  skipWithoutChromium,
} from '../../support/inspector/open-inspector-in-chromium.ts'
import {
  HIVE_TRENDING_PRICE_ATOMIC,
  paymentSignatureHeader,
  postPaidCall,
  startTestStationWithPaymentChain,
  waitForFinalSettlement,
  settlementIdOfReply,
} from '../../support/payments/test-station-with-payment-chain.ts'
import type { TestAgent } from '../../support/station/start-test-station.ts'

/** The page of the inspector in a real browser. */

const OPERATOR_TOKEN = 'the-operator-token-of-the-inspector-tests'
/** A tool without upstreams, and its price. */
const TOOL = 'hive_trending'
const PRICE = 0.005
const REFUSALS = 5
const STORED_ACTORS = 10_000
const MARKUP = '<img src=x onerror=alert(1)><script>alert(2)</script>'

if (skipWithoutChromium !== false) t.plan(0, skipWithoutChromium)
else await run()

async function run(): Promise<void> {
  const { main, till } = await startTestStationWithPaymentChain(t, {
    INSPECTOR: 'on',
    OPERATOR_TOKEN,
  })
  const browser = await launchChromium()
  t.teardown(() => browser.close())
  const desk = { width: 1280, height: 800, theme: 'dark' } as const
  const open = (size: Parameters<typeof openInspectorInChromium>[3]) =>
    openInspectorInChromium(browser, main.url, OPERATOR_TOKEN, size)
  const spend = (agent: TestAgent, backpackId: string) =>
    main.call(agent, TOOL, {}, { 'x-backpack-id': backpackId })

  t.test('a spending agent, its fuse and the refusal are seen at once', async (t) => {
    const agent = await main.onboard()
    const fuse = { per_day_usdc: 2 * PRICE }
    const backpack = await createAgentBackpack(main, agent, { agent_name: MARKUP, fuse })
    const { page, faults, select, activeLeaves, tab } = await open(desk)
    await select('backpack', backpack)
    await page.waitForSelector('.state.leaf.active')
    t.strictSame(await activeLeaves(), ['far'])
    t.equal(await page.locator('.title h1').textContent(), MARKUP, 'markup is text')

    t.equal((await spend(agent, backpack)).status, 200)
    await page.waitForSelector('.row.fired')
    await page.waitForSelector('.event .what:has-text("SPEND")')
    t.equal((await spend(agent, backpack)).status, 200)

    const waits: number[] = []
    for (let refusal = 1; refusal <= REFUSALS; refusal += 1) {
      const seen = Promise.all([
        page.waitForSelector(`.event.refused >> nth=${refusal - 1}`),
        page.waitForSelector('.chart .row.refused'),
        page.waitForSelector('.state.leaf.active'),
      ]).then(() => performance.now())
      const answer = await spend(agent, backpack)
      const answered = performance.now()
      t.match(answer, { status: 403, body: { code: 'FUSE_TRIPPED' } })
      waits.push(Math.max(0, (await seen) - answered))
      await page.waitForSelector('.chart .row.refused', { state: 'detached' })
    }
    t.comment(`visible after the answer: ${waits.map(Math.round).join(', ')} ms`)
    const row = page.locator('.event.refused').first()
    t.match(await row.textContent(), 'FUSE_TRIPPED')

    await tab('History')
    await page.waitForSelector('.history-row')
    const places = await page.locator('.history-row').count()
    t.ok(places >= 3, `${places} points`)
    const spent = async () => {
      const text = (await page.locator('.json').first().textContent()) ?? ''
      return Number(/spentTotal: ([\d.]+)/.exec(text)?.[1])
    }
    t.equal(await spent(), 2 * PRICE)
    for (let at = 1; at < places; at += 1) await page.click('[aria-label=Previous]')
    t.equal(await spent(), 0, 'at its creation')
    t.ok(await page.locator('[aria-label=Previous]').isDisabled())
    await page.click('text=compare from here')
    await page.locator('input[type=range]').fill(String(places - 1))
    t.equal(await spent(), 2 * PRICE, 'forth again')
    t.match(await page.locator('.diff').textContent(), /spentTotal.*− 0.*\+ 0\.01/s)
    t.strictSame(faults, [], 'no fault, no dialog, no request to another host')
    await page.context().close()
  })

  t.test('a refusal opens with its guard and figures', async (t) => {
    const agent = await main.onboard()
    const backpack = await createAgentBackpack(main, agent, { fuse: { per_day_usdc: PRICE } })
    const { page, faults, select } = await open(desk)
    await select('backpack', backpack)
    await spend(agent, backpack)
    const refused = await spend(agent, backpack)
    await page.waitForSelector('.event.refused')
    t.type(refused.body['why_url'], 'string')
    await page.click('.event.refused')
    await page.waitForSelector('.why:not([hidden])')
    t.match(await page.locator('.why').textContent(), /FUSE_TRIPPED.*per_day/s)
    t.equal(await page.locator('.row.refused').count(), 1, 'it stays on the chart')
    t.strictSame(faults, [])
    await page.context().close()
  })

  t.test('the commits of a call are a sequence, and an agent has a page of its own', async (t) => {
    const agent = await main.onboard()
    const backpack = await createAgentBackpack(main, agent, { agent_name: 'night shift' })
    const { page, faults, select, tab } = await open({ ...desk, theme: 'light' })
    await select('agent', agent.id)
    await spend(agent, backpack)
    await page.waitForSelector('.event')
    await tab('Sequence')
    await page.waitForSelector('.message')
    t.match(await page.locator('.lane-kind').allTextContents(), ['caller', /backpack|agent/])
    t.ok((await page.locator('.commit-line').count()) >= 1)
    await tab('Agent')
    await page.waitForSelector('.card-name:has-text("night shift")')
    t.equal(await page.locator('.following').isVisible(), true)
    t.strictSame(faults, [])
    await page.context().close()
  })

  t.test(
    'an event of another agent opens with its context while one agent is followed',
    async (t) => {
      const [followed, other] = [await main.onboard(), await main.onboard()]
      const backpack = await createAgentBackpack(main, other, { agent_name: 'elsewhere' })
      const { page, faults, select } = await open(desk)
      await select('agent', followed.id)
      await spend(other, backpack)
      await page.waitForSelector('.event:has-text("elsewhere")')
      await page.click('text=follow agent')
      await page.waitForSelector('.following:visible')
      await page.click(`.event[title="backpack:${backpack}"]`)
      await page.waitForSelector('.json:has-text("spentTotal")')
      t.match(await page.locator('.json').first().textContent(), /spentTotal: 0\.005/)
      t.equal(await page.locator('.following').isVisible(), false, 'all are followed again')
      t.strictSame(faults, [])
      await page.context().close()
    },
  )

  t.test('a payment is a sequence, seen live and read from the journal', async (t) => {
    const { page, faults, tab } = await open(desk)
    const payer = await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC)
    const signed = await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)
    const paid = await postPaidCall(main, signed)
    t.equal(paid.status, 200, paid.text.slice(0, 200))
    const id = settlementIdOfReply(paid)
    await waitForFinalSettlement(main, id)
    await page.waitForSelector('.event .what:has-text("SETTLED")')
    await tab('Sequence')
    await page.selectOption('.sequence-bar select', id)
    const sent = async (what: string) => page.locator(`.message:has-text("${what}")`).count()
    await page.waitForSelector('.message:has-text("SETTLED")')
    for (const what of ['RESERVE', 'DELIVER']) t.ok((await sent(what)) > 0, what)
    const lanes = await page.locator('.lane-kind').allTextContents()
    t.ok(lanes.includes('payer') && lanes.includes('settlement'), lanes.join(' '))
    t.ok((await page.locator('.commit-line').count()) >= 3, 'claimed, delivered, settled')

    await page.reload()
    await page.waitForSelector('.dot.live')
    await tab('Sequence')
    await page.fill('.sequence-bar input', id)
    await page.keyboard.press('Enter')
    await page.waitForSelector('.note:has-text("from the journal")')
    t.ok((await page.locator('.commit-line').count()) >= 3, 'the journal has them too')
    t.strictSame(faults, [])
    await page.context().close()
  })

  t.test('a new agent shows by its name, and the whole of a long past is reached', async (t) => {
    const { page, faults, select, tab } = await open(desk)
    const agent = await main.onboard()
    await page.waitForSelector(`.actor[data-key="agent:${agent.id}"] .actor-name:text-is("tester")`)
    await main.sql`
      insert into journal (aggregate_id, version, command_id, at, command, changed)
      select a.id, n, gen_random_uuid(), now(), '{"name": "test.many"}', json_build_array(
             json_build_object('kind', 'agent', 'machine', 1, 'state', a.state))
        from actors a, generate_series(2, 700) n where a.kind = 'agent' and a.id = ${agent.id}`
    await main.sql`update aggregates set version = 700 where id = ${agent.id}`
    await select('agent', agent.id)
    await tab('History')
    await page.click('.earlier')
    await page.waitForSelector('.earlier', { state: 'detached' })
    t.equal(await page.locator('.history-row').count(), 700)
    t.match(await page.locator('.place').textContent(), '700 of 700 · v700')
    await page.locator('input[type=range]').fill('0')
    t.match(await page.locator('.place').textContent(), '1 of 700 · v1')
    await page.goto(`${main.url}/inspector#agent/%`)
    await page.waitForSelector('.title h1:text-is("agent")')
    t.strictSame(faults, [])
    await page.context().close()
  })

  t.test('a phone shows one column, and nothing overflows', async (t) => {
    const agent = await main.onboard()
    const { page, faults, select } = await open({ width: 390, height: 800, theme: 'light' })
    await select('agent', agent.id)
    await page.waitForSelector('.state.leaf.active')
    const wide = await page.evaluate<number>('document.documentElement.scrollWidth')
    t.ok(wide <= 390, `${wide} px`)
    t.strictSame(faults, [])
    await page.context().close()
  })

  t.test('with many stored actors the page is interactive at once and finds each', async (t) => {
    const sample = await main.onboard()
    const ids = Array.from({ length: STORED_ACTORS }, () => newUuidV7(Date.now()))
    await main.sql`
      insert into aggregates (id, kind, version) select id, 'agent', 1 from unnest(${ids}::text[]) as other (id)`
    await main.sql`
      insert into actors (aggregate_id, kind, id, machine_version, state)
      select other.id, a.kind, other.id, a.machine_version, a.state
        from actors a cross join unnest(${ids}::text[]) as other (id)
       where a.kind = 'agent' and a.id = ${sample.id}`
    const { page, faults } = await open(desk)
    const started = performance.now()
    await page.goto('about:blank')
    await page.goto(`${main.url}/inspector`)
    await page.waitForSelector('.actor')
    const old = ids[0] ?? ''
    await page.fill('.filter input', old)
    await page.waitForSelector(`.actor[data-key="agent:${old}"]`)
    const took = performance.now() - started
    t.comment(`interactive, and the oldest found, after ${Math.round(took)} ms`)
    t.match(await page.locator('.counts').textContent(), /1\d,\d{3} actors/)
    t.strictSame(faults, [])
    await page.context().close()
  })

  t.test('the page needs the operator, and the cookie is gone after signing out', async (t) => {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(`${main.url}/inspector`)
    await page.fill('input[name=proof]', 'a guess')
    await page.click('button[type=submit]')
    await page.waitForSelector('.fault:has-text("Neither")')
    t.equal(await page.locator('.actor').count(), 0)
    await page.fill('input[name=proof]', OPERATOR_TOKEN)
    await page.click('button[type=submit]')
    await page.waitForSelector('.dot.live')
    t.equal(await page.evaluate('document.cookie'), '', 'scripts cannot read the cookie')
    await page.click('text=sign out')
    await page.waitForSelector('.sign-in')
    await page.reload()
    await page.waitForSelector('.sign-in')
    await context.close()
  })
}
