import { rmSync } from 'node:fs'
import { request } from 'undici'
import { median } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import { createProofDataDirectory, spawnStationProcess } from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import { runLoadGenerator, spawnBenchmarkChildProgram } from '../benchmark-child-processes.ts'
import type { HttpLoadPlan, HttpLoadResult } from '../http-load-generator.ts'
import {
  createBenchmarkReportRow,
  formatMilliseconds,
  formatWithThousandsSeparators,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Benchmarks public documents, and everybody else while slow readers pipeline requests for them. */

const CONNECTIONS = 64
const RATE_TARGET = 10_000
const OTHERS_PER_SECOND = 300
const OTHERS_TARGET_MS = 100
const PIPELINING = { path: '/api/tools', sockets: 100, requests: 200 }

type DocumentPlan = Pick<HttpLoadPlan, 'path' | 'headerLines' | 'status' | 'rate'>

/** Starts a station of its own, without rate limits. */
export async function benchmarkPublicDocuments(
  env: Readonly<Record<string, string>>,
  scale: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const [dataDir, port] = [createProofDataDirectory(), await findFreePort()]
  const station = await spawnStationProcess({ dataDir, port, env })
  try {
    const load = createLoad(port, scale)
    const rows: BenchmarkRow[] = []
    for (const path of ['/api/tools', '/api/openapi.json'])
      rows.push(await benchmarkDocument(load, station.url, path, scale))
    return [...rows, await benchmarkOthersBesidePipelines(load, port, scale)]
  } finally {
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

type Load = (plan: DocumentPlan) => Promise<HttpLoadResult>

const createLoad =
  (port: number, { warmUpMs, measureMs }: BenchmarkScale): Load =>
  async (plan) => {
    const result = await runLoadGenerator({
      ...{ keys: [], connections: CONNECTIONS, port, warmUpMs, measureMs },
      ...plan,
    })
    if (result.failed > 0) throw new Error(`${result.failed} of ${result.answers} requests failed`)
    return result
  }

/** The rate in each form in which a client may ask for the document. */
async function benchmarkDocument(
  load: Load,
  url: string,
  path: string,
  { rounds }: BenchmarkScale,
): Promise<BenchmarkRow> {
  const { headers, body } = await request(`${url}${path}`)
  await body.dump()
  const forms: Record<string, DocumentPlan> = {
    br: { path, headerLines: ['Accept-Encoding: gzip, deflate, br'] },
    gzip: { path, headerLines: ['Accept-Encoding: gzip'] },
    'not modified': {
      path,
      headerLines: [`If-None-Match: ${String(headers['etag'])}`],
      status: 304,
    },
    plain: { path },
  }
  const rates: Record<string, number> = {}
  const texts: string[] = []
  for (const [form, plan] of Object.entries(forms)) {
    const results: HttpLoadResult[] = []
    for (let round = 0; round < rounds; round += 1) results.push(await load(plan))
    rates[form] = median(results.map(({ rate }) => rate))
    const [{ bytes } = { bytes: 0 }] = results
    texts.push(
      `${form} ${formatWithThousandsSeparators(rates[form])}/s of ${formatWithThousandsSeparators(bytes)} B`,
    )
  }
  const compressed = Math.min(rates['br'] ?? 0, rates['gzip'] ?? 0)
  return createBenchmarkReportRow({
    what: `GET ${path}, ${CONNECTIONS} connections, no rate limits`,
    measured: texts.join(', '),
    baseline: '',
    result: `${formatWithThousandsSeparators(compressed)}/s compressed`,
    target: `>= ${formatWithThousandsSeparators(RATE_TARGET)}/s`,
    met: compressed >= RATE_TARGET,
    n: `${rounds} rounds`,
  })
}

/** Latency of single requests at a fixed rate, without and beside sockets that pipeline. */
async function benchmarkOthersBesidePipelines(
  load: Load,
  port: number,
  { rounds }: BenchmarkScale,
): Promise<BenchmarkRow> {
  const others = { path: '/', rate: OTHERS_PER_SECOND }
  const { path, sockets, requests } = PIPELINING
  const [alone, beside] = [[] as HttpLoadResult[], [] as HttpLoadResult[]]
  for (let round = 0; round < rounds; round += 1) {
    alone.push(await load(others))
    const args = [String(port), path, String(sockets), String(requests)]
    const pipelines = spawnBenchmarkChildProgram('slow-pipelining-clients.ts', args)
    try {
      await pipelines.ask()
      beside.push(await load(others))
    } finally {
      await pipelines.stop()
    }
  }
  const text = (results: readonly HttpLoadResult[]) =>
    `p50 ${formatMilliseconds(median(results.map(({ p50 }) => p50)))}, p99 ${formatMilliseconds(median(results.map(({ p99 }) => p99)))}`
  const p99 = median(beside.map(({ p99 }) => p99))
  return createBenchmarkReportRow({
    what: `${OTHERS_PER_SECOND} single requests/s while ${sockets} slow readers pipeline ${requests} GET ${path} each`,
    measured: text(beside),
    baseline: `without them: ${text(alone)}`,
    result: `p99 ${formatMilliseconds(p99)}`,
    target: `p99 <= ${OTHERS_TARGET_MS} ms`,
    met: p99 <= OTHERS_TARGET_MS,
    n: `${rounds} rounds`,
  })
}
