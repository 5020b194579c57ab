import type { EndpointProbeResult } from '../../domain/payable-endpoint-offers.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The last probe of each host: the limit and the cache of all callers and nodes. */

/** A host, and who probes it: callers, or the job that probes listed addresses each hour. */
export interface ProbedHost {
  readonly host: string
  readonly isHourly: boolean
}

/** What a caller who wants to probe an address gets. */
export type HostProbeClaim =
  /** He probes, and stores the answer. */
  | { readonly kind: 'probe' }
  /** The same address was probed a moment ago. */
  | { readonly kind: 'known'; readonly answer: EndpointProbeResult }
  /** Another address of the host was, or this one is being probed: the time of that probe. */
  | { readonly kind: 'busy'; readonly at: Date }

/** Claims and stores probes. */
export function createHostProbeStore(sql: Sql) {
  return {
    /** One caller in `seconds` may probe a host, and beside it one hourly probe; `at` is the current time. */
    async claim(
      { host, isHourly }: ProbedHost,
      url: string,
      at: Date,
      seconds: number,
    ): Promise<HostProbeClaim> {
      const claimed = await sql`
        insert into x402_host_probes as known (host, is_hourly, url, at)
        values (${host}, ${isHourly}, ${url}, ${at})
        on conflict (host, is_hourly) do update set url = excluded.url, at = excluded.at, answer = null
         where known.at <= ${at}::timestamptz - make_interval(secs => ${seconds})
        returning 1`
      if (claimed.length > 0) return { kind: 'probe' }
      const [row] = await sql<{ url: string; at: Date; answer: EndpointProbeResult | null }[]>`
        select url, at, answer from x402_host_probes
         where host = ${host} and is_hourly = ${isHourly}`
      return row?.url === url && row.answer !== null
        ? { kind: 'known', answer: row.answer }
        : { kind: 'busy', at: row?.at ?? at }
    },

    /** Stores the answer of the probe that was claimed at this time. */
    async store(
      { host, isHourly }: ProbedHost,
      at: Date,
      answer: EndpointProbeResult,
    ): Promise<void> {
      await sql`
        update x402_host_probes set answer = ${JSON.stringify(answer)}::text::jsonb
         where host = ${host} and is_hourly = ${isHourly} and at = ${at}`
    },
  }
}
export type HostProbeStore = ReturnType<typeof createHostProbeStore>
