import t from 'tap'
import agentAct from '../../../tools/perception/agent-act.ts'
import { parseIpAddressAllowlist } from '../../../providers/egress/public-ip-address.ts'
import { createEgressClient } from '../../../providers/egress/guarded-egress-client.ts'
import { createPageParserPool } from '../../../providers/pages/page-parser-pool.ts'
import type { ReceivedWebPage } from '../../../providers/pages/page-parser-port.ts'
import { startFixtureServer } from '../../support/upstreams/fixture-server.ts'
import {
  createRecordingToolContext,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

/** A website of one page a path. */
const website: Record<string, { type: string; body: string | Buffer }> = {}
const site = await startFixtureServer(t, (request, response) => {
  const { type, body } = website[request.url?.split('?')[0] ?? ''] ?? {
    type: 'text/plain',
    body: '',
  }
  response.writeHead(200, { 'content-type': type }).end(body)
})
const egress = createEgressClient({
  userAgent: 'test/1',
  allow: parseIpAddressAllowlist(`127.0.0.1:${site.port}`),
})
const pages = createPageParserPool()
t.teardown(() => Promise.all([egress.close(), pages.close()]))

/** Inputs of the threads. */
const given: ReceivedWebPage['body'][] = []
const noted = ({ body, ...source }: ReceivedWebPage) => (given.push(body), { ...source, body })
const noting: typeof pages = {
  ...pages,
  read: (source, place) => pages.read(noted(source), place),
  forms: (source, place) => pages.forms(noted(source), place),
  extract: (source, what, place) => pages.extract(noted(source), what, place),
  decodeText: (source, most, place) => pages.decodeText(noted(source), most, place),
}

async function act(path: string, instruction: string) {
  const asked = createRecordingToolContext({ egress, pages: noting, browser: null, llm: null })
  const input = { url: site.base + path, instruction, engine: 'http' as const }
  await agentAct.preflight?.(input, asked.context)
  const { providers } = asked.recorded
  return { sealed: () => providers.includes('sealed'), reply: agentAct.run(input, asked.context) }
}

t.test('a button uses its own formaction and never falls back to its form', async (t) => {
  const type = 'text/html'
  const scheme = (action: string, name: string) =>
    `<form action="/sent" method="post"><button formaction="${action}">${name}</button></form>`
  const NOWHERE = {
    Script: 'javascript:pay()',
    Spaced: ' java\tscript:pay()',
    Data: 'data:text/html,x',
    Mail: 'mailto:a@b.test',
    File: 'file:///etc/passwd',
    Broken: 'http://[',
  }
  const buttons = Object.entries(NOWHERE).map(([name, action]) => scheme(action, name))
  const body = `${buttons.join('')}${scheme('', 'Home')}${scheme('/there', 'Elsewhere')}
    <button formaction="/sent" formmethod="post">Loose</button>`
  website['/buttons'] = { type, body }
  site.requests.length = 0
  for (const name of Object.keys(NOWHERE)) {
    const { reply, sealed } = await act('/buttons', `click ${name}`)
    t.match(await awaitRejectionDetails(reply), {
      code: 'step_failed',
      step: 2,
      op: 'click',
      detail: `the button "${name}" leads nowhere that can be asked over HTTP`,
    })
    t.notOk(sealed(), name)
  }
  const loose = await act('/buttons', 'click Loose')
  t.match(
    await awaitRejectionDetails(loose.reply),
    { code: 'step_failed' },
    'a button in no form sends none',
  )
  t.strictSame([...new Set(site.requests)], ['GET /buttons'], 'nothing was sent')
  for (const [name, path] of Object.entries({ Home: '/buttons', Elsewhere: '/there' })) {
    const { reply } = await act('/buttons', `click ${name}`)
    t.match(await reply, { ok: true })
    t.equal(site.requests.at(-1), `POST ${path}`)
  }
})

t.test('a form that is too large cannot be submitted by any of its buttons', async (t) => {
  const fields = '<input name=a>'.repeat(5_001)
  const body = `<form action="/a"><button formaction="/sent">Send</button>${fields}</form>`
  website['/large'] = { type: 'text/html', body }
  site.requests.length = 0
  for (const instruction of ['click Send', 'submit']) {
    const { reply } = await act('/large', instruction)
    t.match(await awaitRejectionDetails(reply), { code: 'step_failed', step: 2 }, instruction)
  }
  t.strictSame([...new Set(site.requests)], ['GET /large'])
})

/** `名前` as these charsets have it. */
const NAMES: Readonly<Record<string, readonly number[]>> = {
  shift_jis: [0x96, 0xbc, 0x91, 0x4f],
  gbk: [0xc3, 0xfb, 0xc7, 0xb0],
  'euc-jp': [0xcc, 0xbe, 0xc1, 0xb0],
  'utf-16be': [0x54, 0x0d, 0x52, 0x4d],
}

t.test('the charset of a page is decoded in the parser threads', async (t) => {
  for (const [charset, name] of Object.entries(NAMES)) {
    const wide = (text: string) =>
      charset === 'utf-16be' ? Buffer.from(text, 'utf16le').swap16() : Buffer.from(text)
    const [head, tail] = ['<p id=who>', '</p><form action=/plain><input name=q aria-label="']
    const parts = [wide(head), Buffer.from(name), wide(tail), Buffer.from(name), wide('"></form>')]
    website['/page'] = { type: `text/html; charset=${charset}`, body: Buffer.concat(parts) }
    website['/plain'] = {
      type: `text/plain; charset=${charset}`,
      body: Buffer.concat([wide('a\n  b '), Buffer.from(name)]),
    }
    given.length = 0
    const { reply } = await act('/page', 'extract "#who", fill 名前 with "x", submit')
    t.match(
      await reply,
      { ok: true, extracted: { '#who': ['名前'] }, text: 'a\n  b 名前' },
      charset,
    )
    const words = given.filter((body) => typeof body === 'string')
    t.strictSame(words, [''], 'the service decodes nothing; what is no page has no forms')
    t.equal(given.length, 4)
  }
})

t.test('no model is called for a blocked address', async (t) => {
  const asked: string[] = []
  const llm = {
    complete: async ({ prompt }: { prompt: string }) => {
      asked.push(prompt)
      return { json: { steps: [{ op: 'extract', target: 'title' }] }, costUsd: 0, provider: 'x' }
    },
  } as never
  const inner = 'http://169.254.169.254/latest/'
  const guard = (url: string, instruction: string, step: 'preflight' | 'run') => {
    const { context: given } = createRecordingToolContext({ egress, pages, browser: null, llm })
    const input = { url, instruction, engine: 'http' as const }
    return awaitRejectionDetails((async () => agentAct[step]?.(input, given))())
  }
  const vague = 'Please look around'
  t.match(await guard(inner, vague, 'preflight'), { code: 'blocked_url' }, 'nothing is held')
  t.match(await guard(site.base, `go to ${inner}`, 'preflight'), { code: 'blocked_url' })
  t.match(await guard(inner, vague, 'run'), { code: 'blocked_url', step: 1, op: 'goto' })
  t.strictSame(asked, [])
  t.match(await guard(`${site.base}/page`, vague, 'run'), { code: /not refused|step_failed/ })
  t.equal(asked.length, 1, 'it is asked once the page is there')
})
