import { LIMITS } from '../../core/limits.ts'

/** `GET /api/backpack`: what a Backpack does, in a form an agent can act on (spec 4.5). */
export const backpackManual = (baseUrl: string) => ({
  name: 'Backpack',
  description:
    'A stateful identity with limits. Send its id with a call: the tool list and the fuse are checked before anything is charged, and the call is written to its ledger.',
  use: { header: 'x-backpack-id', value: 'bp_<id>', on: [`POST ${baseUrl}/api/refuel`] },
  auth: 'The key of the agent that owns it, in X-API-Key.',
  endpoints: [
    ['POST', '/create', 'agent_name, tools[], expiry_days, fuse, pager'],
    ['GET', '/{id}/state', 'limits, spending, state'],
    ['PATCH', '/{id}', 'tools, fuse, pager'],
    ['POST', '/{id}/revoke', 'final'],
    ['POST', '/{id}/renew', 'expiry_days'],
    ['GET', '/{id}/notifications', 'stored pager events'],
    ['GET', '/{id}/spend', 'tool, from, to, success, limit, cursor'],
    ['POST', '/{id}/keyring', 'name, secret, hosts[]'],
    ['GET', '/{id}/keyring', 'names and hosts, never values'],
    ['DELETE', '/{id}/keyring', 'query name'],
    ['POST', '/{id}/clipboard', 'key, value, ttl_seconds'],
    ['GET', '/{id}/clipboard', 'query key, or all entries'],
    ['DELETE', '/{id}/clipboard', 'query key'],
  ].map(([method, path, fields]) => ({ method, url: `${baseUrl}/api/backpack${path}`, fields })),
  fuse: {
    per_call_usdc: 'the most one call may cost',
    per_day_usdc: 'the most a UTC day may cost',
    per_month_usdc: 'the most a UTC month may cost',
  },
  pager: {
    webhook_url: 'receives each event as JSON',
    owner_email: 'is mailed',
    owner_telegram: 'a numeric chat id',
  },
  pager_events: [
    'tool_call',
    'low_balance',
    'daily_limit_hit',
    'error',
    'fuse.tripped',
    'backpack.created',
    'backpack.expiring',
  ],
  keyring:
    'A tool sends a secret as {{keyring.NAME}} in a header value, only to the hosts listed for it.',
  errors: {
    NOT_FOUND: 'Backpack not found',
    REVOKED: 'this Backpack has been revoked',
    EXPIRED: 'this Backpack has expired, renew it',
    TOOL_NOT_ALLOWED: 'the tool is not in the Backpack',
    FUSE_TRIPPED: 'spend limit reached, nothing was charged',
  },
  limits: {
    expiry_days_default: LIMITS.backpackExpiryDays,
    backpacks_per_agent: LIMITS.backpacks,
    keyring_secrets: LIMITS.keyringSecrets,
    keyring_secret_bytes: LIMITS.keyringSecretBytes,
    clipboard_entries: LIMITS.clipboardEntries,
    clipboard_value_bytes: LIMITS.clipboardValueBytes,
  },
})
