import { setTimeout as sleep } from 'node:timers/promises'
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core'
import {
  locateFormControl,
  locateFirstVisible,
  locateForm,
  locateClickTarget,
} from './page-control-locators.ts'
import {
  watchPageSideEffects,
  stripRequestUrlHash,
  type PageSideEffectRequestWatcher,
} from './page-side-effect-watcher.ts'
import { monitorPageNetwork, type PageNetworkMonitor } from './page-network-monitor.ts'
import { PageActionError, type RenderedPageHtmlAndStatus } from './browser-host-protocol.ts'

/** A browser context with the page that is acted on. */
export interface PlaywrightSession {
  goto(url: string): Promise<void>
  fill(name: string, value: string): Promise<void>
  select(name: string, option: string): Promise<void>
  check(name: string): Promise<void>
  click(name: string, before: AwaitSideEffectPermission): Promise<void>
  submit(name: string | null, before: AwaitSideEffectPermission): Promise<void>
  page(maxLength: number): Promise<RenderedPageHtmlAndStatus>
  close(): Promise<void>
}

/** Waits for permission to perform an action with possible side effects; rejects without it. */
export type AwaitSideEffectPermission = () => Promise<void>

interface MonitoredPage {
  readonly page: Page
  readonly traffic: PageNetworkMonitor
}

const ACTION_TIMEOUT_MS = 5_000
/** Idle time to wait for after a step that may navigate, and after one that only enters data. */
const NAVIGATION_IDLE_MS = 250
const INPUT_IDLE_MS = 50
const NAVIGATION_TIMEOUT_MS = 15_000
const MAX_SESSION_PAGES = 4
const SUBMIT_BUTTON_SELECTOR =
  'button:not([type]), button[type="submit" i], input[type="submit" i], input[type="image" i]'
/** Links without a script of their own. */
const PLAIN_LINK_SELECTOR = 'a[href]:not([onclick], [data-method], [data-turbo-method])'
const CHECKBOX_OR_RADIO_SELECTOR = 'input[type="checkbox" i], input[type="radio" i]'

/**
 * Opens a session. `sent` is called once, when a page sends a request with possible side effects by itself.
 */
export async function openPlaywrightSession(
  browser: Browser,
  proxy: string,
  userAgent: string,
  sent: () => void,
): Promise<PlaywrightSession> {
  const context = await browser.newContext({
    // One per context; Chromium itself has an unreachable proxy.
    proxy: { server: proxy, bypass: '<-loopback>' },
    serviceWorkers: 'block',
    acceptDownloads: false,
    permissions: [],
    userAgent,
  })
  context.setDefaultTimeout(ACTION_TIMEOUT_MS)
  let told = false
  const sends = watchPageSideEffects(context, () => {
    if (!told) sent()
    told = true
  })
  try {
    return createPlaywrightSession(context, toMonitoredPage(await context.newPage()), sends)
  } catch (error) {
    await context.close().catch(() => {})
    throw error
  }
}

const toMonitoredPage = (page: Page): MonitoredPage => ({ page, traffic: monitorPageNetwork(page) })

function createPlaywrightSession(
  context: BrowserContext,
  first: MonitoredPage,
  sends: PageSideEffectRequestWatcher,
): PlaywrightSession {
  let tab = first
  /** Windows that the page opened, newest last. */
  const beside: MonitoredPage[] = []
  /** The form that was last filled. */
  let written: Locator | null = null

  context.on('page', (page) => {
    if (context.pages().length > MAX_SESSION_PAGES) void page.close().catch(() => {})
    else beside.push(toMonitoredPage(page))
  })

  /** Performs an action and waits for its effects; continues in a window that it opens. */
  async function act(work: () => Promise<void>, quietMs = INPUT_IDLE_MS): Promise<void> {
    tab.traffic.reset()
    beside.length = 0
    sends.startWatching(null)
    try {
      await work()
    } catch (error) {
      // A request that was sent anyway is reported before the failure.
      await sleep(INPUT_IDLE_MS)
      throw error
    }
    await tab.traffic.waitForIdle(quietMs)
    const opened = beside.findLast(({ page }) => !page.isClosed())
    if (opened === undefined) return
    await opened.traffic.waitForIdle(quietMs)
    const left = tab
    tab = opened
    written = null
    await left.page.close().catch(() => {})
  }

  return {
    async goto(url) {
      written = null
      await act(async () => {
        sends.stopWatching()
        // The network monitor reports the failure with its address.
        await tab.page
          .goto(url, { waitUntil: 'commit', timeout: NAVIGATION_TIMEOUT_MS })
          .catch((error: unknown) => assertNavigationError(error, url))
      }, NAVIGATION_IDLE_MS)
    },
    async fill(name, value) {
      await act(async () => {
        const field = await locateFormControl(tab.page, 'text', name)
        await field.fill(value)
        written = field
      })
    },
    async select(name, option) {
      await act(async () => {
        const list = await locateFormControl(tab.page, 'choice', name)
        await list.selectOption({ index: await optionIndex(list, option) })
        written = list
      })
    },
    async check(name) {
      await act(async () => {
        const box = await locateFormControl(tab.page, 'tick', name)
        await box.check()
        written = box
      })
    },
    async click(name, before) {
      await act(async () => {
        const wanted = await locateClickTarget(tab.page, name)
        // An unclickable target fails before the action counts as done.
        await wanted.click({ trial: true })
        const leads = await plainLinkTarget(tab.page, wanted)
        const ticks =
          leads === null &&
          (await wanted.and(tab.page.locator(CHECKBOX_OR_RADIO_SELECTOR)).count()) > 0
        if (leads === null && !ticks) await before()
        sends.startWatching(leads)
        await wanted.click()
      }, NAVIGATION_IDLE_MS)
    },
    async submit(name, before) {
      await act(async () => {
        const wanted = await findTargetForm(tab.page, name, written)
        const failure = await findFormError(wanted)
        if (failure !== null) throw new PageActionError({ kind: 'failed', detail: failure })
        const button = wanted.locator(SUBMIT_BUTTON_SELECTOR).filter({ visible: true }).first()
        const clickable = (await button.count()) > 0
        if (clickable) await button.click({ trial: true })
        await before()
        if (clickable) await button.click()
        else await wanted.evaluate((node) => (node as unknown as Submittable).requestSubmit())
      }, NAVIGATION_IDLE_MS)
    },
    page: (maxLength) => readPageSnapshot(context, tab, maxLength),
    close: () => context.close(),
  }
}

