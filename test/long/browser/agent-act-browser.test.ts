import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { overrideTmpdirDuringTest } from '../../support/temporary-directory.ts'
import t from 'tap'
import { WebSocket } from 'ws'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import agentAct from '../../../tools/perception/agent-act.ts'
import { createHeadlessBrowser } from '../../../providers/browser/headless-browser.ts'
import { isAnalyticsRequest } from '../../../providers/browser/host/analytics-requests-without-side-effect.ts'
import { parseIpAddressAllowlist } from '../../../providers/egress/public-ip-address.ts'
import { createPageParserPool } from '../../../providers/pages/page-parser-pool.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'
import { startFixtureServer } from '../../support/upstreams/fixture-server.ts'
import {
  createRecordingToolContext,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const CHROMIUM = '/usr/bin/chromium'
const skip = existsSync(CHROMIUM) ? false : `there is no ${CHROMIUM}`
const VAGUE = 'Please look around'
const quiet = new AbortController().signal

/** Folder of the browsers of this file, accessible for uid nobody. */
const folder = overrideTmpdirDuringTest(t, 'gc-')

/** Chromium with a second way in, by which its contexts can be counted. */
function watched(): string {
  const program = join(folder, 'chromium')
  writeFileSync(program, `#!/bin/sh\nexec ${CHROMIUM} --remote-debugging-port=0 "$@"\n`)
  chmodSync(program, 0o755)
  return program
}

/** The number of contexts of Chromium; its profile names the debugging port. */
async function contexts(): Promise<number> {
  const files = readdirSync(folder, { recursive: true }).map(String)
  const name = files.find((one) => one.endsWith('DevToolsActivePort')) ?? ''
  const [port, path] = readFileSync(join(folder, name), 'utf8').split('\n')
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`)
  await once(socket, 'open')
  socket.send('{"id":1,"method":"Target.getBrowserContexts"}')
  const [answer] = await once(socket, 'message')
  socket.close()
  const { result } = JSON.parse(String(answer)) as { result: { browserContextIds: string[] } }
  return result.browserContextIds.length
}

const PAGE = `<!doctype html><title>Links</title>
  <a href="/calm" onclick="0">Button</a>
  <a href="/calm" id="beacon">Beacon</a><a href="/calm" id="collector">Collector</a>
  <a href="/calm" ping="/ping">Ping</a><a href="/calm" id="image">Image</a>
  <a href="/calm" id="other">Other</a><a href="/calm" id="same">Same</a>
  <a href="/calm" id="xhr">Request</a><a href="/calm" id="frame">Frame</a>
  <form action="/away" method="post"><button>Send</button></form><iframe name="inner"></iframe>
  <form id="inward" target="inner" action="/inner" method="post"></form>
  <script>
    const post = (url) => fetch(url, { method: 'POST', body: 'x', mode: 'no-cors', keepalive: true }).catch(() => {})
    beacon.onclick = () => void navigator.sendBeacon('/beacon', 'x')
    collector.onclick = () => void post('http://bam.nr-data.net:PORT/collect')
    image.onclick = () => void (new Image().src = '/image')
    other.onclick = () => void post('http://forms.test:PORT/other')
    same.onclick = () => void post('/same')
    xhr.onclick = () => { const x = new XMLHttpRequest(); x.open('PUT', '/xhr'); x.send('x') }
    frame.onclick = () => void inward.submit()
  </script>`

t.test('an analytics host is recognised by its name, and not on its own pages', async (t) => {
  const from = 'https://shop.test/'
  t.ok(isAnalyticsRequest('https://region1.google-analytics.com/g/collect', from))
  t.ok(isAnalyticsRequest('wss://ws.hotjar.com/api', from))
  t.notOk(isAnalyticsRequest('https://notgoogle-analytics.com/', from))
  t.notOk(isAnalyticsRequest('https://google-analytics.com.shop.test/', from))
  t.notOk(isAnalyticsRequest('https://api.segment.io/', 'https://app.api.segment.io/'))
  t.notOk(isAnalyticsRequest('no address', from))
  for (const host of [
    'eu.i.posthog.com',
    'api.mixpanel.com',
    'o1.ingest.sentry.io',
    'bat.bing.com',
  ])
    t.ok(isAnalyticsRequest(`https://${host}/`, from), host)
  // Hosts that serve both analytics and an API: requests to them may be intended by the user.
  for (const host of ['app.posthog.com', 'mixpanel.com', 'app.segment.io', 'sentry.io', 'bing.com'])
    t.notOk(isAnalyticsRequest(`https://${host}/`, from), host)
})

