import { readResidentMegabytes } from '../probes/process-usage.ts'

/** Reads the memory of the station and the delay of its event loop since the last reading. */

export interface StationMetrics {
  readonly residentMegabytes: number
  readonly heapMegabytes: number
  /** What `monitorEventLoopDelay` reports: the 10 ms between two samples are a part of it. */
  readonly loopP99Ms: number
  readonly loopMaxMs: number
}

export async function readStationMetrics(
  url: string,
  operatorToken: string,
  pid: number,
): Promise<StationMetrics> {
  const answer = await fetch(`${url}/metrics`, {
    headers: { authorization: `Bearer ${operatorToken}` },
  })
  const text = await answer.text()
  if (answer.status !== 200) throw new Error(`no metrics: ${answer.status} ${text}`)
  const valueOf = (name: string) =>
    Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
  return {
    residentMegabytes: readResidentMegabytes(pid),
    heapMegabytes: Math.round(valueOf('nodejs_heap_size_used_bytes') / 2 ** 20),
    loopP99Ms: valueOf('nodejs_eventloop_lag_p99_seconds') * 1_000,
    loopMaxMs: valueOf('nodejs_eventloop_lag_max_seconds') * 1_000,
  }
}
