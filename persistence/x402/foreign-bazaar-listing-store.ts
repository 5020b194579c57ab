import { HOUR, MINUTE } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import {
  listOfferedPaymentProtocols,
  type BazaarResource,
} from '../../domain/payable-endpoint-offers.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { listNetworksOfOffers, toLowestOfferPriceMicros } from './payable-api-store.ts'

/** What other Bazaars list, and when they are read. */

const READ_EVERY_MS = HOUR
const RETRY_AFTER_MS = 10 * MINUTE
const WRITE_BATCH_SIZE = 200

/** Takes Bazaars in turn over all nodes, and stores what they list. */
export function createBazaarStore(sql: Sql) {
  return {
    /** Returns the Bazaars that this node reads now; if that fails they are due again in ten minutes. */
    async takeDue(bazaars: readonly string[], now: Date): Promise<string[]> {
      const later = new Date(now.getTime() + RETRY_AFTER_MS)
      const rows = await sql<{ url: string }[]>`
        insert into x402_bazaars as known (url, next_read_at)
        select url, ${later} from unnest(${[...bazaars]}::text[]) url
        on conflict (url) do update set next_read_at = excluded.next_read_at
         where known.next_read_at <= ${now}
        returning url`
      return rows.map(({ url }) => url)
    },

    /** Replaces what a Bazaar lists. */
    async replace(bazaar: string, resources: readonly BazaarResource[], now: Date): Promise<void> {
      await sql.begin(async (tx) => {
        for (let at = 0; at < resources.length; at += WRITE_BATCH_SIZE) {
          const rows = resources.slice(at, at + WRITE_BATCH_SIZE).map((one) => ({
            api_id: newUuidV7(now.getTime()),
            source: bazaar,
            url: one.url,
            name: one.name,
            description: one.description,
            tags: one.tags,
            price_micros: toLowestOfferPriceMicros(one.offers)?.toString() ?? null,
            networks: listNetworksOfOffers(one.offers),
            protocols: listOfferedPaymentProtocols(one.offers),
            offers: one.offers,
            created_at: now,
            last_seen_at: now,
          }))
          await tx`
            insert into x402_apis (api_id, source, url, name, description, tags, price_micros,
                                   networks, protocols, offers, created_at, last_seen_at)
            select api_id, source, url, name, description, tags, price_micros, networks, protocols,
                   offers, created_at, last_seen_at
              from jsonb_populate_recordset(null::x402_apis, ${JSON.stringify(rows)}::text::jsonb)
            on conflict (source, url) do update set
              name = excluded.name, description = excluded.description, tags = excluded.tags,
              price_micros = excluded.price_micros, networks = excluded.networks,
              protocols = excluded.protocols, offers = excluded.offers,
              last_seen_at = excluded.last_seen_at`
        }
        await tx`delete from x402_apis where source = ${bazaar} and last_seen_at < ${now}`
        await tx`
          update x402_bazaars set next_read_at = ${new Date(now.getTime() + READ_EVERY_MS)}
           where url = ${bazaar}`
      })
    },
  }
}
export type BazaarStore = ReturnType<typeof createBazaarStore>
