import type { TransactionSql } from 'postgres'
import { open, seal, writingKey, type SealingKeys } from '../core/crypto.ts'
import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { inFlight } from '../core/in-flight.ts'
import { keptInstead, type NotKept } from '../core/not-kept.ts'
import { draftStore } from './drafts.ts'
import { countKept } from './kept-bytes.ts'
import type { Sql } from './plane.ts'

const DAY_SECONDS = LIMITS.idempotencyHours * 3_600

export type Tx = TransactionSql<{ bigint: bigint }>

/** A write that may carry an Idempotency-Key (decision 16). */
export interface Asked {
  /** The agent, or the visitor when there is none. */
  readonly owner: string
  readonly agentId: string | null
  readonly keyId: string | null
  readonly key: string | null
  /** The fingerprint of the whole request. */
  readonly hash: string
  readonly operation: string
  /** The answer holds a secret: it is sealed before it is stored. */
  readonly secret?: boolean
  /** How long the answer is repeated; a day when absent. */
  readonly replaySeconds?: number
}

export interface Answer {
  readonly status: number
  readonly body: unknown
}
export interface Answered extends Answer {
  readonly replayed: boolean
  /** Why a repetition will not get this answer; absent where it will. */
  readonly notKept?: NotKept
}

interface Kept extends Answer {
  readonly hash: string
}

interface Stored {
  readonly requestHash: string
  readonly response: Answer
}

/** What `actors` offers for writes that go through a command; handed in, since it lies above. */
interface KeptReceipt {
  readonly operation: string
  readonly key: string
  readonly hash: string
  readonly keyId: string | null
  present(result: unknown): Answer
  stored(reason: NotKept | null): void
}

export interface Once {
  /** A write through a command: the answer is kept in the commit of the command. */
  command<R>(
    asked: Asked,
    present: (result: R) => Answer,
    ask: (options: { receipt?: KeptReceipt; lookedUpAt?: number }) => Promise<R>,
  ): Promise<Answered>
  /** A write of plain rows: look-up, work and the kept answer are one transaction. */
  write(asked: Asked, work: (tx: Tx) => Promise<Answer>): Promise<Answered>
  /**
   * Work that commits by itself, more than once where it must. What is left to chance in it is drawn
   * first and kept for ten minutes, so that a repetition after a crash, or at once on another node,
   * means the same. A later one begins anew.
   */
  drawn<D>(asked: Asked, plan: Plan<D>): Promise<Answered>
  /**
   * Work that commits by itself: its answer is kept right after it. A crash in between, or the same
   * key on two nodes at once, may do it twice; only for what is harmless twice. One answer is kept.
   */
  after(asked: Asked, work: () => Promise<Answer>): Promise<Answered>
}

/** Work that can be begun again. */
export interface Plan<D> {
  /** Refuses what must not begin; not asked again once it has begun. */
  admit(): Promise<void>
  /** Everything that is left to chance, as JSON can say it; secrets too, for it is kept sealed. */
  draw(): D
  /** Leaves alone what an earlier try has done; `again` says that there may have been one. */
  work(drawn: D, again: boolean): Promise<Answer>
}

/**
 * One answer for each Idempotency-Key of an owner for 24 hours, or `replaySeconds`. A repetition gets the first answer;
 * while the first still runs it waits for it a little, then it is told 409; with another request
 * under the same key it is told 422. Refusals are not kept: nothing happened.
 */
