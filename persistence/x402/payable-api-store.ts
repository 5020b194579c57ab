import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  listOfferedPaymentProtocols,
  lowestOfferedUsdcAmount,
  type EndpointPaymentOffer,
  type EndpointProbeResult,
} from '../../domain/payable-endpoint-offers.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The registry of APIs that ask for a payment, as agents list them; and their probes. */

/** The source of what agents of this station list. */
export const STATION_LISTING_SOURCE = 'station'

export interface PayableApi {
  readonly apiId: string
  /** `station`, or the URL of the Bazaar that lists it. */
  readonly source: string
  /** Null for what other Bazaars list. */
  readonly agentId: string | null
  readonly url: string
  readonly name: string
  readonly description: string | null
  readonly tags: readonly string[]
  readonly declaredMicros: bigint | null
  /** The lowest amount in USDC that was asked for; null when none was in USDC. */
  readonly priceMicros: bigint | null
  readonly networks: readonly string[]
  readonly protocols: readonly string[]
  readonly offers: readonly EndpointPaymentOffer[]
  readonly latencyMs: number | null
  readonly uptimeBps: number | null
  readonly createdAt: Date
  readonly verifiedAt: Date | null
  readonly lastSeenAt: Date
}

/** What an agent lists, with the probe that preceded it. */
export interface NewPayableApi {
  readonly agentId: string
  readonly url: string
  readonly name: string
  readonly declaredMicros: bigint
  readonly probe: EndpointProbeResult
  /** The owner has just proved that the origin is his. */
  readonly isProven: boolean
}

export type ListPayableApiResult =
  | { readonly kind: 'listed'; readonly api: PayableApi }
  | { readonly kind: 'taken' }
  | { readonly kind: 'full' }

/** Reads and writes listings of agents. */
export function createPayableApiStore(sql: Sql) {
  const find = async (db: Sql | DatabaseTransaction, apiId: string): Promise<PayableApi | null> => {
    const rows = await db<PayableApiRow[]>`select * from x402_apis where api_id = ${apiId}`
    return rows[0] === undefined ? null : fromPayableApiRow(rows[0])
  }

  /** Adds a probe and computes the figures that follow from it. */
  async function record(tx: DatabaseTransaction, apiId: string, probe: EndpointProbeResult) {
    const [at, price] = [new Date(probe.at), toLowestOfferPriceMicros(probe.offers)]
    const isOk = probe.offers.length > 0
    await tx`
      insert into x402_api_probes (api_id, at, ok, latency_ms, price_micros)
      values (${apiId}, ${at}, ${isOk}, ${Math.round(probe.latencyMs)}, ${price})
      on conflict do nothing`
    await tx`
      update x402_apis a set
        uptime_bps = (select round(10000.0 * count(*) filter (where ok) / count(*))::int
                        from x402_api_probes p where p.api_id = a.api_id
                         and p.at > ${at}::timestamptz - make_interval(days => ${LIMITS.apiUptimeDays}))
       where api_id = ${apiId}`
    if (!isOk) return
    await tx`
      update x402_apis set latency_ms = ${Math.round(probe.latencyMs)}, last_seen_at = ${at},
             price_micros = ${price}, ${columnsOf(tx, probe)}
       where api_id = ${apiId}`
  }

  return {
    find: (apiId: string) => find(sql, apiId),

    /** Who lists this address here, and whether he has proved that it is his; null for nobody. */
    async ownerOf(url: string): Promise<{ agentId: string; isProven: boolean } | null> {
      const [row] = await sql<{ agent_id: string; verified_at: Date | null }[]>`
        select agent_id, verified_at from x402_apis where source = ${STATION_LISTING_SOURCE} and url = ${url}`
      return row === undefined
        ? null
        : { agentId: row.agent_id, isProven: row.verified_at !== null }
    },

    /**
     * Lists an address, or changes the agent's own listing. Another agent's listing is replaced only by an
     * owner who has just proved the origin, and only while its own was never proved.
     */
    async put(given: NewPayableApi, now: Date): Promise<ListPayableApiResult> {
      return sql.begin(async (tx): Promise<ListPayableApiResult> => {
        await tx`select pg_advisory_xact_lock(hashtextextended(${`x402 ${given.agentId}`}, 0))`
        const [known] = await tx<{ api_id: string; agent_id: string; verified_at: Date | null }[]>`
          select api_id, agent_id, verified_at from x402_apis
           where source = ${STATION_LISTING_SOURCE} and url = ${given.url} for update`
        const isOwn = known?.agent_id === given.agentId
        if (known !== undefined && !isOwn) {
          if (!given.isProven || known.verified_at !== null) return { kind: 'taken' }
          await tx`delete from x402_apis where api_id = ${known.api_id}`
        }
        if (!isOwn && (await countOf(tx, given.agentId)) >= LIMITS.registeredApis)
          return { kind: 'full' }
        const apiId = isOwn ? known.api_id : newUuidV7(now.getTime())
        const added = await tx`
          insert into x402_apis (api_id, source, agent_id, url, name, declared_micros, created_at,
                                 last_seen_at)
          values (${apiId}, ${STATION_LISTING_SOURCE}, ${given.agentId}, ${given.url}, ${given.name},
                  ${given.declaredMicros}, ${now}, ${now})
          on conflict (source, url) do update
            set name = excluded.name, declared_micros = excluded.declared_micros
          where x402_apis.agent_id = excluded.agent_id`
        // Another agent was faster.
        if (added.count === 0) return { kind: 'taken' }
        if (given.isProven) await markProven(tx, apiId, now)
        await record(tx, apiId, given.probe)
        const api = await find(tx, apiId)
        return api === null ? { kind: 'taken' } : { kind: 'listed', api }
      })
    },

    /** Notes that the owner has proved the origin, which begins the hourly probes. */
    async prove(apiId: string, agentId: string, now: Date): Promise<PayableApi | null> {
      const owned = await sql`
        select from x402_apis where api_id = ${apiId} and agent_id = ${agentId}`
      if (owned.length === 0) return null
      await markProven(sql, apiId, now)
      return find(sql, apiId)
    },

    async remove(tx: DatabaseTransaction, apiId: string, agentId: string): Promise<boolean> {
      const gone = await tx`
        delete from x402_apis where api_id = ${apiId} and agent_id = ${agentId}`
      return gone.count > 0
    },

    /** Takes due listings of proven owners and postpones their next probe. */
    async takeDue(now: Date, limit: number): Promise<{ apiId: string; url: string }[]> {
      const rows = await sql<{ api_id: string; url: string }[]>`
        update x402_apis set next_probe_at = ${now}::timestamptz + make_interval(hours => ${LIMITS.apiProbeHours})
         where api_id in (select api_id from x402_apis where next_probe_at <= ${now}
                           order by next_probe_at limit ${limit} for update skip locked)
        returning api_id, url`
      return rows.map((row) => ({ apiId: row.api_id, url: row.url }))
    },

    /** When the next listing is due; null for never. */
    async nextDue(): Promise<Date | null> {
      const [row] = await sql<{ at: Date | null }[]>`
        select min(next_probe_at) as at from x402_apis where next_probe_at is not null`
      return row?.at ?? null
    },

    async postpone(apiId: string, until: Date): Promise<void> {
      await sql`
        update x402_apis set next_probe_at = ${until}
         where api_id = ${apiId} and next_probe_at is not null`
    },

    recordProbe: (apiId: string, probe: EndpointProbeResult): Promise<void> =>
      sql.begin((tx) => record(tx, apiId, probe)).then(() => undefined),

    /** Prices in the order of their change, newest first. */
    async priceChanges(apiId: string): Promise<{ at: Date; priceMicros: bigint | null }[]> {
      const rows = await sql<{ at: Date; price_micros: bigint | null }[]>`
        select at, price_micros from (
          select at, price_micros, row_number() over (order by at) as place,
                 lag(price_micros) over (order by at) as earlier
            from x402_api_probes where api_id = ${apiId} and ok) p
         where place = 1 or price_micros is distinct from earlier
         order by at desc limit ${LIMITS.apiPriceChanges}`
      return rows.map((row) => ({ at: row.at, priceMicros: row.price_micros }))
    },
  }
}
export type PayableApiStore = ReturnType<typeof createPayableApiStore>

