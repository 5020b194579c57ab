import {
  decryptEnvelope,
  encryptEnvelope,
  type EncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The random values of a write, and whether an earlier attempt may have started with them. */
export interface IdempotentRetryRandomValues {
  readonly drawn: unknown
  readonly isRetry: boolean
}

/** The request that a draft belongs to. */
interface DraftRequest {
  readonly owner: string
  readonly operation: string
  readonly key: string | null
  readonly hash: string
}

/** Stores the drafts of resumable writes, encrypted, one per Idempotency-Key for ten minutes. */
export function createResumableWriteDraftStore(sql: Sql, sealing: EncryptionKeys) {
  const place = ({ owner, key }: DraftRequest) => ['draft', owner, key ?? '']

  function opened(asked: DraftRequest, row: DraftRow): IdempotentRetryRandomValues {
    if (row.request_hash !== asked.hash) throw new ServiceError('idempotency_key_reused')
    const text = decryptEnvelope(sealing, row.sealed, place(asked)).toString('utf8')
    return { drawn: JSON.parse(text) as unknown, isRetry: true }
  }

  async function find(asked: DraftRequest): Promise<IdempotentRetryRandomValues | null> {
    const [row] = await sql<DraftRow[]>`
      select request_hash, sealed from idempotency_drafts
       where owner = ${asked.owner} and idempotency_key = ${asked.key}
         and at > now() - make_interval(secs => ${LIMITS.anonymousReplaySeconds})`
    return row === undefined ? null : opened(asked, row)
  }

  /** The valid draft under this key: this one, or an earlier one of another node. */
  async function keep(asked: DraftRequest, drawn: unknown): Promise<IdempotentRetryRandomValues> {
    for (;;) {
      const sealed = encryptEnvelope(sealing, JSON.stringify(drawn), place(asked))
      const kept = await sql`
        insert into idempotency_drafts (owner, idempotency_key, request_hash, sealed)
        values (${asked.owner}, ${asked.key}, ${asked.hash}, ${sealed})
        on conflict (owner, idempotency_key) do update
          set request_hash = excluded.request_hash, sealed = excluded.sealed, at = now()
          where idempotency_drafts.at <= now() - make_interval(secs => ${LIMITS.anonymousReplaySeconds})`
      if (kept.count > 0) return { drawn, isRetry: false }
      const known = await find(asked)
      if (known !== null) return known
    }
  }

  return { find, keep }
}

interface DraftRow {
  readonly request_hash: string
  readonly sealed: Buffer
}
