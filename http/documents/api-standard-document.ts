import { LIMITS, TOKEN_BUCKET_RATES } from '../../core/limits.ts'
import type { HttpConfig } from '../http-config-and-service-types.ts'

/** The document of the API's conventions, for clients that work without reading prose. */

/** Describes authentication, errors, idempotency, paging, money, events and versions. */
export function describeApiConventions({
  publicUrl,
  version,
}: Pick<HttpConfig, 'publicUrl' | 'version'>) {
  const at = (path: string) => `${publicUrl}${path}`
  return {
    schema_version: '1.0',
    version,
    auth: {
      header: 'X-API-Key',
      alternative: 'Authorization: Bearer <key>',
      format: '^gas_[0-9A-Za-z]{49}$',
      onboard: at('/api/onboard'),
      bound_keys:
        'A key bound to a Backpack spends only in that Backpack and cannot change its limits.',
    },
    request_headers: {
      'Idempotency-Key':
        'Any string up to 255 characters. The same key and body repeat the first answer for 24 hours.',
      'X-Task-ID': 'Charges the call to a task session and enforces its budget.',
      'X-Backpack-ID': 'Applies the tool list and the fuse of a Backpack.',
      'X-Ghost-Mode': 'stealth, observe or shadow: the call appears in no public figure or feed.',
      'Payment-Signature': 'An x402 payment: base64 of JSON.',
    },
    errors: {
      media_type: 'application/problem+json',
      standard: 'RFC 9457',
      act_on: 'code',
      members: [
        'type',
        'title',
        'status',
        'detail',
        'instance',
        'code',
        'errors',
        'retry_after',
        'remedy',
        'fund_url',
        'call_id',
        'refunded',
      ],
      codes: at('/problems'),
      retry: {
        '402': 'Pay, or raise what `limit_source` names; task_budget_exceeded has no offer.',
        '409': 'The state has changed: read it again.',
        '429': 'Wait `retry_after` seconds.',
        '5xx': 'Repeat with the same Idempotency-Key.',
      },
    },
    idempotency: {
      header: 'Idempotency-Key',
      hours: LIMITS.idempotencyHours,
      replayed: 'Idempotency-Replayed: true',
      other_body: '422',
      in_flight: '409',
    },
    paging: {
      parameters: ['limit', 'cursor'],
      limit_default: LIMITS.pageDefault,
      limit_max: LIMITS.pageMax,
      next: 'next_cursor; null on the last page',
      order: 'newest first',
    },
    money: {
      unit: 'USDC',
      type: 'JSON number with at most six decimals; exact',
      names: '*_usdc',
      calls_are_charged: 'once, and not when the tool fails: `refunded` is then true',
    },
    time: { format: 'ISO 8601, UTC', windows: 'days and months are those of UTC' },
    events: {
      webhooks: {
        standard: 'Standard Webhooks',
        headers: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
        types: ['tool_call', 'low_balance', 'topup', 'agent_ping', 'bounty_received', 'all'],
        register: at('/api/webhook/register'),
      },
      websocket: {
        url: `${publicUrl.replace(/^http/, 'ws')}/api/ws`,
        subprotocol: 'gas.v1',
        resume: 'since',
      },
      server_sent_events: [
        at('/api/refuel/stream'),
        at('/api/signal/stream'),
        at('/api/stats/live'),
      ],
    },
    rate_limits: {
      headers: ['RateLimit', 'RateLimit-Policy', 'Retry-After'],
      buckets: TOKEN_BUCKET_RATES,
    },
    versions: {
      changes: 'only additions; a removal is announced 90 days ahead',
      headers: ['Deprecation', 'Sunset'],
      whats_new: at('/api/whats-new'),
    },
  }
}
