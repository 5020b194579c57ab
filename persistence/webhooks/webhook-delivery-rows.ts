import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import { openWebhookSecret } from './webhook-store.ts'

/** Webhook deliveries, and how they are read from rows. */

export type WebhookDeliveryState = 'pending' | 'delivered' | 'failed'

/** One event for one receiver, as its agent sees it. */
export interface WebhookDelivery {
  /** The `webhook-id` of every attempt. */
  readonly id: string
  /** Its position in the delivery order; a replay gets a new one. */
  readonly seq: bigint
  readonly type: string
  readonly data: Record<string, unknown>
  /** When the event happened. */
  readonly at: Date
  readonly state: WebhookDeliveryState
  readonly attempts: number
  /** Of the last attempt: the HTTP status; null if there was none, see `error`. */
  readonly status: number | null
  readonly error: string | null
  readonly ms: number | null
  readonly lastAt: Date | null
  /** Earliest time of the next attempt; null once it is settled. */
  readonly dueAt: Date | null
}

/** A delivery that only this node attempts until its lease ends. */
export interface ClaimedWebhookDelivery extends Pick<
  WebhookDelivery,
  'id' | 'type' | 'data' | 'at' | 'attempts'
> {
  readonly webhookId: string
  readonly agentId: string
  /** Null if the Backpack has no pager address any more. */
  readonly url: string | null
  /** Newest first; empty if they cannot be decrypted. */
  readonly secrets: readonly string[]
  /** Attempts that were answered without a 2xx. */
  readonly answered: number
  readonly failingSince: Date | null
  readonly lease: string
}

/** A row of a claim; `id` is null without a due delivery. */
export interface ClaimedWebhookDeliveryRow {
  webhook_id: string
  agent_id: string
  sealed: Buffer
  sealed_before: Buffer | null
  failing_since: Date | null
  url: string | null
  id: string | null
  type: string
  data: Record<string, unknown>
  at: Date
  attempts: number
  answered: number
}

/** The claimed delivery of a row; empty without a due delivery. */
export function toClaimedWebhookDeliveries(
  row: ClaimedWebhookDeliveryRow,
  key: EncryptionKeys,
  lease: string,
): ClaimedWebhookDelivery[] {
  const { id, url, type, data, at, attempts, answered } = row
  if (id === null) return []
  const secrets = openSecrets(row, key)
  const [webhookId, agentId, failingSince] = [row.webhook_id, row.agent_id, row.failing_since]
  const message = { id, type, data, at, attempts, answered }
  return [{ ...message, webhookId, agentId, url, secrets, failingSince, lease }]
}

/** Empty if they cannot be decrypted: only that receiver's attempt fails. */
function openSecrets(row: ClaimedWebhookDeliveryRow, key: EncryptionKeys): string[] {
  try {
    return [row.sealed, row.sealed_before].flatMap((sealed) =>
      sealed === null ? [] : [openWebhookSecret(key, row.agent_id, row.webhook_id, sealed)],
    )
  } catch {
    return []
  }
}

/** A row of a delivery as the driver returns it. */
export interface WebhookDeliveryRow {
  id: string
  seq: bigint
  type: string
  data: Record<string, unknown>
  at: Date
  state: WebhookDeliveryState
  attempts: number
  status: number | null
  error: string | null
  ms: number | null
  last_at: Date | null
  due_at: Date
}

/** A delivery from its row. */
export const toWebhookDelivery = (row: WebhookDeliveryRow): WebhookDelivery => ({
  id: row.id,
  seq: row.seq,
  type: row.type,
  data: row.data,
  at: row.at,
  state: row.state,
  attempts: row.attempts,
  status: row.status,
  error: row.error,
  ms: row.ms,
  lastAt: row.last_at,
  dueAt: row.state === 'pending' ? row.due_at : null,
})
