import {
  decryptEnvelope,
  encryptEnvelope,
  type EncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import { newPrefixedId } from '../../core/ids-and-api-keys.ts'
import { newWebhookSecret } from '../../core/webhook-signature.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** A receiver of events, as its agent sees it. */
export interface Webhook {
  readonly id: string
  readonly agentId: string
  /** The Backpack whose pager it is; null for a registered one. */
  readonly backpackId: string | null
  readonly url: string
  readonly events: readonly string[]
  readonly state: 'active' | 'disabled'
  readonly disabledReason: string | null
  readonly disabledAt: Date | null
  /** Failed attempts since the last successful one. */
  readonly failures: number
  readonly failingSince: Date | null
  /** Events dropped because too many were waiting. */
  readonly dropped: number
  readonly createdAt: Date
}

export interface NewWebhook {
  readonly agentId: string
  readonly url: string
  readonly events: readonly string[]
  readonly at: Date
}

/** A webhook with its secret, which is shown only once. */
export interface WebhookWithSecret {
  readonly webhook: Webhook
  readonly secret: string
}

/** How long the old secret also signs after a rotation. */
const SECRET_OVERLAP_INTERVAL = '24 hours'

/** The cursor of a webhook in a list. */
export const toWebhookCursor = ({ createdAt, id }: Webhook): string =>
  `${createdAt.getTime()} ${id}`

/** The normalized target of an address. */
function normalizeUrl(text: string): string {
  const url = new URL(text)
  url.hash = ''
  return url.href
}

/**
 * The owner of the secret: part of the envelope, so that a row moved elsewhere cannot be decrypted.
 */
const webhookSecretAad = (agentId: string, id: string) => [agentId, id]

export const sealWebhookSecret = (
  key: EncryptionKeys,
  agentId: string,
  id: string,
  secret: string,
): Buffer => encryptEnvelope(key, secret, webhookSecretAad(agentId, id))

export const openWebhookSecret = (
  key: EncryptionKeys,
  agentId: string,
  id: string,
  sealed: Buffer,
): string => decryptEnvelope(key, sealed, webhookSecretAad(agentId, id)).toString('utf8')

/**
 * Re-encrypts a secret for another row with the current master key, since a rotation may be
 * retiring the old one. Null if it cannot be decrypted, and so cannot sign.
 */
function resealSecret(
  key: EncryptionKeys,
  agentId: string,
  id: string,
  sealed: Buffer,
): Buffer | null {
  try {
    return sealWebhookSecret(key, agentId, id, openWebhookSecret(key, agentId, id, sealed))
  } catch {
    return null
  }
}

/** Serializes registrations of an agent until the transaction ends. */
const lockAgentWebhooks = (tx: DatabaseTransaction, agentId: string) =>
  tx`select pg_advisory_xact_lock(hashtextextended(${`webhooks:${agentId}`}, 0))`

/** Stores the receivers of agents' events; their secrets are stored encrypted and shown once. */
export function createWebhookStore(sql: Sql, key: EncryptionKeys) {
  return {
    /**
     * The receiver of the same events at the same address: a second one would deliver each twice.
     */
    async twin(
      tx: DatabaseTransaction,
      { agentId, url, events }: NewWebhook,
    ): Promise<Webhook | null> {
      await lockAgentWebhooks(tx, agentId)
      const rows = await tx<WebhookRow[]>`
        select * from webhooks
         where agent_id = ${agentId} and backpack_id is null
           and events @> ${[...events]}::text[] and events <@ ${[...events]}::text[]
         order by created_at, id`
      const row = rows.find((one) => normalizeUrl(one.url) === normalizeUrl(url))
      return row === undefined ? null : fromRow(row)
    },

    /** Null if the agent already has `most`. */
    async add(
      tx: DatabaseTransaction,
      wanted: NewWebhook,
      most: number,
    ): Promise<WebhookWithSecret | null> {
      const { agentId, url, events, at } = wanted
      await lockAgentWebhooks(tx, agentId)
      const [id, secret] = [newPrefixedId('wh'), newWebhookSecret()]
      const sealed = sealWebhookSecret(key, agentId, id, secret)
      const [row] = await tx<WebhookRow[]>`
        insert into webhooks (id, agent_id, url, events, sealed, state, created_at)
        select ${id}, ${agentId}, ${url}, ${[...events]}::text[], ${sealed}::bytea, 'active',
               ${at}::timestamptz
         where (select count(*) from webhooks
                 where agent_id = ${agentId} and backpack_id is null) < ${most}
        returning *`
      return row === undefined ? null : { webhook: fromRow(row), secret }
    },

    /**
     * Newest first, including those of pagers; `before` is a cursor, valid after its webhook is
     * removed.
     */
    async listOf(agentId: string, limit: number, before: string | null): Promise<Webhook[]> {
      const [at = '', id = ''] = before?.split(' ') ?? []
      const rows = await sql<WebhookRow[]>`
        select * from webhooks w where agent_id = ${agentId}
           and (${before === null} or (w.created_at, w.id) < (${new Date(Number(at))}, ${id}))
         order by created_at desc, id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** Null if this agent has no such webhook. */
    async find(agentId: string, id: string): Promise<Webhook | null> {
      const [row] = await sql<WebhookRow[]>`
        select * from webhooks where id = ${id} and agent_id = ${agentId}`
      return row === undefined ? null : fromRow(row)
    },

    /** Ids of active webhooks, or only `only`, in order. */
    async active(tx: DatabaseTransaction, agentId: string, only: string | null): Promise<string[]> {
      const rows = await tx<{ id: string }[]>`
        select id from webhooks where agent_id = ${agentId} and state = 'active'
           and (id = ${only} or (${only}::text is null and backpack_id is null))
         order by id for update`
      return rows.map(({ id }) => id)
    },

    /**
     * Counts a request for test events; after `most` since then, returns when the first of them
     * was.
     */
    async countTest(
      tx: DatabaseTransaction,
      agentId: string,
      { most, since, at }: { most: number; since: Date; at: Date },
    ): Promise<{ first: Date } | null> {
      await tx`select pg_advisory_xact_lock(hashtextextended(${`webhook tests:${agentId}`}, 0))`
      const [row] = await tx<{ n: bigint; first: Date | null }[]>`
        select count(*) as n, min(at) as first from webhook_tests
         where agent_id = ${agentId} and at > ${since}`
      if (row !== undefined && row.first !== null && row.n >= most) return { first: row.first }
      await tx`insert into webhook_tests (agent_id, at) values (${agentId}, ${at})`
      return null
    },

    /** Deletes counts from before `since`. */
    async forgetTests(since: Date): Promise<void> {
      await sql`delete from webhook_tests where at <= ${since}`
    },

    /** Removes a registered webhook with all its deliveries; false if there was none. */
    async remove(tx: DatabaseTransaction, agentId: string, id: string): Promise<boolean> {
      const gone = await tx`
        delete from webhooks where id = ${id} and agent_id = ${agentId} and backpack_id is null`
      if (gone.count === 0) return false
      await tx`delete from deliveries where webhook_id = ${id}`
      return true
    },

    /**
     * Sets a new secret; the previous one also signs for a day. Null if there is no such webhook.
     */
    async rotate(
      tx: DatabaseTransaction,
      agentId: string,
      id: string,
      at: Date,
    ): Promise<WebhookWithSecret | null> {
      const [held] = await tx<{ sealed: Buffer }[]>`
        select sealed from webhooks where id = ${id} and agent_id = ${agentId} for update`
      if (held === undefined) return null
      const secret = newWebhookSecret()
      const sealed = sealWebhookSecret(key, agentId, id, secret)
      const before = resealSecret(key, agentId, id, held.sealed)
      const [row] = await tx<WebhookRow[]>`
        update webhooks set sealed_before = ${before}::bytea, sealed = ${sealed}::bytea,
               before_until = ${at}::timestamptz + ${SECRET_OVERLAP_INTERVAL}::interval
         where id = ${id} and agent_id = ${agentId} returning *`
      return row === undefined ? null : { webhook: fromRow(row), secret }
    },

    /** Enables a disabled webhook; waiting deliveries are sent from now on. */
    async enable(
      tx: DatabaseTransaction,
      agentId: string,
      id: string,
      at: Date,
    ): Promise<Webhook | null> {
      const [row] = await tx<WebhookRow[]>`
        update webhooks set state = 'active', disabled_reason = null, disabled_at = null,
               failures = 0, failing_since = null, due_at = ${at}
         where id = ${id} and agent_id = ${agentId} returning *`
      if (row === undefined) return null
      await tx`update deliveries set due_at = ${at}
        where webhook_id = ${id} and state = 'pending' and due_at > ${at}`
      return fromRow(row)
    },
  }
}
export type WebhookStore = ReturnType<typeof createWebhookStore>

interface WebhookRow {
  id: string
  agent_id: string
  backpack_id: string | null
  url: string
  events: string[]
  state: 'active' | 'disabled'
  disabled_reason: string | null
  disabled_at: Date | null
  failures: number
  failing_since: Date | null
  dropped: bigint
  created_at: Date
}

const fromRow = (row: WebhookRow): Webhook => ({
  id: row.id,
  agentId: row.agent_id,
  backpackId: row.backpack_id,
  url: row.url,
  events: row.events,
  state: row.state,
  disabledReason: row.disabled_reason,
  disabledAt: row.disabled_at,
  failures: row.failures,
  failingSince: row.failing_since,
  dropped: Number(row.dropped),
  createdAt: row.created_at,
})
