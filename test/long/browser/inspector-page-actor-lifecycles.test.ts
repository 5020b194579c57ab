import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { createAgentBackpack } from '../../support/agents/test-backpack-bound-keys.ts'
import {
  createWebpScreenshotTaker,
  launchChromium,
  openInspectorInChromium,
  skipWithoutChromium,
  type InspectorInChromium,
} from '../../support/inspector/open-inspector-in-chromium.ts'
import {
  SCHEDULED_TOOL,
  startScheduleStation,
} from '../../support/schedules/test-station-with-schedules.ts'
import type { TestAgent } from '../../support/station/start-test-station.ts'

/**
 * Follows an agent, a Backpack, a task, a schedule and a bounty through their lives on the page of
 * the inspector. `npm run docs:screenshots` keeps the screenshots that docs/inspector.md explains.
 */

const OPERATOR_TOKEN = 'the-operator-token-of-the-inspector-lives'
const MAX_SCREENSHOT_BYTES = 1_500_000
const folder = process.env['INSPECTOR_SCREENSHOTS'] ?? t.testdir({})
const take = createWebpScreenshotTaker(folder)
const sizes: number[] = []

if (skipWithoutChromium !== false) t.plan(0, skipWithoutChromium)
else await run()

async function run(): Promise<void> {
  const does = await startScheduleStation(t, { INSPECTOR: 'on', OPERATOR_TOKEN })
  const { main } = does
  const browser = await launchChromium()
  t.teardown(() => browser.close())
  const open = (theme: 'dark' | 'light') =>
    openInspectorInChromium(browser, main.url, OPERATOR_TOKEN, { width: 1280, height: 800, theme })
  const named = async (name: string): Promise<TestAgent> => {
    const { status, body } = await main.ask('POST', '/api/onboard', { json: { name } })
    if (status !== 201) throw new Error(`onboarding answered ${status}`)
    return { id: body.agent_id, key: body.api_key }
  }
  const send = async ({ key }: TestAgent, method: string, path: string, json?: object) => {
    const answer = await main.ask(method, path, { key, json })
    if (answer.status >= 300) throw new Error(`${path} answered ${answer.status}: ${answer.text}`)
    return answer.body
  }
  const keep = async ({ page }: InspectorInChromium, name: string) => {
    sizes.push(await take(page, name))
    t.ok(statSync(join(folder, `${name}.webp`)).size > 5_000, name)
  }
  /** Keeps the moment at which a refusal with this code is red on the chart. */
  const keepRefusal = async (shown: InspectorInChromium, code: string, name: string) => {
    await shown.page.waitForSelector(`.chart .row.refused:has-text("${code}")`)
    await keep(shown, name)
  }
  const inState = (shown: InspectorInChromium, state: string) =>
    shown.page.waitForSelector(`.state.leaf.active > .name:text-is("${state}")`)

  t.test('an agent: healthy, warned, empty-handed, and back in its past', async (t) => {
    const agent = await named('scout')
    const other = await named('treasury')
    const shown = await open('dark')
    await shown.select('agent', agent.id)
    await inState(shown, 'healthy')
    await keep(shown, 'agent-1-healthy')
    await send(agent, 'POST', '/api/agent/send', { to_agent_id: other.id, amount_usdc: 0.48 })
    await shown.page.waitForSelector('.transition.fired')
    await keep(shown, 'agent-2-tier-falls')
    await send(agent, 'POST', '/api/agent/send', { to_agent_id: other.id, amount_usdc: 0.018 })
    await shown.page.waitForSelector('.event .what:has-text("DEBIT")')
    t.equal((await main.call(agent, SCHEDULED_TOOL)).status, 402)
    await keepRefusal(shown, 'payment_required', 'agent-3-refused')
    await shown.tab('History')
    await shown.page.waitForSelector('.history-row')
    await shown.page.click('[aria-label=Previous]')
    await keep(shown, 'agent-4-history')
    t.strictSame(shown.faults, [])
    await shown.page.context().close()
  })

  t.test('a Backpack: spending, its fuse, the reason, revoked', async (t) => {
    const agent = await named('night-porter')
    const fuse = { per_day_usdc: 0.008 }
    const id = await createAgentBackpack(main, agent, { agent_name: 'night shift', fuse })
    const headers = { 'x-backpack-id': id }
    const shown = await open('light')
    await shown.select('backpack', id)
    await inState(shown, 'far')
    t.equal((await main.call(agent, SCHEDULED_TOOL, {}, headers)).status, 200)
    await shown.page.waitForSelector('.row.fired')
    await keep(shown, 'backpack-1-spends')
    t.equal((await main.call(agent, SCHEDULED_TOOL, {}, headers)).status, 403)
    await keepRefusal(shown, 'FUSE_TRIPPED', 'backpack-2-fuse-trips')
    await shown.page.click('.event.refused')
    await shown.page.waitForSelector('.why:not([hidden])')
    await keep(shown, 'backpack-3-why')
    await shown.select('backpack', id)
    await send(agent, 'POST', `/api/backpack/${id}/revoke`)
    await inState(shown, 'revoked')
    await keep(shown, 'backpack-4-revoked')
    t.strictSame(shown.faults, [])
    await shown.page.context().close()
  })

  t.test('a task: a budget, a charge, a refusal, completed', async (t) => {
    const agent = await named('clerk')
    const task = { name: 'summarise the logs', budget_usdc: 0.008 }
    const { task_id: id } = await send(agent, 'POST', '/api/task/start', task)
    const headers = { 'x-task-id': String(id) }
    const shown = await open('dark')
    await shown.select('taskSession', String(id))
    await inState(shown, 'active')
    await keep(shown, 'task-1-active')
    t.equal((await main.call(agent, SCHEDULED_TOOL, {}, headers)).status, 200)
    await shown.page.waitForSelector('.row.fired')
    await keep(shown, 'task-2-charged')
    t.ok((await main.call(agent, SCHEDULED_TOOL, {}, headers)).status >= 400)
    await shown.page.waitForSelector('.chart .row.refused')
    await keep(shown, 'task-3-over-budget')
    await send(agent, 'POST', '/api/task/end', { task_id: id })
    await inState(shown, 'completed')
    await keep(shown, 'task-4-completed')
    t.strictSame(shown.faults, [])
    await shown.page.context().close()
  })

  t.test('a schedule: enabled, run, disabled, cancelled', async (t) => {
    const agent = await named('watchman')
    const made = await does.create(agent)
    const schedule = { guest: agent, id: String(made.body['schedule_id']) }
    const shown = await open('light')
    await shown.select('schedule', schedule.id)
    await shown.page.waitForSelector('.state.leaf.active')
    await keep(shown, 'schedule-1-enabled')
    await does.run(schedule)
    await shown.page.waitForSelector('.event')
    await keep(shown, 'schedule-2-run')
    await does.patch(schedule, { enabled: false })
    await inState(shown, 'disabled')
    await keep(shown, 'schedule-3-disabled')
    await send(agent, 'DELETE', `/api/task/schedule/${schedule.id}`)
    await inState(shown, 'cancelled')
    await shown.tab('History')
    await shown.page.waitForSelector('.history-row')
    await keep(shown, 'schedule-4-cancelled')
    t.strictSame(shown.faults, [])
    await shown.page.context().close()
  })

  t.test('a bounty: open, a claim that does not match, claimed, its sequence', async (t) => {
    const [poster, claimer] = [await named('poster'), await named('finder')]
    const { bounty_id: id } = await send(poster, 'POST', '/api/bounties', {
      title: 'Gas on Base',
      description: 'What does a transfer of USDC cost right now, and why?',
      domain: 'base',
      reward_usdc: 0.25,
      required_keywords: ['gas'],
    })
    const claim = (content: string) =>
      main.ask('POST', `/api/bounties/${String(id)}/claim`, { key: claimer.key, json: { content } })
    const shown = await open('dark')
    await shown.select('bounty', String(id))
    await inState(shown, 'open')
    await keep(shown, 'bounty-1-open')
    t.ok((await claim('nothing of use')).status >= 400)
    await keepRefusal(shown, 'bounty_mismatch', 'bounty-2-mismatch')
    t.equal((await claim('A transfer takes 65,000 gas, so 0.01 USDC.')).status, 200)
    await inState(shown, 'claimed')
    await keep(shown, 'bounty-3-claimed')
    // The reward is a message to the claimer, which its next request takes.
    t.ok((await main.balance(claimer)) > 0.25, 'the reward has arrived')
    await shown.tab('Sequence')
    await shown.page.selectOption('.sequence-bar select', String(id))
    await shown.page.waitForSelector('.note:has-text("from the journal")')
    t.ok(
      (await shown.page.locator('.message').count()) >= 5,
      'escrow, open, refused, claimed, paid',
    )
    t.strictSame(
      (await shown.page.locator('.lane-name').allTextContents()).toSorted(),
      ['', '', 'Gas on Base', 'finder', 'poster'].toSorted(),
      'the poster, the bounty and the claimer',
    )
    t.match(await shown.page.locator('.commit-name').allTextContents(), ['bounty.post'])
    await keep(shown, 'bounty-4-sequence')
    await shown.select('agent', poster.id)
    await shown.tab('Agent')
    await shown.page.waitForSelector('.card-name')
    await keep(shown, 'agent-5-all-that-belongs-to-it')
    t.strictSame(shown.faults, [])
    await shown.page.context().close()
  })

  t.test('both themes in a small and in a large window', async (t) => {
    const agent = await named('night-watch')
    const fuse = { per_day_usdc: 0.008 }
    const id = await createAgentBackpack(main, agent, { agent_name: 'night watch', fuse })
    const headers = { 'x-backpack-id': id }
    t.equal((await main.call(agent, SCHEDULED_TOOL, {}, headers)).status, 200)
    for (const theme of ['dark', 'light'] as const)
      for (const [width, height] of [
        [1280, 800],
        [1920, 1080],
      ] as const) {
        const shown = await openInspectorInChromium(browser, main.url, OPERATOR_TOKEN, {
          width,
          height,
          theme,
        })
        await shown.select('backpack', id)
        await inState(shown, 'far')
        t.equal((await main.call(agent, SCHEDULED_TOOL, {}, headers)).status, 403)
        await keepRefusal(shown, 'FUSE_TRIPPED', `window-${theme}-${width}`)
        t.strictSame(await cutOff(shown.page), [], 'nothing is cut off')
        t.strictSame(shown.faults, [])
        await shown.page.context().close()
      }
  })

  t.test('the series is small', async (t) => {
    const total = sizes.reduce((sum, size) => sum + size, 0)
    t.comment(`${sizes.length} screenshots, ${Math.round(total / 1024)} KiB`)
    t.ok(total < MAX_SCREENSHOT_BYTES)
  })
}

/** Buttons and headings that reach over the edge of the window or of the part that they are in. */
const cutOff = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`[...document.querySelectorAll('button, h1, h2, .facts, .counts')]
    .filter((one) => one.offsetParent !== null && !one.closest('.actor, .event'))
    .filter((one) => {
      const box = one.getBoundingClientRect()
      const part = one.parentElement.getBoundingClientRect()
      return box.left < part.left - 1 || box.right > part.right + 1 || box.right > innerWidth
    })
    .map((one) => one.className + ' ' + one.textContent)`)
