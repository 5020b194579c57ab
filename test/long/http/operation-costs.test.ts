import t from 'tap'
import { listRegisteredRoutes } from '../../../scripts/docs/list-routes.ts'
import { NATIVE_TOOLS } from '../../../tools/tool-catalogue.ts'
import {
  dearestRequests,
  dearestValue,
  type DearRequest,
  type OperationDocument,
} from '../../support/http/dearest-requests.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/**
 * The cost table: for every operation the dearest request of a caller without a key, without money and with money.
 * CPU time of this process, with its client, is the measure, on a slower processor in proportion to fixed work.
 */

const MAX_KEYLESS_MS = 20
const MAX_KEYED_MS = 100
const SAMPLES = 3
/** A sample above the bound is measured again: a pause of the collector is no cost of a request. */
const ATTEMPTS = 3
/** Answers that never end; their number is bounded for each key, address and node. */
const isEndless = (path: string, operation: object) =>
  /\/ws$/.test(path) || JSON.stringify(operation).includes('"text/event-stream"')

const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '5' })
const document = (await main.ask('GET', '/api/openapi.json')).body as unknown as OperationDocument
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    method: method.toUpperCase(),
    path,
    operation,
  })),
)

async function cpuOf(method: string, { path, raw }: DearRequest, key?: string) {
  const used = process.cpuUsage()
  const { status } = await main.ask(method, path, { key, ...(raw === undefined ? {} : { raw }) })
  const { user, system } = process.cpuUsage(used)
  return { status, ms: (user + system) / 1_000 }
}

const FIXED_WORK = JSON.stringify(Array.from({ length: 20_000 }, (_, n) => ({ n, text: `x${n}` })))
/** What the fixed work takes on the processor for which the bounds are. */
const FIXED_WORK_MS = 14

/** How many times as long as that processor this one takes now; at least 1. */
function slowness(): number {
  const times = Array.from({ length: SAMPLES }, () => {
    const used = process.cpuUsage()
    for (let n = 0; n < 3; n += 1) JSON.parse(FIXED_WORK)
    const { user, system } = process.cpuUsage(used)
    return (user + system) / 1_000
  })
  return Math.max(1, Math.min(...times) / FIXED_WORK_MS)
}

async function costOf(method: string, request: DearRequest, bound: number, key?: string) {
  // Most are far below their bound, also where the first one compiles a schema.
  let best = await cpuOf(method, request, key)
  for (let attempt = 0; attempt < ATTEMPTS && best.ms > bound / 2; attempt += 1) {
    const samples = []
    for (let n = 0; n < SAMPLES; n += 1) samples.push(await cpuOf(method, request, key))
    const [, middle = best] = samples.sort((one, other) => one.ms - other.ms)
    const ms = middle.ms / slowness()
    if (ms < best.ms) best = { ...middle, ms }
  }
  return { ...best, name: request.name }
}

/** The dearest of several requests. */
async function dearestOf(
  method: string,
  requests: readonly DearRequest[],
  bound: number,
  key?: string,
) {
  let worst = { status: 0, ms: 0, name: '' }
  for (const request of requests) {
    const cost = await costOf(method, request, bound, key)
    if (cost.ms > worst.ms) worst = cost
  }
  return worst
}

/** Bytes that a write keeps at most beside its body, of the bytes an agent has for a day. */
const keptBytes = new Map(
  (await listRegisteredRoutes()).map((route) => [`${route.method} ${route.path}`, route.keptBytes]),
)
const rows: string[] = []
const cell = ({ ms, status, name }: { ms: number; status: number; name: string }) =>
  `${ms.toFixed(1)} (${name}, ${status})`

t.test('no request of any operation costs more than its bound', async (t) => {
  for (const { method, path, operation } of operations) {
    if (method === 'GET' && isEndless(path, operation)) {
      rows.push(`${method} ${path} | a stream: bounded by number | |`)
      continue
    }
    const [poor, rich] = [await main.onboard(0), await main.onboard()]
    const kept = keptBytes.get(`${method} ${path.replace(/^\/api\/t\/.*/, '/api/t/{slug}')}`) ?? NaN
    const at = (hasKey: boolean) => dearestRequests(document, path, operation, hasKey)
    const stranger = await dearestOf(method, at(false), MAX_KEYLESS_MS)
    const broke = await dearestOf(method, at(true), MAX_KEYED_MS, poor.key)
    const paying = await dearestOf(method, at(true), MAX_KEYED_MS, rich.key)
    rows.push(`${method} ${path} | ${cell(stranger)} | ${cell(broke)} | ${cell(paying)} | ${kept}`)
    t.ok(Number.isFinite(kept), `${method} ${path} says what it keeps`)
    t.ok(stranger.ms <= MAX_KEYLESS_MS, `${method} ${path} without a key: ${cell(stranger)}`)
    t.ok(broke.ms <= MAX_KEYED_MS, `${method} ${path} without money: ${cell(broke)}`)
    t.ok(paying.ms <= MAX_KEYED_MS, `${method} ${path} with money: ${cell(paying)}`)
  }
})

t.test('no tool costs more for its dearest input', async (t) => {
  for (const { slug, input } of NATIVE_TOOLS) {
    const { key } = await main.onboard()
    const fields = dearestValue(document, input as never) as object
    const requests = [
      { name: 'all fields', path: '/api/refuel', raw: JSON.stringify({ ...fields, tool: slug }) },
      { name: 'quote', path: '/api/quote', raw: JSON.stringify({ ...fields, tool: slug }) },
    ]
    const stranger = await dearestOf('POST', requests, MAX_KEYLESS_MS)
    const paying = await dearestOf('POST', requests, MAX_KEYED_MS, key)
    rows.push(`${slug} | ${cell(stranger)} | | ${cell(paying)}`)
    t.ok(stranger.ms <= MAX_KEYLESS_MS, `${slug} without a key: ${cell(stranger)}`)
    t.ok(paying.ms <= MAX_KEYED_MS, `${slug} with money: ${cell(paying)}`)
  }
})

t.teardown(() => {
  t.comment(
    `operation | CPU ms without a key | without money | with money | kept bytes beside the body\n${rows.join('\n')}`,
  )
})