export function onceStore(sql: Sql, clock: Clock, sealing: SealingKeys): Once {
  const one = inFlight<Answered>()
  const alone = (asked: Asked, run: () => Promise<Answered>) =>
    one(asked.owner, asked.key ?? '', asked.hash, run, (first) => ({ ...first, replayed: true }))

  async function look(db: Sql | Tx, asked: Asked): Promise<Answered | null> {
    const [row] = await db<{ request_hash: string; response: string }[]>`
      select request_hash, response from calls
       where owner = ${asked.owner} and idempotency_key = ${asked.key}
         and at > now() - make_interval(secs => ${asked.replaySeconds ?? DAY_SECONDS})
       order by at limit 1`
    if (row === undefined) return null
    // First of all: what another operation has sealed does not open here.
    if (row.request_hash !== asked.hash) throw new ServiceError('idempotency_key_reused')
    return { ...decodeAnswer(asked, row.response), replayed: true }
  }

  /** Keeps the answer, or in its place that it was given; answers with it. */
  async function keep(
    db: Sql | Tx,
    asked: Asked,
    answer: Answer,
    startedMs: number,
  ): Promise<Answered> {
    const whole = encodeAnswer(asked, answer)
    const callId = newId(clock.now())
    const notKept = await refuseToKeep(db, asked, Buffer.byteLength(whole))
    const response = notKept === null ? whole : keptInstead(notKept, callId)
    const at = new Date(clock.now())
    // A key that was retired meanwhile must seal nothing.
    const kept =
      asked.secret === true ? db`sealed_text(${writingKey(sealing).id}, ${response})` : response
    await db`
      insert into calls (owner, call_id, agent_id, key_id, operation, rail, cost_micros, status, ms,
                         ghost, idempotency_key, request_hash, response, at)
      values (${asked.owner}, ${callId}, ${asked.agentId}, ${asked.keyId},
              ${asked.operation}, 'none', 0, 'ok', ${Math.round(clock.mono() - startedMs)}, false,
              ${asked.key}, ${asked.hash}, ${kept}, ${at})`
    return { ...fresh(answer), ...(notKept === null ? {} : { notKept }) }
  }

  const drafts = draftStore(sql, sealing)
  const place = (asked: Asked) => [asked.owner, asked.operation, asked.key ?? '']

  function encodeAnswer(asked: Asked, { status, body }: Answer): string {
    if (asked.secret !== true) return JSON.stringify({ status, body })
    const sealed = seal(sealing, JSON.stringify(body), place(asked)).toString('base64')
    return JSON.stringify({ status, body: null, sealed })
  }

  function decodeAnswer(asked: Asked, response: string): Answer {
    const stored = JSON.parse(response) as Answer & { sealed?: string }
    if (stored.sealed === undefined || asked.secret !== true) return stored
    const body = open(sealing, Buffer.from(stored.sealed, 'base64'), place(asked)).toString('utf8')
    return { status: stored.status, body: JSON.parse(body) as unknown }
  }

  const lock = (tx: Tx, { owner, key }: Asked) =>
    tx`select pg_advisory_xact_lock(hashtextextended(${`${owner} ${key}`}, 0))`

  /** Keeps an answer unless another node kept one before: then that one is the answer. */
  const keepFirst = (asked: Asked, answer: Answer, startedMs: number): Promise<Answered> =>
    sql.begin(async (tx) => {
      await lock(tx, asked)
      const known = await look(tx, asked)
      if (known !== null) return known
      return keep(tx, asked, answer, startedMs)
    })

  return {
    async drawn(asked, { admit, draw, work }) {
      if (asked.key === null) {
        await admit()
        return fresh(await work(draw(), false))
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
        const { drawn, again } = draft
        return keepFirst(asked, await work(drawn as Parameters<typeof work>[0], again), started)
      })
    },

    async command(asked, present, ask) {
      if (asked.key === null) return fresh(present(await ask({})))
      const { key, hash, operation, keyId } = asked
      return alone(asked, async () => {
        const lookedUpAt = clock.mono()
        const known = await look(sql, asked)
        if (known !== null) return known
        const kept = (result: unknown) => present(result as Parameters<typeof present>[0])
        try {
          let notKept: NotKept | null = null
          const stored = (reason: NotKept | null) => void (notKept = reason)
          const receipt = { operation, key, hash, keyId, present: kept, stored }
          const answered = fresh(present(await ask({ receipt, lookedUpAt })))
          return notKept === null ? answered : { ...answered, notKept }
        } catch (error) {
          const stored = answeredElsewhere(error)
          if (stored === null) throw error
          return replay(asked, { hash: stored.requestHash, ...stored.response })
        }
      })
    },

    async write(asked, work) {
      if (asked.key === null) return fresh(await sql.begin((tx) => work(tx)))
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

    async after(asked, work) {
      if (asked.key === null) return fresh(await work())
      return alone(asked, async () => {
        const started = clock.mono()
        const known = await look(sql, asked)
        if (known !== null) return known
        return keepFirst(asked, await work(), started)
      })
    },
  }
}

/** Secrets are kept, or their sender would lose what it was given; who sends none has no day to count. */
async function refuseToKeep(
  db: Sql | Tx,
  { secret, agentId }: Asked,
  bytes: number,
): Promise<NotKept | null> {
  if (secret === true || agentId === null || bytes <= LIMITS.keptUncountedBytes) return null
  if (bytes > LIMITS.keptAnswerBytes) return 'too_large'
  return (await countKept(db, agentId, bytes)) ? null : 'daily_bytes'
}

const fresh = ({ status, body }: Answer): Answered => ({ status, body, replayed: false })

function replay(asked: Asked, kept: Kept): Answered {
  if (kept.hash !== asked.hash) throw new ServiceError('idempotency_key_reused')
  return { status: kept.status, body: kept.body, replayed: true }
}

/** `AlreadyAnswered` of the actors, known by its shape since that folder lies above this one. */
function answeredElsewhere(error: unknown): Stored | null {
  return error instanceof Error && 'stored' in error ? (error.stored as Stored) : null
}