t.test('actions in a browser', { skip }, async (t) => {
  const site = await startFixtureServer(t, (request, response) => {
    if (request.url === '/away')
      return void response.writeHead(303, { location: 'http://169.254.169.254/' }).end()
    if (request.url === '/never') return
    response.setHeader('content-type', 'text/html')
    response.end(request.url === '/' ? PAGE.replaceAll('PORT', String(site.port)) : '<p>calm')
  })
  const made = createHeadlessBrowser({
    clock: createDatabaseAdjustedClock(),
    executable: watched(),
    searchPath: '/usr/bin:/bin',
    userAgent: 'gas-test/1',
    production: false,
    allow: parseIpAddressAllowlist(`127.0.0.1:${site.port}`),
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
    log: (message: string, error: unknown) => t.comment(`${message}: ${String(error)}`),
  })
  const pages = createPageParserPool()
  t.teardown(() => Promise.all([made.close(), pages.close()]))

  /** Clicks a link, waits for its requests, and returns whether the page has sent something. */
  async function sends(name: string, arrives: string | null): Promise<boolean> {
    site.requests.length = 0
    const session = await made.browser.openSession({ owner: 'one', signal: quiet })
    let sent = false
    session.onSideEffect(() => (sent = true))
    await session.goto(`${site.base}/`)
    await session.click(name, () => (sent = true))
    if (arrives !== null) await waitUntilTrue(arrives, () => site.requests.includes(arrives))
    await session.page()
    await session.close()
    return sent
  }

  await t.test('beacons, images, pings and analytics hosts do not count as sent', async (t) => {
    t.equal(await sends('Beacon', 'POST /beacon'), false, 'a beacon')
    t.equal(await sends('Collector', 'POST /collect'), false, 'a collector of another site')
    t.equal(await sends('Image', 'GET /image'), false, 'an image')
    t.equal(await sends('Ping', 'GET /calm'), false, 'a link that pings')
  })

  await t.test('every other request except GET counts as sent', async (t) => {
    t.equal(await sends('Same', 'POST /same'), true, 'the same site')
    t.equal(await sends('Other', 'POST /other'), true, 'another site that may well do something')
    t.equal(await sends('Request', 'PUT /xhr'), true)
    t.equal(await sends('Frame', 'POST /inner'), true, 'a form, whichever window it is sent in')
    t.equal(await sends('Button', null), true, 'a link that is more than one')
  })

  await t.test('the browser context is closed after every outcome', async (t) => {
    const warm = await made.browser.openSession({ owner: 'one', signal: quiet })
    t.equal(await contexts(), 1, 'an open one is counted')
    await warm.close()
    t.equal(await contexts(), 0)

    const asked: string[] = []
    const complete = async () => {
      asked.push('model')
      throw new Error('the model is away')
    }
    const act = (path: string, instruction: string, more = {}) => {
      const llm = { complete } as never
      const ports = { browser: made.browser, pages, egress: {} as never, llm, ...more }
      const { context: given } = createRecordingToolContext(ports)
      const url = path.startsWith('/') ? `${site.base}${path}` : path
      const input = { url, instruction, engine: 'browser' as const }
      return agentAct.run(input, given)
    }
    const seal = () => {
      throw new Error('no seal')
    }
    const leaving = new AbortController()
    const ways: [string, object, () => Promise<unknown>][] = [
      ['done', { ok: true }, () => act('/', 'click Image, extract text')],
      ['a step that fails', { code: 'step_failed' }, () => act('/', 'click Nothing')],
      ['a failure behind a submission', { ok: false }, () => act('/', 'click Send')],
      ['no such address', { code: 'blocked_url' }, () => act('http://169.254.169.254/', VAGUE)],
      ['no way there', { code: 'blocked_url' }, () => act('/away', VAGUE)],
      ['no model', { message: 'the model is away' }, () => act('/', VAGUE)],
      ['a refused seal', { message: 'no seal' }, () => act('/', 'click Send', { seal })],
    ]
    for (const [name, outcome, way] of ways) {
      if (name === 'no model') t.strictSame(asked, [], 'it is asked when the page is there')
      t.match(await way().catch((error: unknown) => error), outcome, name)
      t.equal(await contexts(), 0, `${name}: it is closed`)
    }
    t.strictSame(asked, ['model'])
    site.requests.length = 0
    const left = act('/never', 'extract title', { signal: leaving.signal }).catch(() => 'left')
    await waitUntilTrue('the page is asked for', () => site.requests.includes('GET /never'))
    t.equal(await contexts(), 1)
    leaving.abort(new Error('gone'))
    t.equal(await left, 'left')
    t.equal(await contexts(), 0, 'a caller who goes away')
    await awaitRejectionDetails(
      made.browser.render({ url: `${site.base}/away`, owner: 'one', signal: quiet }),
    )
    t.equal(await contexts(), 0, 'a page that is not shown')
    await made.close()
  })
})
