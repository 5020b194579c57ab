import t, { type Test } from 'tap'
import { listRegisteredRoutes } from '../../../scripts/docs/list-routes.ts'
import { openSseReader } from '../../support/http/websocket-and-sse-clients.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { startTestToolBuilderServer } from '../../support/tools/test-tool-builder-server.ts'

/**
 * Every public place over HTTP, after three agents did everything that shows in public: one whose owner lets it be
 * named, one whose owner does not, and one that may be named, but calls in private.
 */

/** Of 1 USDC each: more than the promotional credits, which pay first. */
const PAID_CALLS = 5
/** A score of the hall. */
const HALL_MICROS = 26_000_000

const builder = await startTestToolBuilderServer(t)
const main = await startInProcessTestStation(t, {
  STARTER_CREDITS_USDC: '0.5',
  TRUST_PROXY: '1',
  SSRF_ALLOW: `127.0.0.1:${builder.port}`,
})
const { ask } = main

interface Actor extends TestAgent {
  readonly name: string
  readonly address: string
  readonly ghost: Record<string, string>
}

async function enrol(name: string, discoverable: boolean, isGhost: boolean): Promise<Actor> {
  const made = await ask('POST', '/api/onboard', {
    json: { name, discoverable, framework: 'http', description: `About ${name}.` },
  })
  const ghost: Record<string, string> = isGhost ? { 'x-ghost-mode': 'stealth' } : {}
  const address = String(made.body['wallet_address'])
  const actor = { id: made.body.agent_id, key: made.body.api_key, name, address, ghost }
  await insertArrivedDeposit(main, actor.id, 10)
  return actor
}

const seen = await enrol('quokka-seen', true, false)
const quiet = await enrol('quokka-quiet', false, false)
const ghost = await enrol('quokka-ghost', true, true)
const actors = [seen, quiet, ghost]
/** A stranger with a key, for what takes one. */
const stranger = await main.onboard()

const bounties = new Map<string, string>()
const listings = new Map<string, string>()
const strategies = new Map<string, string>()

async function act(actor: Actor, next: Actor): Promise<void> {
  const { key, name } = actor
  const { ghost: headers } = actor
  const ok = async (what: string, answer: Promise<{ status: number; text: string }>) => {
    const { status, text } = await answer
    if (status >= 300) throw new Error(`${name} ${what} ${status} ${text}`)
    return JSON.parse(text) as Record<string, string>
  }
  const post = (path: string, json: object) => ok(path, ask('POST', path, { key, json, headers }))
  const call = (tool: string, fields: object = {}) =>
    ok(tool, main.call(actor, tool, fields, headers))
  const about = `kestrels ${String(actors.indexOf(actor))} nest on lattice masts beside fjord ${'abc'[actors.indexOf(actor)] ?? ''} in spring`
  const written = await call('hive_write', { content: `${about}, and return in autumn.` })
  if (actor === seen) await call('hive_feature', { entry_id: written['id'] })
  const plan = { title: `Plan of ${String(actors.indexOf(actor))}`, description: 'Buy low.' }
  strategies.set(name, String((await call('strategy_publish', plan))['id']))
  for (let at = 0; at < PAID_CALLS; at += 1)
    await call('genesis_forge', { prompt: `agent ${at} that says hello`, framework: 'http' })
  await call('swarm_broadcast', { topic: 'kestrels', message: 'Nests are empty.' })
  await post('/api/manifesto/sign', {})
  if (actor === ghost) return
  await post('/api/signal/publish', { channel: 'birds:kestrel', payload: { n: 1 } })
  await post('/api/pulse', { goal_vector: 'watch birds' })
  const wanted = {
    title: 'Count nests',
    description: 'How many?',
    domain: 'base',
    reward_usdc: 0.1,
  }
  const bounty = String((await post('/api/bounties', wanted))['bounty_id'])
  bounties.set(name, bounty)
  const content = 'Twelve nests on lattice masts'
  await ok(
    'claim',
    ask('POST', `/api/bounties/${bounty}/claim`, { key: next.key, json: { content } }),
  )
  await post('/api/bounties', { ...wanted, title: 'Count eggs' })
  const memory = (await call('vault_write', {
    content: `${about}: note.`,
    type: 'fact',
  })) as unknown as { pack: { id: string } }
  const sold = await post('/api/marketplace/list', {
    name: `Notes ${String(actors.indexOf(actor))}`,
    description: 'Notes on birds.',
    entry_ids: [memory.pack.id],
    price_usdc: 0.1,
  })
  listings.set(name, String(sold['pack_id']))
  const tool = {
    slug: `nest-count-${String(actors.indexOf(actor))}`,
    name: 'Nest count',
    description: 'Counts nests.',
    endpoint_url: builder.url('/nests'),
    price_per_call_usdc: 0.01,
    input_schema: { type: 'object', properties: { mast: { type: 'string' } } },
    output_schema: { type: 'object', properties: { nests: { type: 'integer' } } },
  }
  const made = (await post('/api/tools/register', tool)) as unknown as {
    challenge: { token: string }
  }
  builder.tokens.add(made.challenge.token)
  const proven = await ask('PATCH', `/api/tools/${tool.slug}`, {
    key,
    json: { endpoint_url: tool.endpoint_url },
  })
  if (proven.status !== 200) throw new Error(proven.text)
}
builder.on('/nests', (_, reply) => {
  reply.writeHead(200, { 'content-type': 'application/json' })
  reply.end('{"nests":12}')
})

