import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseMasterKey } from '../core/key-derivation-and-encryption.ts'
import { openStationKeys } from '../persistence/encrypted-station-key-store.ts'
import { newApiKey, newUuidV7 } from '../core/ids-and-api-keys.ts'
import { UNLIMITED_API_KEY_SPENDING } from '../domain/api-key-spending-limits.ts'
import { toApiKeyRow } from '../persistence/agents/api-key-store.ts'
import type { Sql } from '../persistence/postgres/postgres-connection-pool.ts'
import { onboardAgents, type StationHttpClient } from '../chaos/station-http-client.ts'

/**
 * Inserts copies of an onboarded agent with the same snapshot, journal row and grant as a normal
 * onboarding writes. Returns their ids.
 */
export async function seedAgents(
  client: StationHttpClient,
  sql: Sql,
  count: number,
): Promise<string[]> {
  const [model] = await onboardAgents(client, 1)
  const modelId = model?.id ?? ''
  const ids = await sql.begin(async (tx) => {
    const made = await tx<{ id: string }[]>`
      insert into aggregates
      select gen_random_uuid()::text, 'agent', 1 from generate_series(1, ${count}::int) returning id`
    const all = made.map(({ id }) => id)
    for (let from = 0; from < all.length; from += CHUNK) {
      await copy(tx as unknown as Sql, modelId, all.slice(from, from + CHUNK))
    }
    return all
  })
  await sql`analyze`
  return ids
}

const CHUNK = 50_000

async function copy(sql: Sql, model: string, ids: readonly string[]): Promise<void> {
  const list = `{${ids.join(',')}}`
  await sql`
    insert into actors
    select n, a.kind, n, a.machine_version, jsonb_set(a.state, '{context,agentId}', to_jsonb(n)), false
      from unnest(${list}::text[]) n cross join actors a where a.aggregate_id = ${model}`
  await sql`
    insert into journal
    select n, 1, gen_random_uuid(), j.command,
           jsonb_set(j.changed::jsonb, '{0,state,context,agentId}', to_jsonb(n))::json, j.at
      from unnest(${list}::text[]) n cross join journal j where j.aggregate_id = ${model}`
  await sql`
    insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
    select gen_random_uuid(), n, t.debit, 'agent:' || n || ':promo', t.amount_micros, t.kind, t.at
      from unnest(${list}::text[]) n cross join ledger t where t.owner = ${model}`
}

/** Inserts an API key for each agent, in the form the service stores. */
export async function seedApiKeys(
  dataDir: string,
  sql: Sql,
  ids: readonly string[],
): Promise<string[]> {
  const master = parseMasterKey(readFileSync(join(dataDir, 'master.key'), 'utf8').trim())
  const { pepper } = await openStationKeys(sql, [master])
  const at = new Date()
  const keys = ids.map((agentId) => ({ agentId, secret: newApiKey(), id: newUuidV7(at.getTime()) }))
  const rows = keys.map((key) =>
    toApiKeyRow(pepper, {
      ...key,
      name: 'bench',
      scopes: ['*'],
      ...UNLIMITED_API_KEY_SPENDING,
      expiresAt: null,
      createdAt: at,
    }),
  )
  await sql`
    insert into api_keys
    select r.* from jsonb_populate_recordset(null::api_keys, ${JSON.stringify(rows)}::text::jsonb) r`
  return keys.map(({ secret }) => secret)
}