/** Throws for failures that the network monitor does not see: a download, or a page that never responds. */
function assertNavigationError(error: unknown, url: string): void {
  const message = error instanceof Error ? error.message : String(error)
  if (message.includes('Download is starting'))
    throw new PageActionError({ kind: 'failed', detail: 'it is a file, not a page', url })
  if (message.includes('Timeout'))
    throw new PageActionError({ kind: 'timeout', detail: 'the page did not load in time', url })
  if (!message.includes('net::')) throw error
}

/**
 * Returns the target of a link that only navigates; null for other elements. It is read outside the page's
 * own scripts; what they do instead shows in the requests of the page.
 */
async function plainLinkTarget(page: Page, wanted: Locator): Promise<string | null> {
  const link = wanted.and(page.locator(PLAIN_LINK_SELECTOR))
  if ((await link.count()) === 0) return null
  const base = page.locator('base[href]').first()
  const named = (await base.count()) > 0 ? ((await base.getAttribute('href')) ?? '') : ''
  const from = URL.canParse(named, page.url()) ? new URL(named, page.url()).href : page.url()
  const href = (await link.getAttribute('href')) ?? ''
  if (!URL.canParse(href, from)) return null
  const url = new URL(href, from)
  const isAway =
    /^https?:$/.test(url.protocol) &&
    stripRequestUrlHash(url.href) !== stripRequestUrlHash(page.url())
  return isAway ? url.href : null
}

interface Submittable {
  requestSubmit(): void
}

/** Returns the form by its name, the one last filled, or one that can be submitted. */
async function findTargetForm(
  page: Page,
  name: string | null,
  written: Locator | null,
): Promise<Locator> {
  if (name !== null) return locateForm(page, name)
  const around = written?.locator('xpath=ancestor::form').first()
  if (around !== undefined && (await around.count()) > 0) return around
  const forms = page.locator('form')
  return locateFirstVisible(
    [forms.filter({ has: page.locator(SUBMIT_BUTTON_SELECTOR) }), forms],
    'there is no form to submit',
  )
}

/** Returns why the page refuses to submit the form, or null. */
async function findFormError(wanted: Locator): Promise<string | null> {
  const checked = await wanted.evaluate(
    (node) => (node as unknown as { noValidate: boolean }).noValidate,
  )
  if (checked) return null
  const missing = wanted.locator('input:invalid, select:invalid, textarea:invalid').first()
  if ((await missing.count()) === 0) return null
  const name =
    (await missing.getAttribute('name')) ?? (await missing.getAttribute('id')) ?? 'a field'
  return `the form does not take what is in "${name.slice(0, 100)}"`
}

/** Returns the index of an option by its text or value. */
async function optionIndex(list: Locator, option: string): Promise<number> {
  const plain = (text: string) => text.replace(/\s+/g, ' ').trim().toLowerCase()
  const wanted = plain(option)
  const options = list.locator('option')
  const texts = (await options.allTextContents()).map(plain)
  const whole = texts.indexOf(wanted)
  if (whole >= 0) return whole
  const values = await options.evaluateAll((nodes) =>
    nodes.map((node) => String((node as unknown as { value: string }).value)),
  )
  const place = values.findIndex((value) => plain(value) === wanted)
  if (place >= 0) return place
  throw new PageActionError({ kind: 'failed', detail: `it has no option "${option}"` })
}

/** Reads the document in an isolated world, so that the page cannot exceed the size limit. */
async function readPageSnapshot(
  context: BrowserContext,
  { page, traffic }: MonitoredPage,
  maxLength: number,
): Promise<RenderedPageHtmlAndStatus> {
  const protocol = await context.newCDPSession(page)
  try {
    const { frameTree } = await protocol.send('Page.getFrameTree')
    const { executionContextId } = await protocol.send('Page.createIsolatedWorld', {
      frameId: frameTree.frame.id,
    })
    const { result } = await protocol.send('Runtime.evaluate', {
      expression: `(document.documentElement?.outerHTML ?? '').slice(0, ${maxLength + 1})`,
      contextId: executionContextId,
      returnByValue: true,
    })
    const html = String(result.value ?? '')
    return {
      html: html.slice(0, maxLength),
      truncated: html.length > maxLength,
      url: page.url(),
      status: traffic.status(),
      contentType: traffic.contentType(),
    }
  } finally {
    await protocol.detach().catch(() => {})
  }
}
