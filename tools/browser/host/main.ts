import { rmSync } from 'node:fs'
import { basename } from 'node:path'
import type { Browser } from 'playwright-core'
import { chromium } from 'playwright-core'
import { openSession, type Session } from './session.ts'
import {
  FOLDER,
  PageFault,
  type Ask,
  type Fault,
  type FromHost,
  type Launched,
  type PageSaid,
  type ToHost,
} from './wire.ts'

/**
 * The program of a browser host: it drives one Chromium for the station that started it. Apart from
 * the station, since what a page says to its driver (its console, its dialogs) has no bound.
 */
const START_MS = 20_000
const LONGEST_DETAIL = 300

/** Names are found by proxies and by nobody else, and nothing goes past them. */
const FENCE = [
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
const NOWHERE = 'http://127.0.0.1:9'

/** From the moment that they are asked for: their end may be asked for before they are open. */
const sessions = new Map<number, Promise<Session>>()
const waiting = new Map<number, (may: boolean) => void>()
let browser: Browser | null = null
let userAgent = ''

const say = (word: FromHost): void => void process.send?.(word)

async function launch(ask: Ask & { op: 'launch' }): Promise<Launched> {
  const started = await chromium.launch({
    executablePath: ask.executable,
    chromiumSandbox: ask.sandbox,
    headless: true,
    proxy: { server: NOWHERE, bypass: '<-loopback>' },
    args: FENCE,
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
async function before(id: number): Promise<void> {
  const may = await new Promise<boolean>((resolve) => {
    waiting.set(id, resolve)
    say({ before: id })
  })
  waiting.delete(id)
  if (!may) throw new PageFault({ kind: 'failed', detail: 'it was called off' })
}

async function answer(id: number, ask: Ask): Promise<PageSaid | Launched | null> {
  if (ask.op === 'launch') return launch(ask)
  if (ask.op === 'open') {
    if (browser === null) throw new Error('nothing was launched')
    const { session: number, proxy } = ask
    const opening = openSession(browser, proxy, userAgent, () => say({ sent: number }))
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
      await session.click(ask.name, () => before(id))
      return null
    case 'submit':
      await session.submit(ask.name, () => before(id))
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
function faultOf(error: unknown): Fault {
  if (error instanceof PageFault) return error.fault
  const message = error instanceof Error ? error.message : String(error)
  const [line = ''] = message.split('\n')
  const detail = line.replace(/^[a-zA-Z]+\.[a-zA-Z]+: (Error: )?/, '').slice(0, LONGEST_DETAIL)
  return { kind: 'failed', detail }
}

process.on('message', (word: ToHost) => {
  if ('go' in word) {
    waiting.get(word.go)?.(word.may)
    return
  }
  const { id, ...ask } = word
  answer(id, ask as Ask).then(
    (value) => say({ id, value }),
    (error: unknown) => say({ id, fault: faultOf(error) }),
  )
})
// It ends with its station, and Chromium with it; a station that was killed cannot tidy up.
process.on('disconnect', () => process.exit(0))
process.on('exit', () => {
  const folder = process.cwd()
  if (!basename(folder).startsWith(FOLDER)) return
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
})