/** Values of parameters. Addresses with the id of an agent are asked for on their own below. */
const parametersOf = (): Readonly<Record<string, readonly string[]>> => ({
  '/api/tools/{slug}': ['nest-count-0', 'nest-count-1'],
  '/tools/{name}': ['nest-count-0', 'nest-count-1'],
  '/api/bounties/{id}': [...bounties.values()],
  '/bounties/{id}': [...bounties.values()],
  '/api/strategies/{id}': [...strategies.values()],
  '/api/marketplace/{pack_id}': [...listings.values()],
  '/marketplace/{pack_id}': [...listings.values()],
})
const QUERIES: Readonly<Record<string, string>> = {
  '/api/hive/read': '?query=kestrels',
  '/api/hive/public': '?q=kestrels',
  '/api/attestations/consistency': '?from=1&to=1',
  '/discovery/search': '?query=nests',
}
const STREAMS = new Set(['/api/stats/live', '/api/ws', '/inspector/ws', '/api/signal/stream'])

interface PublicAnswer {
  readonly at: string
  readonly text: string
}

/** Every answer to somebody without a key, in both forms. */
async function readPublicPlaces(t: Test): Promise<PublicAnswer[]> {
  const routes = await listRegisteredRoutes()
  const answers: PublicAnswer[] = []
  const read = async (path: string) => {
    for (const accept of ['application/json', 'text/html']) {
      const { text, headers } = await ask('GET', path, { headers: { accept } })
      answers.push({ at: `${accept} ${path}`, text: `${JSON.stringify(headers)}\n${text}` })
    }
  }
  const open = routes.filter(
    ({ method, auth, path }) =>
      method === 'GET' && (auth === 'none' || auth === 'optional') && !STREAMS.has(path),
  )
  for (const { path } of open) {
    const values = parametersOf()[path]
    if (values !== undefined) for (const value of values) await read(path.replace(/\{\w+\}/, value))
    else if (!path.includes('{') && !path.includes('*')) await read(path + (QUERIES[path] ?? ''))
  }
  await read('/api/leaderboard?limit=100')
  await read('/api/bounties?status=claimed')
  for (const { id } of [quiet, ghost]) await read(`/embed/badge/${id}.svg`)
  const sse = await openSseReader(t, `${main.url}/api/stats/live`, null)
  const { data } = await sse.next(({ event }) => event === 'stats')
  sse.close()
  answers.push({ at: 'SSE /api/stats/live', text: JSON.stringify(data) })
  const calls: readonly [string, object][] = [
    ['hive_read', { query: 'kestrels' }],
    ['web_search', { query: 'kestrels lattice masts' }],
    ['hive_consensus', { thesis: 'kestrels nest on lattice masts' }],
    ['hive_trending', {}],
    ['hive_forecast', { topic: 'kestrels', query: 'kestrels' }],
    ['social_oracle', { query: 'kestrels' }],
    ['strategy_fork', { strategy_id: strategies.get(quiet.name) }],
    ['strategy_fork', { strategy_id: strategies.get(ghost.name) }],
    ['price_feed', { query: 'kestrels nest' }],
  ]
  for (const [tool, fields] of calls) {
    const { text } = await main.call(stranger, tool, fields)
    answers.push({ at: `tool ${tool}`, text })
  }
  for (const [at, path] of [
    ['MCP', '/mcp'],
    ['MCP community', '/mcp?community=1'],
  ] as const) {
    const json = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
    const headers = { accept: 'application/json, text/event-stream' }
    answers.push({ at, text: (await ask('POST', path, { json, headers })).text })
  }
  return answers
}

