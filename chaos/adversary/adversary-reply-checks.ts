import type { StationReplyToAdversary } from './adversary-http-client.ts'
import type { AdversaryOperation, AdversaryState } from './adversary-state.ts'

/** Rules that judge a single reply. */

/** Tools whose price equals the catalogue price for every caller with a key. */
const CATALOGUE_PRICED_TOOLS: ReadonlySet<string> = new Set([
  ...['code_sandbox', 'hallucination_pill', 'web_search', 'hive_read', 'x402_parse'],
  ...['hive_trending', 'agent_ping', 'swarm_broadcast'],
])

const API_KEY = /\bgas_[0-9A-Za-z]{40,60}\b/g
const PRIVATE_KEY = /"private_key":"(0x[0-9a-f]{64})"/g

/** Judges one reply and records what later replies are judged by. */
export function checkStationReplyToAdversary(
  world: AdversaryState,
  operation: AdversaryOperation,
  reply: StationReplyToAdversary,
): void {
  const { kind, request } = operation
  const say = (rule: string, says: string) => {
    const line = `${kind}: ${request.method} ${request.path} answered ${reply.status}: ${says}`
    world.violations.push({ rule, description: line, operation: world.operation })
  }
  if (reply.status >= 500 && !isExplained(reply) && !isRefundedInvocation(operation, reply))
    say('server-error', reply.text.slice(0, 200))
  if (kind === 'escape' && reply.status < 300)
    say('bound-key-escaped', JSON.stringify(request.json))
  if (kind === 'bound look') checkBoundKeyView(operation, reply, say)
  checkKeyScope(operation, reply, say)
  checkSecrets(world, operation, reply, say)
  if (kind === 'keyring theft') checkKeyringTheft(reply, say)
  recordDelivery(world, operation, reply)
  if (request.path.startsWith('/api/onboard'))
    recordOnboardingAddress(world, request.address, reply)
}

const isExplained = ({ status, body }: StationReplyToAdversary) =>
  status === 503 && body['code'] !== undefined

/** A builder that answers nothing valid is no fault of the station. */
const isRefundedInvocation = (
  { kind }: AdversaryOperation,
  { body }: StationReplyToAdversary,
): boolean => kind === 'invoke' && body['code'] === 'upstream_error' && body['refunded'] === true

type ReportViolation = (rule: string, says: string) => void

/** Lists show a bound key only the objects of its Backpack. */
function checkBoundKeyView(
  { key }: AdversaryOperation,
  { text }: StationReplyToAdversary,
  say: ReportViolation,
): void {
  const own = JSON.stringify(key?.backpack?.id)
  for (const [, shown] of text.matchAll(/"backpack_id":(null|"[^"]*")/g))
    if (shown !== own) say('bound-key-escaped', `the key of ${own} is shown something of ${shown}`)
}

/** No reply grants a key more permissions than the requesting key has. */
function checkKeyScope(
  { key }: AdversaryOperation,
  { status, body }: StationReplyToAdversary,
  say: ReportViolation,
): void {
  if (key === null || status >= 300 || typeof body['api_key'] !== 'string') return
  const scopes = Array.isArray(body['scopes']) ? (body['scopes'] as string[]) : []
  const missing = key.scopes.includes('*') ? [] : scopes.filter((one) => !key.scopes.includes(one))
  if (missing.length > 0) say('narrow-key-widened', `${key.scopes.join()} got ${scopes.join()}`)
  if (key.cap !== null && body['cap_usdc'] === null)
    say('narrow-key-widened', `a key with a cap of ${key.cap} got one without`)
}

/** A secret is shown only to the key, or keyless client, that received it first. */
function checkSecrets(
  world: AdversaryState,
  { credentialHolder }: AdversaryOperation,
  { text }: StationReplyToAdversary,
  say: ReportViolation,
): void {
  const shown = [...text.matchAll(API_KEY)].map(([secret]) => secret)
  shown.push(...[...text.matchAll(PRIVATE_KEY)].map(([, secret]) => String(secret)))
  for (const secret of shown) {
    const holder = world.secretHolders.get(secret) ?? credentialHolder
    world.secretHolders.set(secret, holder)
    if (holder !== credentialHolder)
      say('secret-shown', `${secret.slice(0, 10)} of ${holder} to ${credentialHolder}`)
  }
  for (const secret of world.keyring)
    if (secretEncodings(secret).some((one) => text.includes(one)))
      say('secret-shown', `the keyring's ${secret.slice(0, 12)}`)
}

function secretEncodings(secret: string): string[] {
  const bytes = Buffer.from(secret)
  const base64 = bytes.toString('base64').replace(/=+$/, '')
  return [secret, base64, bytes.toString('base64url'), bytes.toString('hex')]
}

/** A name in another agent's keyring returns the same error as an unknown name. */
function checkKeyringTheft({ status, body }: StationReplyToAdversary, say: ReportViolation): void {
  if (status !== 400 && status !== 404 && status !== 403 && status !== 429)
    say('foreign-keyring', JSON.stringify(body).slice(0, 200))
}

/**
 * Records a result, text or partial result that reached its reader: the call must be paid or use a
 * free slot.
 */
function recordDelivery(
  world: AdversaryState,
  { request }: AdversaryOperation,
  { status, frames, body }: StationReplyToAdversary,
): void {
  const { tool = '' } = (request.json ?? request.frame ?? {}) as { tool?: string }
  if (!CATALOGUE_PRICED_TOOLS.has(tool) || status !== 200) return
  const start = frames.find(({ event }) => event === 'start')?.data
  const streamed = frames.some(({ event }) => ['text', 'partial', 'result'].includes(event))
  const meta = body['_meta'] as { call_id?: string } | undefined
  const callId = streamed ? start?.['call_id'] : meta?.call_id
  if (typeof callId !== 'string' || world.deliveries.has(callId)) return
  const { address } = request
  world.deliveries.set(callId, { callId, tool, address, operation: world.operation })
}

function recordOnboardingAddress(
  { onboardingAddresses }: AdversaryState,
  address: string,
  { status, body }: StationReplyToAdversary,
): void {
  if (status >= 300) return
  const agents = (body['agents'] ?? [body]) as readonly { agent_id?: unknown }[]
  for (const { agent_id: id } of agents) onboardingAddresses.set(String(id), address)
}
