import { median } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { spawnBenchmarkChildProgram } from '../benchmark-child-processes.ts'
import {
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  formatFactor,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Benchmarks costs inside the process: disk flushes and memory per agent. */

const CALLERS = 256

/** Compares the same calls with and without `synchronous_commit`. */
export async function benchmarkSynchronousCommit(
  dataDir: string,
  sql: Sql,
  agentId: string,
  scale: BenchmarkScale,
): Promise<BenchmarkRow> {
  const service = spawnBenchmarkChildProgram('benchmarked-station-process-without-http.ts', [
    dataDir,
  ])
  const [flushed, unflushed] = [[] as number[], [] as number[]]
  try {
    await service.ask()
    await service.ask(`call ${agentId} ${CALLERS} ${scale.warmUpMs}`)
    for (let at = 0; at < scale.rounds; at++) {
      for (const [mode, rates] of [
        ['on', flushed],
        ['off', unflushed],
      ] as const) {
        await sql.unsafe(`alter system set synchronous_commit = ${mode}`)
        await sql`select pg_reload_conf()`
        rates.push(Number(await service.ask(`call ${agentId} ${CALLERS} ${scale.measureMs}`)))
      }
    }
  } finally {
    await sql`alter system reset synchronous_commit`
    await sql`select pg_reload_conf()`
    await service.stop()
  }
  const ratio = median(flushed) / median(unflushed)
  return createBenchmarkReportRow({
    what: `in process, one hot agent, ${CALLERS} callers, against synchronous_commit=off`,
    measured: `${formatWithThousandsSeparators(median(flushed))}/s`,
    baseline: `${formatWithThousandsSeparators(median(unflushed))}/s`,
    result: formatFactor(ratio),
    target: '>= 0.75x',
    met: ratio >= 0.75,
    n: `${scale.rounds} rounds of ${scale.measureMs / 1000} s`,
  })
}

const LIMIT_MB = 300

/** Memory of loaded idle agents. */
export async function benchmarkMemoryPerAgent(
  dataDir: string,
  ids: readonly string[],
): Promise<BenchmarkRow> {
  const service = spawnBenchmarkChildProgram(
    'benchmarked-station-process-without-http.ts',
    [dataDir],
    ['--expose-gc'],
  )
  try {
    await service.ask()
    const { heap, rss, ms, resident } = JSON.parse(
      await service.ask(`hydrate ${ids.join(' ')}`),
    ) as {
      heap: number
      rss: number
      ms: number
      resident: number
    }
    const mega = (bytes: number) => Math.round(bytes / 1e6)
    return createBenchmarkReportRow({
      what: `memory of ${formatWithThousandsSeparators(ids.length)} hydrated idle agents`,
      measured: `${mega(rss)} MB resident, ${mega(heap)} MB heap, read in ${(ms / 1000).toFixed(1)} s`,
      baseline: `${formatWithThousandsSeparators(resident)} aggregates in memory`,
      result: `${(rss / ids.length / 1000).toFixed(1)} kB an agent`,
      target: `<= ${LIMIT_MB} MB`,
      met: mega(rss) <= LIMIT_MB && resident >= ids.length,
      n: '1',
    })
  } finally {
    await service.stop()
  }
}
