import type { EndpointProbeResult } from '../../domain/payable-endpoint-offers.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The last probe of each host: the limit and the cache of all callers and nodes. */

/** Who has a minute of a host: all callers, an agent that lists it, or the job that probes each hour. */
export type HostProber = 'callers' | 'hourly' | { readonly agentId: string }

export interface ProbedHost {
  readonly host: string
  readonly by: HostProber
}

/** The key of a minute. No name of a host has a blank. */
const toRow = ({ host, by }: ProbedHost) => ({
  host: typeof by === 'string' ? host : `${host} ${by.agentId}`,
  isHourly: by === 'hourly',
})

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
    /** Each prober may probe a host once in `seconds`; `at` is the current time. */
    async claim(
      probed: ProbedHost,
      url: string,
      at: Date,
      seconds: number,
    ): Promise<HostProbeClaim> {
      const { host, isHourly } = toRow(probed)
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
    async store(probed: ProbedHost, at: Date, answer: EndpointProbeResult): Promise<void> {
      const { host, isHourly } = toRow(probed)
      await sql`
        update x402_host_probes set answer = ${JSON.stringify(answer)}::text::jsonb
         where host = ${host} and is_hourly = ${isHourly} and at = ${at}`
    },
  }
}
export type HostProbeStore = ReturnType<typeof createHostProbeStore>
