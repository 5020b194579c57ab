import type { Test } from 'tap'
import type { TestReply } from '../http/test-http-client.ts'
import { PAID_CALL_BODY, type WriteRouteFixtures } from '../agents/write-route-fixtures.ts'
import type { InProcessStation } from '../station/start-test-station.ts'
import { toolCallWriteRouteCases } from './write-route-tool-call-cases.ts'
import type { WriteRouteCase } from './write-route-case-shape.ts'
import { memoryWriteCases } from './write-route-hive-and-vault-cases.ts'

/** Test cases of every write route, and assertions on rejections. */

export const UNKNOWN_ID = '018f6f7a-0000-7000-8000-000000000000'

/** All write routes by their pattern in the OpenAPI document. */
export const writeRouteCases = (her: WriteRouteFixtures): Record<string, WriteRouteCase> => ({
  'POST /api/onboard': {
    path: '/api/onboard',
    body: { name: 'agent', description: 'x', source: 'x', referral_code: her.referralCode },
    texts: ['name', 'description', 'source', 'referral_code'],
    status: 201,
    anonymousAllowed: true,
  },
  'POST /api/agents/register': {
    path: '/api/agents/register',
    body: { name: 'agent', framework: 'http', owner_email: 'a@b.example' },
    texts: ['name', 'framework', 'owner_email'],
    status: 201,
    anonymousAllowed: true,
  },
  'POST /api/onboard/bulk': {
    path: '/api/onboard/bulk',
    body: { agents: [{ name: 'agent' }] },
    lists: ['agents'],
    anonymousAllowed: true,
  },
  ...toolCallWriteRouteCases(),
  'PATCH /api/agent/me': {
    path: '/api/agent/me',
    method: 'PATCH',
    body: { description: 'An agent.', discoverable: false },
    texts: [],
  },
  // The agent has not run the recipe.
  'POST /api/cookbook/{slug}/claim': { path: '/api/cookbook/market-brief/claim', status: 422 },
  // Nothing answers there.
  'POST /api/x402/register': {
    path: '/api/x402/register',
    body: { name: 'x', url: 'http://apis.invalid/', price_usdc: 0.01 },
    amounts: ['price_usdc'],
    texts: ['name', 'url'],
    status: 422,
  },
  'POST /api/x402/apis/{id}/verify': {
    path: `/api/x402/apis/${UNKNOWN_ID}/verify`,
    status: 404,
  },
  'DELETE /api/x402/apis/{id}': {
    path: `/api/x402/apis/${UNKNOWN_ID}`,
    method: 'DELETE',
    status: 404,
  },
  'POST /api/manifesto/sign': { path: '/api/manifesto/sign', status: 201 },
  'DELETE /api/manifesto/sign': { path: '/api/manifesto/sign', method: 'DELETE' },
  'POST /api/agent/set-contact': {
    path: '/api/agent/set-contact',
    body: { owner_email: 'a@b.example' },
    texts: [],
  },
  // The station sends no mail.
  'POST /api/agent/contact-email': {
    path: '/api/agent/contact-email',
    body: { contact_email: 'a@b.example' },
    texts: ['contact_email'],
    status: 503,
  },
  // The owner has no chat.
  'POST /api/agent/ping-owner': {
    path: '/api/agent/ping-owner',
    body: { message: 'x' },
    texts: ['message'],
    status: 409,
  },
  'POST /api/agent/recommend': { path: '/api/agent/recommend' },
  'POST /api/webhook/register': {
    path: '/api/webhook/register',
    body: { url: 'https://hooks.invalid/', events: ['topup'] },
    texts: ['url'],
    lists: ['events'],
  },
  'POST /api/webhook/test': {
    path: '/api/webhook/test',
    body: { webhook_id: her.webhook },
    texts: ['webhook_id'],
  },
  'POST /api/webhook/{id}/rotate': { path: `/api/webhook/${her.webhook}/rotate` },
  'POST /api/webhook/{id}/enable': { path: `/api/webhook/${her.webhook}/enable` },
  'POST /api/webhook/{id}/deliveries/{delivery}/replay': {
    path: `/api/webhook/${her.webhook}/deliveries/msg_none/replay`,
    status: 404,
  },
  'DELETE /api/webhook/{id}': { path: `/api/webhook/${her.webhookToDelete}`, method: 'DELETE' },
  'POST /api/agent/send': {
    path: '/api/agent/send',
    body: { to_agent_id: her.friend.id, amount_usdc: 0.01, memo: 'x' },
    amounts: ['amount_usdc'],
    texts: ['to_agent_id', 'memo'],
  },
  'POST /api/credits/topup': {
    path: '/api/credits/topup',
    body: { amount_usdc: 1 },
    amounts: ['amount_usdc'],
    // the station has no chain
    status: 503,
  },
  'POST /api/tip': {
    path: '/api/tip',
    body: { to_agent_id: her.friend.id, amount_usdc: 0.01, note: 'x' },
    amounts: ['amount_usdc'],
    texts: ['to_agent_id', 'note'],
  },
  'POST /api/fleet/create': {
    path: '/api/fleet/create',
    body: { name: 'crew' },
    texts: ['name'],
  },
  'POST /api/fleet/add-agent': {
    path: '/api/fleet/add-agent',
    body: { fleet_id: her.fleet, agent_id: her.friend.id, agent_key: her.friend.key },
    texts: ['fleet_id', 'agent_id'],
  },
  'POST /api/fleet/leave': {
    path: '/api/fleet/leave',
    body: { fleet_id: her.fleet },
    texts: ['fleet_id'],
    // the agent owns this fleet and is not a member
    status: 409,
  },
  'POST /api/fleet/remove-agent': {
    path: '/api/fleet/remove-agent',
    body: { fleet_id: her.fleet, agent_id: her.friend.id },
    texts: ['fleet_id', 'agent_id'],
  },
  'POST /api/fleet/topup': {
    path: '/api/fleet/topup',
    body: { fleet_id: her.fleet, tx_hash: `0x${'1'.repeat(64)}` },
    texts: ['fleet_id', 'tx_hash'],
    // the station has no chain
    status: 503,
  },
  'POST /api/referrals/create': { path: '/api/referrals/create', status: 201 },
  'POST /api/wallet/export': { path: '/api/wallet/export', body: { confirm: true } },
  'POST /api/wallet/export/received': {
    path: '/api/wallet/export/received',
    body: { wallet_address: `0x${'1'.repeat(40)}` },
    texts: ['wallet_address'],
    // no such wallet was exported
    status: 404,
  },
  'POST /api/keys': {
    path: '/api/keys',
    body: { name: 'k', scopes: ['read'], cap_usdc: 1, expires_in_seconds: 60 },
    amounts: ['cap_usdc'],
    texts: ['name'],
    lists: ['scopes'],
    wholes: ['expires_in_seconds'],
  },
  'POST /api/keys/rotate': {
    path: '/api/keys/rotate',
    body: { grace_seconds: 60, key_id: her.spareKey },
    texts: ['key_id'],
    wholes: ['grace_seconds'],
  },
  'DELETE /api/keys/{id}': { path: `/api/keys/${her.keyToRevoke}`, method: 'DELETE' },
  'POST /api/task/start': {
    path: '/api/task/start',
    body: { name: 'x', budget_usdc: 1 },
    amounts: ['budget_usdc'],
    texts: ['name'],
  },
  'POST /api/task/end': {
    path: '/api/task/end',
    body: { task_id: her.taskToEnd },
    texts: ['task_id'],
  },
  'POST /api/task/cancel': {
    path: '/api/task/cancel',
    body: { task_id: her.taskToCancel },
    texts: ['task_id'],
  },
  'PATCH /api/task/{id}/budget': {
    path: `/api/task/${her.task}/budget`,
    method: 'PATCH',
    body: { budget_usdc: 2 },
    amounts: ['budget_usdc'],
  },
  'POST /api/task/schedule': {
    path: '/api/task/schedule',
    body: { interval: '1h', tool: PAID_CALL_BODY.tool, params: {} },
    amounts: ['budget_usdc'],
    texts: ['name', 'tool'],
    objects: ['params'],
  },
  'PATCH /api/task/schedule/{id}': {
    path: `/api/task/schedule/${her.schedule}`,
    method: 'PATCH',
    body: { write_to_hive: true },
    amounts: ['budget_usdc'],
    texts: ['name'],
  },
  'DELETE /api/task/schedule/{id}': {
    path: `/api/task/schedule/${her.scheduleToCancel}`,
    method: 'DELETE',
  },
  'POST /api/backpack/create': {
    path: '/api/backpack/create',
    body: {
      agent_name: 'x',
      tools: ['hive_read'],
      expiry_days: 3,
      fuse: { per_day_usdc: 1 },
      pager: {},
    },
    texts: ['agent_name'],
    lists: [],
    objects: ['fuse', 'pager'],
    wholes: ['expiry_days'],
  },
  'PATCH /api/backpack/{id}': {
    path: `/api/backpack/${her.backpack}`,
    method: 'PATCH',
    body: { fuse: { per_call_usdc: 1 }, pager: { owner_email: null } },
    objects: ['fuse', 'pager'],
  },
  'POST /api/backpack/{id}/revoke': { path: `/api/backpack/${her.backpackToRevoke}/revoke` },
  'POST /api/backpack/{id}/renew': {
    path: `/api/backpack/${her.backpack}/renew`,
    body: { expiry_days: 5 },
    wholes: ['expiry_days'],
  },
  'POST /api/backpack/{id}/keyring': {
    path: `/api/backpack/${her.backpack}/keyring`,
    body: { name: 'TOKEN', secret: 's3cret', hosts: ['a.example'] },
    texts: ['name', 'secret'],
    lists: ['hosts'],
  },
  'DELETE /api/backpack/{id}/keyring': {
    path: `/api/backpack/${her.backpack}/keyring?name=TOKEN`,
    method: 'DELETE',
  },
  'POST /api/backpack/{id}/clipboard': {
    path: `/api/backpack/${her.backpack}/clipboard`,
    body: { key: 'k', value: 1, ttl_seconds: 60 },
    texts: ['key'],
    wholes: [],
  },
  'DELETE /api/backpack/{id}/clipboard': {
    path: `/api/backpack/${her.backpack}/clipboard?key=k`,
    method: 'DELETE',
  },
  ...memoryWriteCases(her),
  // The agent has too few credits.
  'POST /api/task/passes/buy': {
    path: '/api/task/passes/buy',
    body: { pass: 'micro' },
    texts: [],
    status: 402,
  },
  'POST /api/bounties': {
    path: '/api/bounties',
    body: {
      title: 'x',
      description: 'x',
      domain: 'x',
      required_keywords: ['gas'],
      min_quality_score: 1,
      reward_usdc: 0.05,
      ttl_hours: 1,
    },
    amounts: ['reward_usdc'],
    texts: ['title', 'description', 'domain'],
    lists: ['required_keywords'],
    wholes: ['ttl_hours'],
    status: 201,
  },
  'POST /api/signal/publish': {
    path: '/api/signal/publish',
    body: { channel: 'test', type: 'ping', payload: { x: 1 }, ttl_seconds: 60 },
    texts: ['channel', 'type'],
    wholes: ['ttl_seconds'],
  },
  'POST /api/pulse': {
    path: '/api/pulse',
    body: { goal_vector: 'x', confidence: 0.5, idle_cycles: 1 },
    texts: ['goal_vector'],
  },
  'POST /api/messages': {
    path: '/api/messages',
    body: { to: her.friend.id, message: 'x', subject: 'x' },
    texts: ['to', 'message', 'subject'],
  },
  'DELETE /api/messages/{id}': { path: `/api/messages/${her.message}`, method: 'DELETE' },
  // Side by side: a frozen agent is refused everything else.
  'POST /api/agent/freeze': { path: '/api/agent/freeze' },
  'POST /api/agent/unfreeze': { path: '/api/agent/unfreeze' },
  // Last, because these leave messages in the agent's inbox that its next command absorbs.
  'DELETE /api/bounties/{id}': { path: `/api/bounties/${her.bountyToCancel}`, method: 'DELETE' },
  'POST /api/bounties/{id}/claim': {
    path: `/api/bounties/${her.foreignBounty}/claim`,
    body: { content: 'gas' },
    texts: ['content'],
  },
  'POST /api/radio-drop/redeem': {
    path: '/api/radio-drop/redeem',
    body: { code: her.drop },
    texts: ['code'],
  },
})
/** Implementation details that an error must not contain. */
const INTERNALS_PATTERN =
  /\bat \S+ \(|\.(ts|js|mjs):\d+|node_modules|postgres|relation "|syntax error/i

/** Asserts that a rejection names its cause and no implementation details. */
export function assertProblemNamesCause(
  t: Test,
  answer: TestReply,
  wanted: string,
  names?: string,
): void {
  const { status, text, headers, body } = answer
  const pointers = (body.errors ?? []).map(({ pointer }) => pointer).join(' ')
  const right =
    status >= 400 &&
    status < 500 &&
    String(headers['content-type']).startsWith('application/problem+json') &&
    body['status'] === status &&
    typeof body.code === 'string' &&
    body['error'] === body.code &&
    !INTERNALS_PATTERN.test(text) &&
    (names === undefined || pointers.includes(names) || String(body['detail']).includes(names))
  if (!right) t.fail(`${wanted}: ${status} ${text.slice(0, 300)}`)
}

/** All rows that a request could have changed, without those of the station's own jobs. */
export async function countRowsWrittenByRequests({ sql }: InProcessStation): Promise<unknown> {
  const [row] = await sql`
    select (select count(*)::int from transfers where kind <> 'royalty_feed') as transfers, (select count(*)::int from calls) as calls,
      (select count(*)::int from journal where command->>'name' not in ('slot.free', 'actor.event', 'inbox.absorb')) as commands,
      (select count(*)::int from outbox) as events, (select count(*)::int from inbox) as messages,
      (select count(*)::int from api_keys) as keys, (select count(*)::int from agents) as agents,
      (select max(revoked_at) from api_keys) as revoked, (select max(expires_at) from api_keys) as expiry,
      (select count(*)::int from keyring) as secrets, (select count(*)::int from clipboard) as notes,
      (select count(*)::int from signals) as signals, (select max(at) from pulses) as pulse,
      (select count(sender_removed_at)::int from messages) as removed`
  return { ...row }
}
