import { LIMITS } from '../../../core/limits.ts'

/** Returns the body of `GET /api/backpack`: what a Backpack does, in a form an agent can act on. */
export const createBackpackUsageGuide = (baseUrl: string) => ({
  name: 'Backpack',
  description:
    'A stateful identity with limits. Send its id with a call: the tool list and the fuse are checked before anything is charged, and the call is written to its ledger. Sends, tips, bounties and purchases count at face value and are allowed only where the list names them.',
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
  permissions: {
    agent_send: 'credits sent to other agents',
    tip: 'tips',
    bounty: 'bounties that are posted; what comes back from one is not given back to the fuse',
    purchase: 'packs and other purchases',
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
    TOOL_NOT_ALLOWED: 'the tool, or the permission to spend, is not in the Backpack',
    FUSE_TRIPPED:
      'it would exceed a spend limit; nothing was charged, the answer says when the window ends',
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
