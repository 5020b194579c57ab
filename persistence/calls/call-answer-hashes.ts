import { createHash } from 'node:crypto'
import { toCanonicalJson } from '../../core/json/canonical.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Hashes of stored answers of tool calls, kept after the answers are deleted. */

const BATCH_ANSWERS = 500
/** A successful answer as it is stored. */
const ANSWER_START = '{"status":200,"body":{'

/** SHA-256 of the body of a stored answer; null if it is not that of a successful call. */
export function answerHashOf(response: string | null): Buffer | null {
  if (response?.startsWith(ANSWER_START) !== true) return null
  const { body } = JSON.parse(response) as { body: unknown }
  return createHash('sha256').update(toCanonicalJson(body)).digest()
}

interface AnswerRow {
  at: string
  owner: string
  call_id: string
  response: string
}

/** Deletes the text of answers that can no longer be repeated; their keys and hashes stay. */
export async function deleteUnrepeatableAnswerTexts(sql: Sql): Promise<void> {
  const isOld = sql`response is not null and at < now() - interval '24 hours'`
  const isHashed = sql`tool is not null and starts_with(response, ${ANSWER_START}::text)`
  for (let rows: AnswerRow[] = []; ;) {
    rows = await sql<AnswerRow[]>`
      select at::text as at, owner, call_id, response from calls
       where ${isOld} and ${isHashed} order by at limit ${BATCH_ANSWERS}`
    if (rows.length === 0) break
    const hashes = rows.map(({ at, owner, call_id, response }) => ({
      at,
      owner,
      call_id,
      hash: answerHashOf(response)?.toString('hex'),
    }))
    await sql`
      update calls c set response = null, answer_hash = decode(h.hash, 'hex')
        from jsonb_to_recordset(${JSON.stringify(hashes)}::text::jsonb)
             h(at timestamptz, owner text, call_id uuid, hash text)
       where (c.owner, c.call_id, c.at) = (h.owner, h.call_id, h.at)`
    if (rows.length < BATCH_ANSWERS) break
  }
  await sql`update calls set response = null where ${isOld} and not (${isHashed})`
}
