import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chromium, type Browser, type Page } from 'playwright-core'

/** Opens the page of the inspector in Chromium, signed in, and takes screenshots of it. */

const CHROMIUM = '/usr/bin/chromium'
/** What `t.test` skips with where there is no Chromium. */
export const skipWithoutChromium = existsSync(CHROMIUM) ? false : `${CHROMIUM} is not installed`

export const launchChromium = (): Promise<Browser> =>
  chromium.launch({
    executablePath: CHROMIUM,
    headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  })

export interface InspectorWindowOptions {
  readonly width: number
  readonly height: number
  readonly theme: 'light' | 'dark'
}

export interface InspectorInChromium {
  readonly page: Page
  /** Errors and warnings of the browser, and requests to other hosts. */
  readonly faults: readonly string[]
  /** Selects an actor, as a click on its row. */
  select(kind: string, id: string): Promise<void>
  /** Opens a tab of the centre. */
  tab(name: 'Chart' | 'History' | 'Sequence' | 'Agent'): Promise<void>
  /** The names of the active leaves on the chart. */
  activeLeaves(): Promise<string[]>
}

const SIGN_IN_MS = 20_000

/** Opens the page at this address and signs in with the operator token. */
export async function openInspectorInChromium(
  browser: Browser,
  url: string,
  token: string,
  { width, height, theme }: InspectorWindowOptions,
): Promise<InspectorInChromium> {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme })
  const page = await context.newPage()
  const faults: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(message.text())
  })
  page.on('pageerror', (error) => faults.push(String(error.stack)))
  page.on('dialog', (dialog) => {
    faults.push(`dialog ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:'))
      faults.push(`request to ${request.url()}`)
  })
  await page.goto(`${url}/inspector`)
  await page.fill('input[name=proof]', token)
  await page.click('button[type=submit]')
  await page.waitForSelector('.dot.live', { timeout: SIGN_IN_MS })
  return {
    page,
    faults,
    async select(kind, id) {
      await page.goto(`${url}/inspector#${kind}/${encodeURIComponent(id)}`)
      await page.waitForSelector(`.facts:has-text("${id}")`)
    },
    async tab(name) {
      await page.click(`[role=tab]:text-is("${name}")`)
    },
    activeLeaves: () => page.locator('.state.leaf.active > .name').allTextContents(),
  }
}

const WEBP_QUALITY = 72

/** Takes screenshots as WebP files of a folder. */
export function createWebpScreenshotTaker(folder: string) {
  mkdirSync(folder, { recursive: true })
  return async (page: Page, name: string): Promise<number> => {
    const session = await page.context().newCDPSession(page)
    const { data } = await session.send('Page.captureScreenshot', {
      format: 'webp',
      quality: WEBP_QUALITY,
    })
    await session.detach()
    const image = Buffer.from(data, 'base64')
    writeFileSync(join(folder, `${name}.webp`), image)
    return image.length
  }
}
