import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { isPublicAgentSql } from './public-agent-sql.ts'

/** Signatures of the manifesto, one an agent. */

export interface ManifestoSigner {
  readonly agentId: string
  readonly name: string
  readonly signedAt: Date
}

/** Reads and writes signatures. */
export function createManifestoSignatureStore(sql: Sql) {
  return {
    /** Signatures of all agents, public or not. */
    async count(): Promise<number> {
      const [row] = await sql<{ count: number }[]>`
        select count(*)::int as count from manifesto_signatures`
      return row?.count ?? 0
    },

    /** Signers that may be named, latest first; `before` is milliseconds and the id of the last one seen. */
    async list(limit: number, before: { at: Date; agentId: string } | null) {
      const earlier =
        before === null
          ? sql`true`
          : sql`(s.signed_at, s.agent_id) < (${before.at}, ${before.agentId}::uuid)`
      const rows = await sql<{ agent_id: string; name: string; signed_at: Date }[]>`
        select s.agent_id, a.name, s.signed_at
          from manifesto_signatures s join agents a using (agent_id)
         where ${isPublicAgentSql(sql)} and ${earlier}
         order by s.signed_at desc, s.agent_id desc limit ${limit}`
      return rows.map((row): ManifestoSigner => ({
        agentId: row.agent_id,
        name: row.name,
        signedAt: row.signed_at,
      }))
    },

    /** Signs once; returns when the agent signed, and whether it was now. */
    async sign(tx: DatabaseTransaction, agentId: string, at: Date) {
      const added = await tx`
        insert into manifesto_signatures (agent_id, signed_at) values (${agentId}, ${at})
        on conflict (agent_id) do nothing`
      const [row] = await tx<{ signed_at: Date }[]>`
        select signed_at from manifesto_signatures where agent_id = ${agentId}`
      return { signedAt: row?.signed_at ?? at, isNew: added.count > 0 }
    },

    /** Removes the signature; returns whether there was one. */
    async withdraw(tx: DatabaseTransaction, agentId: string): Promise<boolean> {
      const gone = await tx`delete from manifesto_signatures where agent_id = ${agentId}`
      return gone.count > 0
    },
  }
}
export type ManifestoSignatureStore = ReturnType<typeof createManifestoSignatureStore>
