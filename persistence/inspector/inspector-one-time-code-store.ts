import { createHash, randomBytes } from 'node:crypto'
import type { Sql } from '../start-postgres-and-redis.ts'

/** One-time codes that open the inspector, on any node. Only their hashes are stored. */
export function createInspectorCodeStore(sql: Sql) {
  return {
    /** A new code for so many seconds. Removes expired ones. */
    async issue(seconds: number): Promise<string> {
      const code = randomBytes(18).toString('base64url')
      await sql`delete from inspector_codes where expires_at < now()`
      await sql`insert into inspector_codes (hash, expires_at)
        values (${hashOf(code)}, now() + make_interval(secs => ${seconds}))`
      return code
    },

    /** Uses a code up. False for an unknown, expired or used one. */
    async redeem(code: string): Promise<boolean> {
      const used = await sql`
        delete from inspector_codes where hash = ${hashOf(code)} and expires_at > now()`
      return used.count === 1
    },
  }
}
export type InspectorCodeStore = ReturnType<typeof createInspectorCodeStore>

const hashOf = (code: string): string => createHash('sha256').update(code, 'utf8').digest('hex')
