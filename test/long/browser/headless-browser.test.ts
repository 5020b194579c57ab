import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { overrideTmpdirDuringTest } from '../../support/temporary-directory.ts'
import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { createHeadlessBrowser } from '../../../providers/browser/headless-browser.ts'
import {
  startBrowserHostProcess,
  type BrowserHostProcess,
  type BrowserHostSettings,
} from '../../../providers/browser/spawn-browser-host-child-process.ts'
import { findChromium } from '../../../providers/browser/find-chromium.ts'
import { parseIpAddressAllowlist } from '../../../providers/egress/public-ip-address.ts'
import { startFixtureServer } from '../../support/upstreams/fixture-server.ts'
import { awaitRejectionDetails } from '../../support/tools/test-tool-context.ts'

const CHROMIUM = '/usr/bin/chromium'
const skip = existsSync(CHROMIUM) ? false : `there is no ${CHROMIUM}`
const { signal } = new AbortController()

/**
 * The main processes of the Chromiums that work for this one. Numbers of processes start again
 * at the top, so a child may have a smaller number than its parent.
 */
function mainChromiums(): number[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const of = new Map(all.map((pid) => [Number(pid), statOf(Number(pid))]))
  const isOurs = (pid: number): boolean => {
    const parent = of.get(pid)?.parent ?? 0
    return parent === process.pid || (parent > 1 && isOurs(parent))
  }
  return [...of].flatMap(([pid, stat]) => {
    const isMain = stat?.name === 'chromium' && of.get(stat.parent)?.name !== 'chromium'
    return isMain && isOurs(pid) ? [pid] : []
  })
}

