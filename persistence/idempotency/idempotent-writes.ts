import type { TransactionSql } from 'postgres'
import {
  decryptEnvelope,
  encryptEnvelope,
  primaryEncryptionKey,
  type EncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import type { Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import { createIdempotencySingleflight } from '../../core/concurrency/idempotency-singleflight.ts'
import {
  unstoredResponsePlaceholder,
  type UnstoredResponseReason,
} from '../../domain/unstored-response-reasons.ts'
import { createResumableWriteDraftStore } from './idempotent-retry-random-values-store.ts'
import { reserveDailyStoredReplyBytes } from '../daily-stored-byte-quotas.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Runs writes under an Idempotency-Key and repeats their stored replies. */

const DAY_SECONDS = LIMITS.idempotencyHours * 3_600

export type DatabaseTransaction = TransactionSql<{ bigint: bigint }>

/** A write that may carry an Idempotency-Key (decision 16). */
export interface IdempotentRequest {
  /** The agent, or the visitor without one. */
  readonly owner: string
  readonly agentId: string | null
  readonly keyId: string | null
  readonly key: string | null
  /** The fingerprint of the whole request. */
  readonly hash: string
  readonly operation: string
  /** The reply holds a secret: it is encrypted before it is stored. */
  readonly secret?: boolean
  /** How long the reply is repeated; a day by default. */
  readonly replaySeconds?: number
}

export interface WriteRequestReply {
  readonly status: number
  readonly body: unknown
}
export interface IdempotentReply extends WriteRequestReply {
  readonly replayed: boolean
  /** Why this reply will not be repeated; absent if it will. */
  readonly notKept?: UnstoredResponseReason
}

interface StoredReplyWithHash extends WriteRequestReply {
  readonly hash: string
}

interface StoredCommandReply {
  readonly requestHash: string
  readonly response: WriteRequestReply
}

/** The receipt of a command in `actors`; passed in, since this layer cannot import it. */
interface CommandReceipt {
  readonly operation: string
  readonly key: string
  readonly hash: string
  readonly keyId: string | null
  present(result: unknown): WriteRequestReply
  stored(reason: UnstoredResponseReason | null): void
}

export interface IdempotentWrites {
  /** A write by a command: its commit stores the reply. */
  runCommand<R>(
    asked: IdempotentRequest,
    present: (result: R) => WriteRequestReply,
    ask: (options: { receipt?: CommandReceipt; lookedUpAt?: number }) => Promise<R>,
  ): Promise<IdempotentReply>
  /** A write of plain rows: look-up, work and stored reply are one transaction. */
  runTransaction(
    asked: IdempotentRequest,
    work: (tx: DatabaseTransaction) => Promise<WriteRequestReply>,
  ): Promise<IdempotentReply>
  /**
   * Work that commits by itself, possibly several times. Its random values are drawn first and
   * stored for ten minutes, so that a repetition after a crash, or a parallel one on another node,
   * uses the same. Later repetitions start anew.
   */
  runResumable<D>(asked: IdempotentRequest, plan: ResumableWrite<D>): Promise<IdempotentReply>
  /**
   * Work that commits by itself; its reply is stored afterwards. A crash in between, or the same
   * key on two nodes at once, may run it twice: only for idempotent work. One reply is stored.
   */
  runThenRecord(
    asked: IdempotentRequest,
    work: () => Promise<WriteRequestReply>,
  ): Promise<IdempotentReply>
}

/** Work that can be resumed. */
export interface ResumableWrite<D> {
  /** Throws if the work must not start; not called again once it has started. */
  admit(): Promise<void>
  /** Draws all random values as plain JSON, including secrets: it is stored encrypted. */
  draw(): D
  /** Skips what an earlier attempt has done; `again` means there may have been one. */
  work(drawn: D, again: boolean): Promise<WriteRequestReply>
}

/**
 * Gives one reply per Idempotency-Key of an owner for 24 hours, or `replaySeconds`. A repetition
 * gets the first reply; while the first request runs it waits briefly, then throws 409. Another
 * request under the same key throws 422. Rejections are not stored.
 */
export function createIdempotentWrites(
  sql: Sql,
  clock: Clock,
  sealing: EncryptionKeys,
): IdempotentWrites {
  const one = createIdempotencySingleflight<IdempotentReply>()
  const alone = (asked: IdempotentRequest, run: () => Promise<IdempotentReply>) =>
    one(asked.owner, asked.key ?? '', asked.hash, run, (first) => ({ ...first, replayed: true }))

  async function look(
    db: Sql | DatabaseTransaction,
    asked: IdempotentRequest,
  ): Promise<IdempotentReply | null> {
    const [row] = await db<{ request_hash: string; response: string }[]>`
      select request_hash, response from calls
       where owner = ${asked.owner} and idempotency_key = ${asked.key}
         and at > now() - make_interval(secs => ${asked.replaySeconds ?? DAY_SECONDS})
       order by at limit 1`
    if (row === undefined) return null
    // Checked first: a reply encrypted by another operation cannot be decrypted here.
    if (row.request_hash !== asked.hash) throw new ServiceError('idempotency_key_reused')
    return { ...decodeAnswer(asked, row.response), replayed: true }
  }

  /** Stores the reply, or a marker if it is not kept; returns the reply. */
  async function keep(
    db: Sql | DatabaseTransaction,
    asked: IdempotentRequest,
    answer: WriteRequestReply,
    startedMs: number,
  ): Promise<IdempotentReply> {
    const whole = encodeAnswer(asked, answer)
    const callId = newUuidV7(clock.now())
    const notKept = await checkReplyQuota(db, asked, Buffer.byteLength(whole))
    const response = notKept === null ? whole : unstoredResponsePlaceholder(notKept, callId)
    const at = new Date(clock.now())
    // A key that was retired meanwhile must not encrypt anything.
    const kept =
      asked.secret === true
        ? db`sealed_text(${primaryEncryptionKey(sealing).id}, ${response})`
        : response
    await db`
      insert into calls (owner, call_id, agent_id, key_id, operation, rail, cost_micros, status, ms,
                         ghost, idempotency_key, request_hash, response, at)
      values (${asked.owner}, ${callId}, ${asked.agentId}, ${asked.keyId},
              ${asked.operation}, 'none', 0, 'ok', ${Math.round(clock.mono() - startedMs)}, false,
              ${asked.key}, ${asked.hash}, ${kept}, ${at})`
    return { ...toFreshReply(answer), ...(notKept === null ? {} : { notKept }) }
  }

  const drafts = createResumableWriteDraftStore(sql, sealing)
  const place = (asked: IdempotentRequest) => [asked.owner, asked.operation, asked.key ?? '']

  function encodeAnswer(asked: IdempotentRequest, { status, body }: WriteRequestReply): string {
    if (asked.secret !== true) return JSON.stringify({ status, body })
    const sealed = encryptEnvelope(sealing, JSON.stringify(body), place(asked)).toString('base64')
    return JSON.stringify({ status, body: null, sealed })
  }

  function decodeAnswer(asked: IdempotentRequest, response: string): WriteRequestReply {
    const stored = JSON.parse(response) as WriteRequestReply & { sealed?: string }
    if (stored.sealed === undefined || asked.secret !== true) return stored
    const body = decryptEnvelope(
      sealing,
      Buffer.from(stored.sealed, 'base64'),
      place(asked),
    ).toString('utf8')
    return { status: stored.status, body: JSON.parse(body) as unknown }
  }

  const lock = (tx: DatabaseTransaction, { owner, key }: IdempotentRequest) =>
    tx`select pg_advisory_xact_lock(hashtextextended(${`${owner} ${key}`}, 0))`

  /** Stores a reply unless another node stored one before; returns the stored one. */
  const keepFirst = (
    asked: IdempotentRequest,
    answer: WriteRequestReply,
    startedMs: number,
  ): Promise<IdempotentReply> =>
    sql.begin(async (tx) => {
      await lock(tx, asked)
      const known = await look(tx, asked)
      if (known !== null) return known
      return keep(tx, asked, answer, startedMs)
    })

  return {
    async runResumable(asked, { admit, draw, work }) {
      if (asked.key === null) {
        await admit()
        return toFreshReply(await work(draw(), false))
      }
      return alone(asked, async () => {
        const started = clock.mono()
        const known = await look(sql, asked)
        if (known !== null) return known
        let draft = await drafts.find(asked)
        if (draft === null) {
          await admit()
          draft = await drafts.keep(asked, draw())
        }
        const { drawn, isRetry } = draft
        return keepFirst(asked, await work(drawn as Parameters<typeof work>[0], isRetry), started)
      })
    },

    async runCommand(asked, present, ask) {
      if (asked.key === null) return toFreshReply(present(await ask({})))
      const { key, hash, operation, keyId } = asked
      return alone(asked, async () => {
        const lookedUpAt = clock.mono()
        const known = await look(sql, asked)
        if (known !== null) return known
        const kept = (result: unknown) => present(result as Parameters<typeof present>[0])
        try {
          let notKept: UnstoredResponseReason | null = null
          const stored = (reason: UnstoredResponseReason | null) => void (notKept = reason)
          const receipt = { operation, key, hash, keyId, present: kept, stored }
          const answered = toFreshReply(present(await ask({ receipt, lookedUpAt })))
          return notKept === null ? answered : { ...answered, notKept }
        } catch (error) {
          const stored = findStoredReply(error)
          if (stored === null) throw error
          return toReplayedReply(asked, { hash: stored.requestHash, ...stored.response })
        }
      })
    },

    async runTransaction(asked, work) {
      if (asked.key === null) return toFreshReply(await sql.begin((tx) => work(tx)))
      return alone(asked, async () => {
        const started = clock.mono()
        return sql.begin(async (tx) => {
          await lock(tx, asked)
          const known = await look(tx, asked)
          if (known !== null) return known
          const answer = await work(tx)
          return keep(tx, asked, answer, started)
        })
      })
    },

    async runThenRecord(asked, work) {
      if (asked.key === null) return toFreshReply(await work())
      return alone(asked, async () => {
        const started = clock.mono()
        const known = await look(sql, asked)
        if (known !== null) return known
        return keepFirst(asked, await work(), started)
      })
    },
  }
}

/**
 * Secrets are always stored, since their requester would lose them; a visitor has no daily quota.
 */
async function checkReplyQuota(
  db: Sql | DatabaseTransaction,
  { secret, agentId }: IdempotentRequest,
  bytes: number,
): Promise<UnstoredResponseReason | null> {
  if (secret === true || agentId === null || bytes <= LIMITS.uncountedResponseBytes) return null
  if (bytes > LIMITS.storedResponseMaxBytes) return 'too_large'
  return (await reserveDailyStoredReplyBytes(db, agentId, bytes)) ? null : 'daily_bytes'
}

const toFreshReply = ({ status, body }: WriteRequestReply): IdempotentReply => ({
  status,
  body,
  replayed: false,
})

function toReplayedReply(asked: IdempotentRequest, kept: StoredReplyWithHash): IdempotentReply {
  if (kept.hash !== asked.hash) throw new ServiceError('idempotency_key_reused')
  return { status: kept.status, body: kept.body, replayed: true }
}

/**
 * Recognises the `IdempotencyKeyAnsweredElsewhereError` of actors by its shape, since this layer cannot import it.
 */
function findStoredReply(error: unknown): StoredCommandReply | null {
  return error instanceof Error && 'stored' in error ? (error.stored as StoredCommandReply) : null
}
