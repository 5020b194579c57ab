import { rmSync } from 'node:fs'
import { basename } from 'node:path'
import type { Browser } from 'playwright-core'
import { chromium } from 'playwright-core'
import { openPlaywrightSession, type PlaywrightSession } from './playwright-session.ts'
import {
  BROWSER_TEMP_PREFIX,
  PageActionError,
  type BrowserHostRequest,
  type PageFailure,
  type MessageFromBrowserHost,
  type LaunchedChromium,
  type PageSnapshot,
  type MessageToBrowserHost,
} from './ipc-protocol.ts'

/**
 * The program of a browser host: it drives one Chromium for the station that started it. Apart from
 * the station, since what a page says to its driver (its console, its dialogs) has no bound.
 */
const START_MS = 20_000
const MAX_FAULT_DETAIL_CHARS = 300

/** Names are found by proxies and by nobody else, and nothing goes past them. */
const CHROMIUM_ARGUMENTS = [
  '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
  '--disable-quic',
  '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
  '--webrtc-ip-handling-policy=disable_non_proxied_udp',
  '--no-pings',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-breakpad',
  '--js-flags=--max-old-space-size=256',
]
/** Where nobody listens: what Chromium asks outside of a page gets nowhere. */
const UNREACHABLE_PROXY = 'http://127.0.0.1:9'

/** From the moment that they are asked for: their end may be asked for before they are open. */
const sessions = new Map<number, Promise<PlaywrightSession>>()
const pendingPermissions = new Map<number, (may: boolean) => void>()
let browser: Browser | null = null
let userAgent = ''

const sendHostMessage = (word: MessageFromBrowserHost): void => void process.send?.(word)

async function launchChromium(
  ask: BrowserHostRequest & { op: 'launch' },
): Promise<LaunchedChromium> {
  const started = await chromium.launch({
    executablePath: ask.executable,
    chromiumSandbox: ask.sandbox,
    headless: true,
    proxy: { server: UNREACHABLE_PROXY, bypass: '<-loopback>' },
    args: CHROMIUM_ARGUMENTS,
    env: { PATH: ask.path, HOME: process.cwd(), TMPDIR: process.cwd() },
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
    timeout: START_MS,
  })
  browser = started
  // Without it a host is of no use.
  started.on('disconnected', () => process.exit(1))
  const major = started.version().split('.')[0] ?? ''
  const platform = `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)`
  userAgent = `${platform} HeadlessChrome/${major}.0.0.0 Safari/537.36 ${ask.userAgent}`
  const protocol = await started.newBrowserCDPSession()
  const { processInfo } = await protocol.send('SystemInfo.getProcessInfo')
  await protocol.detach()
  return { pid: processInfo.find(({ type }) => type === 'browser')?.id ?? 0 }
}

/** Announces an act that may have effects, and waits for leave. */
async function awaitActPermission(id: number): Promise<void> {
  const may = await new Promise<boolean>((resolve) => {
    pendingPermissions.set(id, resolve)
    sendHostMessage({ before: id })
  })
  pendingPermissions.delete(id)
  if (!may) throw new PageActionError({ kind: 'failed', detail: 'it was called off' })
}

async function handleHostRequest(
  id: number,
  ask: BrowserHostRequest,
): Promise<PageSnapshot | LaunchedChromium | null> {
  if (ask.op === 'launch') return launchChromium(ask)
  if (ask.op === 'open') {
    if (browser === null) throw new Error('nothing was launched')
    const { session: number, proxy } = ask
    const opening = openPlaywrightSession(browser, proxy, userAgent, () =>
      sendHostMessage({ sent: number }),
    )
    sessions.set(number, opening)
    await opening
    return null
  }
  if (ask.op === 'quit') {
    await browser?.close()
    return process.exit(0)
  }
  const session = await sessions.get(ask.session)
  if (session === undefined) throw new Error('no such session')
  switch (ask.op) {
    case 'goto':
      await session.goto(ask.url)
      return null
    case 'fill':
      await session.fill(ask.name, ask.value)
      return null
    case 'select':
      await session.select(ask.name, ask.value)
      return null
    case 'check':
      await session.check(ask.name)
      return null
    case 'click':
      await session.click(ask.name, () => awaitActPermission(id))
      return null
    case 'submit':
      await session.submit(ask.name, () => awaitActPermission(id))
      return null
    case 'page':
      return session.page(ask.maxLength)
    case 'close':
      sessions.delete(ask.session)
      await session.close()
      return null
  }
}

/** What Playwright says of a failure begins with its call, and goes on with a log. */
function toPageFailure(error: unknown): PageFailure {
  if (error instanceof PageActionError) return error.fault
  const message = error instanceof Error ? error.message : String(error)
  const [line = ''] = message.split('\n')
  const detail = line
    .replace(/^[a-zA-Z]+\.[a-zA-Z]+: (Error: )?/, '')
    .slice(0, MAX_FAULT_DETAIL_CHARS)
  return { kind: 'failed', detail }
}

process.on('message', (word: MessageToBrowserHost) => {
  if ('go' in word) {
    pendingPermissions.get(word.go)?.(word.may)
    return
  }
  const { id, ...ask } = word
  handleHostRequest(id, ask as BrowserHostRequest).then(
    (value) => sendHostMessage({ id, value }),
    (error: unknown) => sendHostMessage({ id, fault: toPageFailure(error) }),
  )
})
// It ends with its station, and Chromium with it; a station that was killed cannot tidy up.
process.on('disconnect', () => process.exit(0))
process.on('exit', () => {
  const folder = process.cwd()
  if (!basename(folder).startsWith(BROWSER_TEMP_PREFIX)) return
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
})
