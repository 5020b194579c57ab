import {
  decryptEnvelope,
  encryptEnvelope,
  type EncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Credentials of imported services, encrypted; each belongs to one builder and one origin. */

export interface ImportedServiceCredential {
  /** The name of the header, in lower case. */
  readonly header: string
  readonly value: string
}

const credentialAad = (builderId: string, origin: string, header: string) => [
  builderId,
  origin,
  header,
]

export function createImportedServiceCredentialStore(sql: Sql, keys: EncryptionKeys) {
  return {
    async find(builderId: string, origin: string): Promise<ImportedServiceCredential | null> {
      const [row] = await sql<{ header: string; sealed: Buffer }[]>`
        select header, sealed from tool_credentials
         where builder_id = ${builderId} and origin = ${origin}`
      if (row === undefined) return null
      const aad = credentialAad(builderId, origin, row.header)
      return { header: row.header, value: decryptEnvelope(keys, row.sealed, aad).toString('utf8') }
    },

    /** Stores the credential of an origin; null removes it. */
    async put(
      builderId: string,
      origin: string,
      credential: ImportedServiceCredential | null,
      at: Date,
    ): Promise<void> {
      if (credential === null) {
        await sql`
          delete from tool_credentials where builder_id = ${builderId} and origin = ${origin}`
        return
      }
      const { header, value } = credential
      const sealed = encryptEnvelope(keys, value, credentialAad(builderId, origin, header))
      await sql`
        insert into tool_credentials (builder_id, origin, header, sealed, at)
        values (${builderId}, ${origin}, ${header}, ${sealed}, ${at})
        on conflict (builder_id, origin) do update
          set header = excluded.header, sealed = excluded.sealed, at = excluded.at`
    },
  }
}