function statOf(pid: number): { name: string; parent: number } | null {
  try {
    const [, name = '', parent] =
      /\((.*)\) . (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
    return { name, parent: Number(parent) }
  } catch {
    return null
  }
}

/** A host, the safest way that works here. */
async function anyHost(parts: BrowserHostSettings): Promise<BrowserHostProcess> {
  const nobody = process.getuid?.() === 0
  return startBrowserHostProcess(parts, { nobody, sandbox: true })
    .catch(() => startBrowserHostProcess(parts, { nobody, sandbox: false }))
    .catch(() => startBrowserHostProcess(parts, { nobody: false, sandbox: false }))
}

/** Folder of the browsers of this file only, accessible for uid nobody. */
const folder = overrideTmpdirDuringTest(t, 'gb-')

t.test('a set CHROMIUM_PATH is the only place to search for the browser', async (t) => {
  t.equal(findChromium('none', '/usr/bin'), null)
  t.equal(findChromium('/no/such/program', '/usr/bin'), null)
  t.equal(findChromium('/etc/passwd', ''), null)
  t.equal(findChromium(process.execPath, ''), process.execPath)
  t.equal(findChromium(null, '/no/such/folder:'), null)
})

t.test('isolated pages', { skip }, async (t) => {
  const inside = await startFixtureServer(t, (_, response) => response.end('secret'))
  const site = await startFixtureServer(t, (request, response) => {
    if (request.url === '/to')
      return void response.writeHead(302, { location: 'http://[::1]:8080/' }).end()
    if (request.url === '/file')
      return void response.writeHead(200, { 'content-disposition': 'attachment' }).end('x')
    response.setHeader('content-type', 'text/html')
    response.end(
      pages[request.url ?? ''] ?? '<p id="a">no</p><script>a.textContent = "yes"</script>',
    )
  })
  const reach = `
    const said = []
    const url = 'http://127.0.0.1:${inside.port}/'
    const tell = (name, work) => Promise.resolve().then(work).then(() => said.push(name + ' got through'), () => {})
    const socket = (url) => new Promise((yes, no) => { const s = new WebSocket(url); s.onopen = yes; s.onerror = no })
    const image = (src) => new Promise((yes, no) => { const i = new Image(); i.onload = yes; i.onerror = no; i.src = src })
    const names = ['127.0.0.1', 'localhost', '[::1]', '[::ffff:127.0.0.1]', '0', '2130706433', 'rebind.test', 'two.test']
    const at = (name) => url.replace('127.0.0.1', name)
    const post = { method: 'POST', body: 'x', mode: 'no-cors' }
    Promise.all([
      ...names.map((name) => tell('fetch ' + name, () => fetch(at(name), post))),
      tell('metadata', () => fetch('http://169.254.169.254/latest/', post)),
      tell('secure', () => fetch(at('localhost').replace('http', 'https'), post)),
      tell('socket', () => socket(url.replace('http', 'ws'))),
      tell('image', () => image(url)),
      tell('own', () => fetch('https://update.googleapis.com/', post)),
      tell('beacon', () => navigator.sendBeacon(url, 'x') && new Promise((_, no) => setTimeout(no, 100))),
      tell('worker', () => navigator.serviceWorker.register('/worker.js').then((r) => r ?? Promise.reject())),
      tell('rtc', () => new Promise((yes, no) => {
        const peer = new RTCPeerConnection({ iceServers: [{ urls: 'stun:127.0.0.1:${inside.port}' }] })
        peer.createDataChannel('x')
        peer.onicecandidate = ({ candidate }) => candidate ? yes() : no()
        peer.createOffer().then((offer) => peer.setLocalDescription(offer))
        setTimeout(no, 300)
      })),
    ]).then(() => { document.title = 'done'; out.textContent = JSON.stringify(said) })`
  const pages: Record<string, string> = {
    '/reach': `<p id="out">not yet</p><iframe src="http://127.0.0.1:${inside.port}/"></iframe><script>${reach}</script>`,
    '/spin': '<script>for (;;);</script>',
    '/loud':
      '<p>loud</p><script>const s = "x".repeat(2e7); for (let n = 0; n < 5; n++) console.log(s + n)</script>',
    '/long': `<script>document.write('<p>' + 'y'.repeat(3e6))</script>`,
  }
  const address = { 'rebind.test': ['127.0.0.1'], 'two.test': ['93.184.216.34', '127.0.0.1'] }
  const parts = {
    clock: createDatabaseAdjustedClock(),
    executable: CHROMIUM,
    searchPath: '/usr/bin:/bin',
    userAgent: 'gas-test/1',
    production: false,
    allow: parseIpAddressAllowlist(`127.0.0.1:${site.port}`),
    resolve: async (name: string) =>
      (address[name as keyof typeof address] ?? ['127.0.0.1']).map((one) => ({
        address: one,
        family: 4,
      })),
    maxPages: 2,
    maxSessions: 12,
    log: (message: string, error: unknown) => t.comment(`${message}: ${String(error)}`),
  }
  const made = createHeadlessBrowser(parts)
  t.teardown(() => made.close())
  const render = (path: string, more = {}) =>
    made.browser.render({
      url: path.startsWith('/') ? `${site.base}${path}` : path,
      owner: 'one',
      signal,
      ...more,
    })

  t.match(await render('/'), {
    html: /<p id="a">yes<\/p>/,
    url: `${site.base}/`,
    status: 200,
    contentType: 'text/html',
    truncated: false,
  })
  const [first = 0] = mainChromiums()
  t.ok(first > 1, 'Chromium works for this process')

  await t.test('a page cannot reach a private address', async (t) => {
    const { html } = await render('/reach')
    t.match(html, /<title>done<\/title>/)
    t.match(html, /<p id="out">\[\]<\/p>/)
    t.strictSame(inside.requests, [])
    const refused = (url: string) => awaitRejectionDetails(render(url))
    t.match(await refused('http://rebind.test/'), { code: 'blocked_url', host: 'rebind.test' })
    t.match(await refused('https://two.test/'), { code: 'blocked_url', host: 'two.test' })
    t.match(await refused('http://169.254.169.254/'), { code: 'blocked_url' })
    t.match(await refused('file:///etc/passwd'), { code: 'blocked_url', reason: 'scheme' })
    t.match(await refused('/to'), { code: 'blocked_url', host: '::1' })
    t.match(await refused('/file'), { code: 'step_failed' })
  })

  await t.test('a page that never finishes is closed, and others continue', async (t) => {
    const spinning = awaitRejectionDetails(render('/spin', { timeoutMs: 2_000 }))
    t.match(await render('/'), { status: 200 })
    t.match(await spinning, { code: 'upstream_timeout' })
    const { html, truncated } = await render('/long')
    t.ok(truncated && html.length <= 2 * 1024 * 1024)
    const loud = await awaitRejectionDetails(render('/loud', { timeoutMs: 8_000 }))
    t.match(loud, { code: /not refused|browser_busy|upstream_timeout/ })
    t.match(await render('/'), { status: 200 }, 'what a page shouts brings nobody down')
  })

  await t.test('slots are shared by owner, and the pages never exceed them', async (t) => {
    const open = (owner: string, by = signal) => made.browser.openSession({ owner, signal: by })
    const first = await open('one')
    const leaving = new AbortController()
    // Of two places an owner has one, and of those who wait eight are its own.
    const waiting = Array.from({ length: 8 }, () =>
      awaitRejectionDetails(open('one', leaving.signal)),
    )
    t.match(await awaitRejectionDetails(open('one')), { code: 'browser_busy', retry_after: 2 })
    const other = await open('other')
    t.ok(other, 'the other place is for others')
    leaving.abort(new ServiceError('cancelled'))
    t.match(await Promise.all(waiting), Array(8).fill({ code: 'cancelled' }))
    await Promise.all([first.close(), other.close()])
    t.match(await render('/'), { status: 200 })
  })

  await t.test('a page can be closed while it opens', async (t) => {
    const host = await anyHost(parts)
    const opening = host.request({ op: 'open', session: 1, proxy: 'http://127.0.0.1:9' })
    await Promise.all([opening, host.request({ op: 'close', session: 1 })])
    const left = await host.request({ op: 'page', session: 1, maxLength: 10 }).then(
      () => 'open',
      (error: Error) => error.message,
    )
    t.equal(left, 'no such session')
    await host.quit()
    const leaving = new AbortController()
    const cold = createHeadlessBrowser(parts)
    t.teardown(() => cold.close())
    const starting = awaitRejectionDetails(
      cold.browser.openSession({ owner: 'one', signal: leaving.signal }),
    )
    leaving.abort(new ServiceError('cancelled'))
    t.match(await starting, { code: 'cancelled' }, 'a cancelled caller does not wait for the start')
    await cold.close()
  })

  await t.test('a crashed Chromium is replaced', async (t) => {
    const session = await made.browser.openSession({ owner: 'one', signal })
    await session.goto(`${site.base}/`)
    const [pid = 0] = mainChromiums()
    process.kill(pid, 'SIGKILL')
    t.match(await awaitRejectionDetails(session.page()), { code: 'browser_busy' })
    await session.close()
    t.match(await render('/'), { status: 200 })
    t.not(mainChromiums()[0], first)
  })

  await t.test('a page that uses too much memory is closed', async (t) => {
    const small = createHeadlessBrowser({ ...parts, maxMemoryBytes: 1 })
    t.teardown(() => small.close())
    const url = `${site.base}/spin`
    t.match(await awaitRejectionDetails(small.browser.render({ url, owner: 'one', signal })), {
      code: 'browser_busy',
    })
    await small.close()
  })

  await made.close()
  t.strictSame(mainChromiums(), [], 'no process is left')
  t.strictSame(readdirSync(folder), [], 'and no profile')
  t.match(await awaitRejectionDetails(made.browser.openSession({ owner: 'one', signal })), {
    code: 'provider_not_configured',
  })
})
