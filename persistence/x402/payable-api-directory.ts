import { LIMITS } from '../../core/limits.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import {
  fromPayableApiRow,
  STATION_LISTING_SOURCE,
  type PayableApi,
  type PayableApiRow,
} from './payable-api-store.ts'

/** Searches the registry of APIs that ask for a payment. */

export type PayableApiSortOrder = 'newest' | 'price' | 'latency' | 'uptime'

export interface PayableApiQuery {
  /** Words that the name, the description, the tags or the address contain. */
  readonly q: string | null
  /** CAIP-2. */
  readonly network: string | null
  readonly maxPriceMicros: bigint | null
  readonly order: PayableApiSortOrder
  readonly now: Date
}

/** A row with its place in the order. */
export interface PayableApiWithSortPosition {
  readonly api: PayableApi
  readonly place: bigint
}

/** What a Bazaar answers with: a part of the own listings that x402 can pay. */
export interface OwnBazaarListingsQuery {
  readonly q: string | null
  readonly network: string | null
  readonly scheme: string | null
  readonly payTo: string | null
  readonly now: Date
}

/** Greater than all places: entries without the figure come last. */
const LAST_PLACE = '9000000000000000000'

/** Reads what is listed now: seen within the last days. */
export function createPayableApiDirectory(sql: Sql) {
  const seen = (now: Date) =>
    sql`last_seen_at > ${now}::timestamptz - make_interval(days => ${LIMITS.apiUnseenDays})`
  const containsWords = (q: string | null) => {
    const words = (q ?? '').split(/\s+/).filter((word) => word !== '')
    return sql`not exists (select from unnest(${words}::text[]) w
      where position(lower(fold_text(w)) in lower(fold_text(concat_ws(' ', name, description, url, array_to_string(tags, ' '))))) = 0)`
  }
  const placeBy = (order: PayableApiSortOrder) => {
    const last = sql`${LAST_PLACE}::bigint`
    switch (order) {
      case 'newest':
        return sql`-(extract(epoch from created_at) * 1000)::bigint`
      case 'price':
        return sql`coalesce(price_micros, ${last})`
      case 'latency':
        return sql`coalesce(latency_ms::bigint, ${last})`
      case 'uptime':
        return sql`coalesce(-uptime_bps::bigint, ${last})`
    }
  }
  const bazaarRows = ({ q, network, scheme, payTo, now }: OwnBazaarListingsQuery) => sql`
    from x402_apis where source = ${STATION_LISTING_SOURCE} and ${seen(now)} and ${containsWords(q)}
     and exists (select from jsonb_array_elements(offers) o
       where o->>'protocol' = 'x402'
         and (${network}::text is null or o->>'network' = ${network})
         and (${scheme}::text is null or o->>'scheme' = ${scheme})
         and (${payTo}::text is null or lower(o->>'payTo') = lower(${payTo})))`

  return {
    /** A page after an entry with this place and id. */
    async list(
      { q, network, maxPriceMicros, order, now }: PayableApiQuery,
      limit: number,
      after: { place: bigint; apiId: string } | null,
    ): Promise<PayableApiWithSortPosition[]> {
      const later =
        after === null
          ? sql`true`
          : sql`(place, api_id) > (${after.place}::bigint, ${after.apiId}::uuid)`
      const rows = await sql<(PayableApiRow & { place: bigint })[]>`
        select * from (
          select *, ${placeBy(order)} as place from x402_apis
           where ${seen(now)} and ${containsWords(q)}
             and (${network}::text is null or ${network} = any(networks))
             and (${maxPriceMicros}::bigint is null or price_micros <= ${maxPriceMicros})) listed
         where ${later} order by place, api_id limit ${limit}`
      return rows.map((row) => ({ api: fromPayableApiRow(row), place: row.place }))
    },

    /** Own listings for other Bazaars, oldest first; theirs are never passed on. */
    async bazaarPage(
      query: OwnBazaarListingsQuery,
      limit: number,
      offset: number,
    ): Promise<{ apis: PayableApi[]; total: number }> {
      const [counted, rows] = await Promise.all([
        sql<{ total: number }[]>`select count(*)::int as total ${bazaarRows(query)}`,
        sql<PayableApiRow[]>`
          select * ${bazaarRows(query)} order by api_id limit ${limit} offset ${offset}`,
      ])
      return { apis: rows.map(fromPayableApiRow), total: counted[0]?.total ?? 0 }
    },

    /** Returns an entry if it is listed now. */
    async find(apiId: string, now: Date): Promise<PayableApi | null> {
      const [row] = await sql<PayableApiRow[]>`
        select * from x402_apis where api_id = ${apiId} and ${seen(now)}`
      return row === undefined ? null : fromPayableApiRow(row)
    },
  }
}
export type PayableApiDirectory = ReturnType<typeof createPayableApiDirectory>
