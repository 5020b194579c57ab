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
  type RenderedPageHtmlAndStatus,
  type MessageToBrowserHost,
} from './browser-host-protocol.ts'

/**
 * The program of a browser host: it drives one Chromium for the station that started it. It is a separate
 * process, because the console and dialogs of a page send its driver unbounded data.
 */

const START_MS = 20_000
const MAX_FAULT_DETAIL_CHARS = 300

/** All traffic, including DNS, goes through the proxy. */
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
/** Nothing listens here, so requests of Chromium outside pages go nowhere. */
const UNREACHABLE_PROXY = 'http://127.0.0.1:9'

/** Added when requested, since a session may be closed before it is open. */
const sessions = new Map<number, Promise<PlaywrightSession>>()
const pendingPermissions = new Map<number, (may: boolean) => void>()
let browser: Browser | null = null
let userAgent = ''

const sendHostMessage = (word: MessageFromBrowserHost): void => void process.send?.(word)

async function launchChromium(
  hostRequest: BrowserHostRequest & { op: 'launch' },
): Promise<LaunchedChromium> {
  const started = await chromium.launch({
    executablePath: hostRequest.executable,
    chromiumSandbox: hostRequest.sandbox,
    headless: true,
    proxy: { server: UNREACHABLE_PROXY, bypass: '<-loopback>' },
    args: CHROMIUM_ARGUMENTS,
    env: { PATH: hostRequest.path, HOME: process.cwd(), TMPDIR: process.cwd() },
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
    timeout: START_MS,
  })
  browser = started
  // The host is useless without its Chromium.
  started.on('disconnected', () => process.exit(1))
  const major = started.version().split('.')[0] ?? ''
  const platform = `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)`
  userAgent = `${platform} HeadlessChrome/${major}.0.0.0 Safari/537.36 ${hostRequest.userAgent}`
  const protocol = await started.newBrowserCDPSession()
  const { processInfo } = await protocol.send('SystemInfo.getProcessInfo')
  await protocol.detach()
  return { pid: processInfo.find(({ type }) => type === 'browser')?.id ?? 0 }
}

/** Announces an action with possible side effects, and waits for permission. */
async function awaitActPermission(id: number): Promise<void> {
  const may = await new Promise<boolean>((resolve) => {
    pendingPermissions.set(id, resolve)
    sendHostMessage({ before: id })
  })
  pendingPermissions.delete(id)
  if (!may) throw new PageActionError({ kind: 'failed', detail: 'the action was cancelled' })
}

async function handleHostRequest(
  id: number,
  hostRequest: BrowserHostRequest,
): Promise<RenderedPageHtmlAndStatus | LaunchedChromium | null> {
  if (hostRequest.op === 'launch') return launchChromium(hostRequest)
  if (hostRequest.op === 'open') {
    if (browser === null) throw new Error('no browser was launched')
    const { session: number, proxy } = hostRequest
    const opening = openPlaywrightSession(browser, proxy, userAgent, () =>
      sendHostMessage({ sent: number }),
    )
    sessions.set(number, opening)
    await opening
    return null
  }
  if (hostRequest.op === 'quit') {
    await browser?.close()
    return process.exit(0)
  }
  const session = await sessions.get(hostRequest.session)
  if (session === undefined) throw new Error('no such session')
  switch (hostRequest.op) {
    case 'goto':
      await session.goto(hostRequest.url)
      return null
    case 'fill':
      await session.fill(hostRequest.name, hostRequest.value)
      return null
    case 'select':
      await session.select(hostRequest.name, hostRequest.value)
      return null
    case 'check':
      await session.check(hostRequest.name)
      return null
    case 'click':
      await session.click(hostRequest.name, () => awaitActPermission(id))
      return null
    case 'submit':
      await session.submit(hostRequest.name, () => awaitActPermission(id))
      return null
    case 'page':
      return session.page(hostRequest.maxLength)
    case 'close':
      sessions.delete(hostRequest.session)
      await session.close()
      return null
  }
}

/** A Playwright error starts with the name of its call and ends with a log; both are removed. */
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
  const { id, ...hostRequest } = word
  handleHostRequest(id, hostRequest as BrowserHostRequest).then(
    (value) => sendHostMessage({ id, value }),
    (error: unknown) => sendHostMessage({ id, fault: toPageFailure(error) }),
  )
})
// The host and Chromium end with their station, which cannot clean up when it is killed.
process.on('disconnect', () => process.exit(0))
process.on('exit', () => {
  const folder = process.cwd()
  if (!basename(folder).startsWith(BROWSER_TEMP_PREFIX)) return
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
})