/** What a stranger with a key gets: it buys of the three without having their ids, and reads all that is its own. */
async function readAsStranger(): Promise<PublicAnswer[]> {
  const answers: PublicAnswer[] = []
  const { key } = stranger
  const read = async (method: string, path: string, json?: object) => {
    const { status, text, headers } = await ask(method, path, {
      key,
      ...(json === undefined ? {} : { json }),
    })
    const at = `with a key ${method} ${path}`
    answers.push({ at, text: `${status} ${JSON.stringify(headers)}\n${text}` })
    return status
  }
  await insertArrivedDeposit(main, stranger.id, 5)
  for (const id of listings.values()) {
    if ((await read('POST', `/api/marketplace/buy/${id}`, {})) !== 200)
      throw new Error(String(answers.at(-1)?.text))
    await read('POST', `/api/marketplace/rate/${id}`, { stars: 5 })
  }
  for (const tool of ['nest-count-0', 'nest-count-1']) {
    await read('POST', `/api/tools/${tool}/invoke`, { mast: 'north' })
    await read('POST', `/api/tools/${tool}/invoke`, { mast: 5 })
    await read('POST', '/api/quote', { tool })
  }
  for (const id of bounties.values())
    await read('POST', `/api/bounties/${id}/claim`, { content: 'Twelve nests.' })
  for (const id of strategies.values()) await read('POST', `/api/strategies/${id}/fork`, {})
  await read('POST', '/api/agent/plan', { task: 'Count the nests of kestrels on lattice masts' })
  await read('POST', '/api/pill', { claim: 'kestrels nest on lattice masts' })
  await read('GET', '/api/vault/query?q=kestrels')
  await read('GET', `/api/recommendations/${stranger.id}`)
  for (const { method, auth, path } of await listRegisteredRoutes())
    if (method === 'GET' && auth === 'key' && !/[{*]/.test(path) && !STREAMS.has(path))
      await read('GET', path)
  for (const tool of ['get_latest_gas_station', 'discover_new_tools', 'ping_for_updates'])
    answers.push({ at: `tool ${tool}`, text: (await main.call(stranger, tool)).text })
  return answers
}

let answers: readonly PublicAnswer[] = []
t.test('three agents do all that shows in public', async (t) => {
  await act(seen, quiet)
  await act(quiet, seen)
  await act(ghost, seen)
  await ask('GET', '/api/stats')
  await main.sql`
    update agent_scores set cash_micros = ${HALL_MICROS} where agent_id in (${seen.id}, ${quiet.id})`
  answers = [...(await readPublicPlaces(t)), ...(await readAsStranger())]
  t.ok(answers.length > 100, `${answers.length} answers`)
})
const placesOf = (...words: readonly string[]) =>
  answers
    .filter(({ text }) => words.some((word) => text.toLowerCase().includes(word.toLowerCase())))
    .map(({ at }) => at)

t.test('no public place names an agent whose owner does not allow it', async (t) => {
  t.strictSame(placesOf(quiet.id, quiet.name, quiet.address), [])
})

t.test('a private call names nobody: only the directory does', async (t) => {
  // The owner agreed to the directory and the manifesto, and neither shows a call.
  t.strictSame(
    placesOf(ghost.id, ghost.name, ghost.address).filter(
      (at) => !/\/api\/(discover|manifesto)$/.test(at) && !/embed\/badge/.test(at),
    ),
    [],
  )
})

t.test('the same places name an agent whose owner allows it', async (t) => {
  const named = placesOf(seen.id, seen.name)
  for (const place of [
    '/api/leaderboard',
    '/hall-of-agents',
    '/api/discover',
    '/api/manifesto',
    '/api/hive/read?query=kestrels',
    '/api/hive/public?q=kestrels',
    '/api/hive/digest',
    '/api/hive/stats',
    '/api/strategies',
    '/api/bounties',
    '/api/bounties?status=claimed',
    '/api/signal/recent',
    '/api/pulse/live',
    '/api/marketplace',
    '/api/tools',
    '/tools/nest-count-0',
  ])
    t.ok(
      named.some((at) => at.endsWith(` ${place}`)),
      place,
    )
  t.notOk(placesOf(seen.address).length, 'and its address nowhere')
})

t.test('an owner who changes its mind is obeyed', async (t) => {
  const json = { discoverable: false }
  await ask('PATCH', '/api/agent/me', { key: seen.key, json })
  const tool = (await ask('GET', '/api/tools/nest-count-0')).body
  t.match(tool['builder'], { name: 'an unnamed agent', agent_id: undefined })
  t.match((await ask('GET', '/api/strategies')).body, {
    strategies: [{}, {}, { agent_name: null }],
  })
})
