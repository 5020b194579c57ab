import { createHmac, randomBytes } from 'node:crypto'

/** Webhook secrets and signatures (Standard Webhooks 1.0). */

const PREFIX = 'whsec_'
const SECRET_BYTES = 32

/** Returns a new webhook secret: `whsec_` and 32 random bytes in base64. */
export const newWebhookSecret = (): string =>
  `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`

export interface WebhookSignatureInput {
  readonly id: string
  /** Seconds since the epoch. */
  readonly timestamp: number
  readonly body: string
}

/**
 * The `webhook-signature` value: `v1,` and the HMAC-SHA256 of id, timestamp and body for each
 * secret, separated by spaces. A receiver verifies with any one of them.
 */
export const signWebhook = (
  secrets: readonly string[],
  { id, timestamp, body }: WebhookSignatureInput,
): string =>
  secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
      const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`, 'utf8')
      return `v1,${digest.digest('base64')}`
    })
    .join(' ')