async function countOf(tx: DatabaseTransaction, agentId: string): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from x402_apis where agent_id = ${agentId}`
  return row?.count ?? 0
}

/** The first proof counts; the first probe is due an hour after the one of the registration. */
async function markProven(db: Sql | DatabaseTransaction, apiId: string, now: Date): Promise<void> {
  await db`
    update x402_apis
       set verified_at = ${now},
           next_probe_at = ${now}::timestamptz + make_interval(hours => ${LIMITS.apiProbeHours})
     where api_id = ${apiId} and verified_at is null`
}

/** The columns that say what is offered. */
const columnsOf = (
  tx: Sql | DatabaseTransaction,
  { offers, description, tags }: EndpointProbeResult,
) => tx`description = ${description}, tags = ${[...tags]}::text[],
        networks = ${listNetworksOfOffers(offers)}::text[], protocols = ${listOfferedPaymentProtocols(offers)}::text[],
        offers = ${JSON.stringify(offers)}::text::jsonb`

export const listNetworksOfOffers = (offers: readonly EndpointPaymentOffer[]): string[] => [
  ...new Set(offers.flatMap(({ network }) => (network === null ? [] : [network]))),
]

/** Amounts below a micro-USDC count as one. */
export function toLowestOfferPriceMicros(offers: readonly EndpointPaymentOffer[]): bigint | null {
  const price = lowestOfferedUsdcAmount(offers)
  return price === null || price > MAX_PRICE_USDC ? null : BigInt(Math.ceil(price * 1e6))
}
const MAX_PRICE_USDC = 1e9

/** A row of `x402_apis`. */
export interface PayableApiRow {
  readonly api_id: string
  readonly source: string
  readonly agent_id: string | null
  readonly url: string
  readonly name: string
  readonly description: string | null
  readonly tags: string[]
  readonly declared_micros: bigint | null
  readonly price_micros: bigint | null
  readonly networks: string[]
  readonly protocols: string[]
  readonly offers: EndpointPaymentOffer[]
  readonly latency_ms: number | null
  readonly uptime_bps: number | null
  readonly created_at: Date
  readonly verified_at: Date | null
  readonly last_seen_at: Date
}

export const fromPayableApiRow = (row: PayableApiRow): PayableApi => ({
  apiId: row.api_id,
  source: row.source,
  agentId: row.agent_id,
  url: row.url,
  name: row.name,
  description: row.description,
  tags: row.tags,
  declaredMicros: row.declared_micros,
  priceMicros: row.price_micros,
  networks: row.networks,
  protocols: row.protocols,
  offers: row.offers,
  latencyMs: row.latency_ms,
  uptimeBps: row.uptime_bps,
  createdAt: row.created_at,
  verifiedAt: row.verified_at,
  lastSeenAt: row.last_seen_at,
})
