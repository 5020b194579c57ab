import { existsSync } from 'node:fs'
import t, { type TAP } from 'tap'
import agentAct from '../../../tools/perception/agent-act.ts'
import {
  startInProcessTestStation,
  type TestAgent,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import { startTestLlmApi, type LlmApiServer } from '../../support/upstreams/test-llm-api.ts'
import { startFixtureServer, type TeardownScope } from '../../support/upstreams/fixture-server.ts'
import {
  startTestShopWebsite,
  type TestShopWebsite,
} from '../../support/upstreams/test-shop-website.ts'
import {
  createRecordingToolContext,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const CHROMIUM = '/usr/bin/chromium'
const NO_BROWSER = existsSync(CHROMIUM) ? false : `there is no ${CHROMIUM}`

type Engine = 'http' | 'browser'

/** A multipart body as name and value of each part. */
const partsOf = (body: string): string[][] =>
  [...body.matchAll(/name="([^"]*)"[^]*?\r\n\r\n([^]*?)\r\n--/g)].map(
    ([, name = '', value = '']) => [name, value],
  )

t.test('ambiguous instructions and blocked addresses are rejected before a hold', async (t) => {
  const egress = { preflight: async () => {} } as never
  const refused = (instruction: string, more = {}) => {
    const { context: asking } = createRecordingToolContext({ llm: null, browser: null, egress })
    const input = { url: 'https://a.test/', instruction, ...more }
    return awaitRejectionDetails((async () => agentAct.preflight?.(input, asking))())
  }
  t.match(await refused('click a, sing "b"'), {
    code: 'instruction_not_understood',
    clause: 'sing "b"',
  })
  t.match(await refused('submit', { engine: 'browser' }), { code: 'provider_not_configured' })
  t.match(await refused('submit,'.repeat(21).replaceAll(',', ', ')), { code: 'invalid_input' })
  t.match(await refused('click a, submit'), { code: 'not refused' })
})

t.test('actions on a page', async (t) => {
  const site = await startTestShopWebsite(t)
  const trap = await traps(t)
  const house = await startTestLlmApi(t)
  const station = await startInProcessTestStation(t, {
    STARTER_CREDITS_USDC: '5',
    SSRF_ALLOW: `127.0.0.1:${site.port},127.0.0.1:${trap.port}`,
    CHROMIUM_PATH: NO_BROWSER === false ? CHROMIUM : 'none',
    LLM_PROVIDERS: house.providers({ cheap: {} }),
  })
  const guest = await station.onboard()
  const acting = { site, trap, station, guest }
  await t.test('without scripts', (t) => acts(t, 'http', acting))
  await t.test('in a browser', { skip: NO_BROWSER }, async (t) => {
    await acts(t, 'browser', acting)
    await scripted(t, acting)
  })
  await t.test('with a model', (t) => byModel(t, house, acting))
  await station.verify()
})

interface Acting {
  readonly site: TestShopWebsite
  readonly trap: Traps
  readonly station: InProcessStation
  readonly guest: TestAgent
}

interface Traps {
  readonly base: string
  readonly port: number
  /** Requests other than those for pages. */
  readonly sent: string[]
}

const TRAP = `<!doctype html><title>Trap</title>
  <a href="#" onclick="send('a')">Order a</a>
  <a href="/erase" data-method="delete">Order b</a>
  <a id="c" href="/calm">Order c</a>
  <a id="d" href="/calm">Order d</a>
  <label>Size <select onchange="send('e')"><option>S<option>L</select></label>
  <label><input type="checkbox" onchange="location = '/buy?f'"> Agree</label>
  <a href="/calm">Calm</a>
  <form action="/buy"><button>Pay now and log in later</button></form><a href="/calm">Log in</a>
  <form action="/moved"><input type="hidden" name="x" value="1"><button>Far</button></form>
  <form action="https://127.0.0.1:PORT/buy" method="post"><button>Secretly</button></form>
  <script>
    const send = (body) => (fetch('/buy', { method: 'POST', body }), false)
    Object.defineProperty(HTMLAnchorElement.prototype, 'href', { get: () => 'https://x.test/' })
    c.onclick = () => send('c')
    d.onclick = () => ((location = '/buy?d'), false)
  </script>`

/** A page on which nearly every control sends a request. */
async function traps(t: TeardownScope): Promise<Traps> {
  const sent: string[] = []
  const site = await startFixtureServer(t, (request, response) => {
    const { url = '', method } = request
    if (method !== 'GET' || url.startsWith('/buy') || url === '/erase')
      sent.push(`${method} ${url}`)
    if (url.startsWith('/moved'))
      return void response.writeHead(302, { location: `/calm?${'y'.repeat(9_000)}` }).end()
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end(url === '/' ? TRAP.replace('PORT', String(site.port)) : `<title>${url}</title>`)
  })
  return { base: site.base, port: site.port, sent }
}

async function acts(t: Tap, engine: Engine, { site, trap, station, guest }: Acting) {
  const act = (path: string, instruction: string, headers = {}) =>
    station.call(guest, 'agent_act', { url: `${site.base}${path}`, instruction, engine }, headers)
  const LOG_IN = `fill "E-mail address" with "ada@example.com", fill password with "secret, and more", submit`

  await t.test(
    'a login is kept in a cookie, and every kind of control is submitted with its value',
    async (t) => {
      const before = await station.balance(guest)
      const { status, body } = await act(
        '/login',
        `${LOG_IN}, select large from size, check blue, check "I accept the terms, and conditions",
       fill note with "two\nlines", click "buy now", extract title, extract order number, extract total, extract status,
       extract .eta, extract "#items"`,
      )
      t.equal(status, 200, JSON.stringify(body))
      t.match(body, {
        ok: true,
        engine,
        status: 200,
        final_url: `${site.base}/order/1`,
        extracted: {
          title: ['Order'],
          'order number': ['A-1001'],
          total: ['19.90 EUR'],
          status: ['on its way'],
          '.eta': ['Monday'],
          '#items': ['lamp'],
        },
        text: /Order number/,
        _meta: { cost_usdc: 0.05 },
      })
      t.equal(await station.balance(guest), Math.round((before - 0.05) * 1e6) / 1e6)
      const [login, order] = site.posted.splice(0)
      t.match(login, { path: '/login', cookie: 'pre=1' })
      const sent = [...new URLSearchParams(login?.body)]
      t.strictSame(sent, [
        ['csrf', 't&k"1'],
        ['email', 'ada@example.com'],
        ['pass', 'secret, and more'],
        ['go', 'Log in'],
      ])
      t.match(order, {
        path: '/order',
        type: /^multipart\/form-data; boundary=/,
        cookie: /session=ada/,
      })
      t.strictSame(partsOf(order?.body ?? ''), [
        ['item', 'lamp 7'],
        ['size', 'l'],
        ['colour', 'blue'],
        ['terms', 'on'],
        ['news', 'weekly'],
        ['note', 'two\r\nlines'],
        ['voucher', 'v1'],
        ['picture', ''],
        ['act', 'buy'],
      ])
    },
  )

  await t.test('forms with GET and relative addresses', async (t) => {
    const { body } = await act(
      '/nowhere',
      'go to /login, fill "search the shop" with "red & blue", click Find, extract asked',
    )
    t.match(body, { ok: true, extracted: { asked: ['q=red+&+blue'] } })
    if (engine === 'browser') return
    const moved = await act('/nowhere', 'go to /login, extract title')
    t.match(moved.body, { ok: true, status: 200, extracted: { title: ['Log in'] } })
    const lost = await act('/nowhere', 'extract title')
    t.match(lost.body, { ok: true, status: 404, extracted: { title: ['Lost'] } })
  })

  await t.test('a failure before the first submission is free and names its step', async (t) => {
    const cash = await station.balance(guest)
    const refused = async (path: string, instruction: string, code: string, fields = {}) => {
      const { body } = await act(path, instruction)
      t.match(body, { code, refunded: true, ...fields }, `${path} ${instruction}`)
    }
    await refused('/login', 'fill shoe size with "44", submit', 'step_failed', {
      step: 2,
      op: 'fill',
    })
    await refused('/login', 'fill password with "x", submit', 'step_failed', {
      detail: /does not take/,
    })
    await refused('/to?http://169.254.169.254/latest/', 'extract text', 'blocked_url')
    await refused('/hostile', 'click metadata', 'blocked_url', { step: 2, op: 'click' })
    if (engine === 'http') {
      await refused('/login', 'select "x" from email', 'step_failed')
      await refused('/login', 'extract unicorns', 'step_failed', { step: 2 })
      await refused('/to?http://localhost:8080/', 'extract text', 'blocked_url')
      await refused('/to?http://2130706433/', 'extract text', 'blocked_url')
      await refused('/to?/to?/to', 'extract text', 'upstream_error')
      await refused('/hostile', 'click inwards', 'blocked_url', { step: 2 })
      await refused('/hostile', 'click Run', 'step_failed', { detail: /script/ })
      await refused('/hostile', 'click Nothing', 'step_failed', { detail: /script/ })
      await refused('/scripted', 'fill name with "x"', 'step_failed')
    }
    t.equal(await station.balance(guest), cash)
    t.strictSame(site.posted, [], 'and nothing was sent')
  })

  await t.test('a failure after a submission is a charged result', async (t) => {
    const inside = (more: string) => act('/login', `${LOG_IN}, ${more}`)
    const wrong = await act(
      '/login',
      'fill email with "a@b.c", submit, extract title, click nothing',
    )
    t.match(wrong.body, {
      ok: false,
      status: 401,
      text: 'Wrong password',
      _meta: { cost_usdc: 0.05 },
    })
    t.match(wrong.body['steps'], [
      { ok: true },
      { ok: true },
      { op: 'submit', ok: false, detail: /401/ },
    ])
    t.equal((wrong.body['steps'] as unknown[]).length, 3, 'what comes after it is left undone')
    const away = await act('/login', 'click Away')
    t.match(away.body, {
      ok: false,
      steps: { 1: { op: 'click', ok: false, detail: /blocked_url/ } },
      _meta: { cost_usdc: 0.05 },
    })
    if (engine === 'browser') return
    const missing = await inside('extract unicorns, extract title')
    t.match(missing.body, { ok: false, extracted: { title: ['Account of Ada'] } })
    const crashed = await act('/account', 'extract text')
    t.match(crashed.body, { status: 403, ok: true }, 'cookies end with their call')
  })

  await t.test('an exact name match precedes partial ones', async (t) => {
    const url = `${trap.base}/`
    const on = (instruction: string) =>
      station.call(guest, 'agent_act', { url, instruction, engine })
    t.match((await on('click "Log in"')).body, { ok: true, final_url: `${url}calm` })
    t.strictSame(trap.sent, [])
    const far = await on('click Far')
    t.match(far.body, { ok: true, final_url: /^.{4096}$/, _meta: { cost_usdc: 0.05 } })
    if (engine === 'browser') return
    const unmet = await on('click Secretly')
    t.match(unmet.body, { refunded: true, step: 2 }, 'no connection stood for it to be sent on')
  })

  site.posted.length = 0
  await t.test('a submission happens once for any number of repeated requests', async (t) => {
    const once = { 'idempotency-key': `crash-${engine}` }
    const ask = () => act('/login', `${LOG_IN}, click Crash`, once)
    const first = await ask()
    t.match(first.body, { ok: false, steps: { 4: { ok: false, detail: /upstream_error/ } } })
    const again = await ask()
    t.strictSame(again.body['steps'], first.body['steps'])
    const crashes = site.posted.splice(0).filter(({ path }) => path === '/crash')
    t.equal(crashes.length, 1)
  })
}

async function byModel(t: Tap, house: LlmApiServer, { site, station, guest }: Acting) {
  const ask = (instruction: string, url = `${site.base}/login`) => {
    return station.call(guest, 'agent_act', { url, instruction, engine: 'http' })
  }
  const answer = (...steps: object[]) => (house.answer = () => JSON.stringify({ steps }))
  answer(
    { op: 'fill', target: 'search the shop', value: 'lamp' },
    { op: 'click', target: 'Find' },
    { op: 'extract', target: 'asked' },
  )
  const { body } = await ask('Please look for a lamp')
  t.match(body, { ok: true, extracted: { asked: ['q=lamp'] }, _meta: { cost_usdc: 0.05 } })

  const asked = house.requests.length
  const nowhere = await ask('Please look around', `${site.base}/to?http://169.254.169.254/`)
  t.match(nowhere.body, { code: 'blocked_url', refunded: true })
  t.equal(house.requests.length, asked, 'no model is asked about a page that cannot be reached')

  answer({ op: 'goto', value: 'http://169.254.169.254/' })
  t.match((await ask('Please look around')).body, { code: 'blocked_url', refunded: true })
  answer({ op: 'click' })
  const code = 'instruction_not_understood'
  t.match((await ask('Please click')).body, { code, status: 422, refunded: true })
  answer(...Array.from({ length: 11 }, () => ({ op: 'submit' })))
  t.match((await ask('Please click')).body, { code: 'upstream_schema', refunded: true })
  t.strictSame(site.posted, [])
}

/** Actions that need a browser. */
async function scripted(t: Tap, { site, trap, station, guest }: Acting) {
  const call = (path: string, instruction: string) =>
    station.call(guest, 'agent_act', { url: `${site.base}${path}`, instruction })
  const { body } = await call('/scripted', 'fill name with "Ada", click Greet, extract said')
  t.match(body, { ok: true, engine: 'browser', extracted: { said: ['Hello, Ada!'] } })
  t.match(site.posted.splice(0), [{ path: '/greet', body: 'Ada' }])

  trap.sent.length = 0
  const sending = {
    'click "Order a"': 'POST /buy',
    'click "Order b"': 'GET /erase',
    'click "Order c"': 'POST /buy',
    'click "Order d"': 'GET /buy?d',
    'select "L" from Size': 'POST /buy',
    'check Agree': 'GET /buy?f',
  }
  for (const [deed, sent] of Object.entries(sending)) {
    const instruction = `${deed}, go to //169.254.169.254/`
    const url = `${trap.base}/`
    const reply = await station.call(guest, 'agent_act', { url, instruction })
    t.match(reply.body, { ok: false, _meta: { cost_usdc: 0.05 } }, deed)
    t.match(trap.sent.splice(0), [sent], deed)
  }
  const url = `${trap.base}/`
  const instruction = 'click Calm, go to //169.254.169.254/'
  const calm = await station.call(guest, 'agent_act', { url, instruction })
  t.match(calm.body, { code: 'blocked_url', refunded: true }, 'a link is only a link')
}

type Tap = Pick<TAP, 'test' | 'match' | 'equal' | 'strictSame'>
