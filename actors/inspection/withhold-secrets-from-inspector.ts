import { toUsdc, type Micros } from '../../core/money.ts'
import type { ActorState } from '../../core/journal-actor-state-delta.ts'
import type { ActorKind } from '../machine-registry.ts'

/**
 * Turns contexts and events of actors into what people may see: amounts as USDC numbers, and secrets
 * withheld. Every field of a context is withheld unless it is listed here.
 */

export const WITHHELD_FIELD_PLACEHOLDER = '[redacted]'

const SHOWN_CONTEXT_FIELDS: Readonly<Record<ActorKind, readonly string[]>> = {
  agent: [
    ...['agentId', 'promo', 'cash', 'held', 'holds', 'keySpent', 'keyWindows', 'pending'],
    ...['firstDeposit', 'activated', 'referrer', 'parent', 'fleetId', 'frozen'],
  ],
  backpack: [
    ...['backpackId', 'agentName', 'tools', 'fuse', 'createdAt', 'expiresAt', 'spentTotal'],
    ...['calls', 'told', 'seenAt', 'day', 'month'],
    ...['spentDay', 'heldDay', 'spentMonth', 'heldMonth'],
  ],
  taskSession: [
    ...['taskId', 'name', 'budget', 'spent', 'held', 'calls', 'backpackId', 'startedAt', 'endedAt'],
  ],
  schedule: [
    ...['scheduleId', 'name', 'tool', 'every', 'budget', 'writeToHive', 'keyId', 'backpackId'],
    ...['createdAt', 'slot', 'late', 'ended', 'runs', 'needed', 'pausedFor'],
  ],
  visitor: ['day', 'used', 'newcomers'],
  payer: ['payer', 'reservations', 'inFlight', 'settledTotal', 'losses', 'cap', 'lastSettledBlock'],
  settlement: [
    ...['settlementId', 'chain', 'asset', 'payer', 'amount', 'price', 'validBefore', 'mode'],
    ...['purpose', 'agentId', 'callId', 'runner', 'claims', 'txHash', 'attempts', 'lookAt'],
    ...['claimedAt', 'settledAt', 'undone', 'credited'],
  ],
  fleet: ['fleetId', 'ownerId', 'cash', 'promo', 'members', 'rewarded'],
  drop: ['slots', 'credit', 'openedAt', 'expiresAt', 'redeemers'],
  listing: [
    ...['listingId', 'sellerId', 'name', 'price', 'entries', 'acceptsPromo', 'openedAt'],
    ...['withdrawnAt', 'sold', 'promo', 'cash', 'ratings', 'stars'],
  ],
  bounty: [
    ...['bountyId', 'posterId', 'promo', 'cash', 'minQuality', 'openedAt', 'expiresAt'],
    ...['claimerId', 'quality', 'closedAt', 'closedReason'],
  ],
  tool: [
    ...['toolId', 'slug', 'builderId', 'price', 'nextPrice', 'acceptsPromo', 'review'],
    ...[
      'reviewReason',
      'secretNumber',
      'registeredAt',
      'measuredFrom',
      'suspendedFor',
      'retiredAt',
    ],
  ],
  taskPasses: ['agentId', 'passes'],
  watchList: ['agentId', 'most', 'watches'],
  quota: ['agentId', 'day', 'used', 'open', 'kept'],
  tally: ['agentId', 'used', 'owned', 'orders'],
}
/** Context fields that people never see. With those above, all fields of all machines. */
const WITHHELD_CONTEXT_FIELDS: Readonly<Partial<Record<ActorKind, readonly string[]>>> = {
  backpack: ['pager'],
  settlement: ['fingerprint', 'credential', 'marks'],
  drop: ['code'],
}

/** Context fields of a kind by whether they are shown. */
export const listShownAndWithheldFields = (kind: ActorKind) => ({
  shown: SHOWN_CONTEXT_FIELDS[kind],
  withheld: WITHHELD_CONTEXT_FIELDS[kind] ?? [],
})

/** Names of members that are withheld at any depth, in contexts and in events. */
const SECRET_NAME =
  /key|secret|private|token|password|credential|signature|fingerprint|marks|pager|email|telegram|webhook/i
/** Ids of keys, and figures of keys: no secrets. */
const HARMLESS_NAME = /^(key_?id|key(Spent|Spend|Windows|Cap|Reserved)\w*)$/i
/** A key of an agent or of a webhook. */
const SECRET_TEXT = /\bgas_[0-9A-Za-z]{40,}|\bwhsec_[0-9A-Za-z+/=]{16,}/g
const MAX_TEXT_CHARS = 2_000
const MAX_DEPTH = 12

/** Integers that are no amounts: numbers of blocks, and others. */
const RAW_INTEGER = /[Bb]lock$|^(validBefore|nonce)$/
/** Beside the member `asset` these are atomic units of that asset, of which USDC has six digits on some chains only. */
const ASSET_UNITS: ReadonlySet<string> = new Set(['amount', 'balance'])

/** Shows a value of an event, or a command's note in the journal. */
export const redactEventValueForInspector = (value: unknown): unknown => show(value, '', 0)

/** Shows the context of an actor. */
export function redactActorContextForInspector(
  kind: ActorKind,
  context: unknown,
): Record<string, unknown> {
  const shown: Record<string, unknown> = {}
  const fields = SHOWN_CONTEXT_FIELDS[kind]
  for (const [name, value] of Object.entries((context ?? {}) as object)) {
    if (!fields.includes(name)) shown[name] = WITHHELD_FIELD_PLACEHOLDER
    else shown[name] = showMember(value, name, 1, context as object)
  }
  return shown
}

/** Shows a state. */
export const redactActorStateForInspector = (kind: ActorKind, { value, context }: ActorState) => ({
  value,
  context: redactActorContextForInspector(kind, context),
})

function show(value: unknown, name: string, depth: number): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value ?? null
  if (SECRET_NAME.test(name) && !HARMLESS_NAME.test(name)) return WITHHELD_FIELD_PLACEHOLDER
  if (typeof value === 'bigint') return amount(value, name)
  if (typeof value === 'string') return showText(value)
  if (typeof value !== 'object') return typeof value === 'number' ? value : null
  if (depth > MAX_DEPTH) return '…'
  const tagged = (value as { $n?: unknown }).$n
  if (typeof tagged === 'string') return amount(BigInt(tagged), name)
  if (Array.isArray(value)) return value.map((entry) => show(entry, '', depth + 1))
  const shown: Record<string, unknown> = {}
  for (const [key, member] of Object.entries(value))
    shown[key] = showMember(member, key, depth + 1, value)
  return shown
}

const showMember = (value: unknown, name: string, depth: number, beside: object): unknown =>
  ASSET_UNITS.has(name) && Object.hasOwn(beside, 'asset') && value !== null
    ? integerText(value)
    : show(value, name, depth)

const amount = (value: bigint, name: string): number | string =>
  RAW_INTEGER.test(name) ? String(value) : toUsdc(value as Micros)

function integerText(value: unknown): string {
  if (typeof value === 'bigint') return String(value)
  return String((value as { $n?: string } | null)?.$n ?? value)
}

function showText(text: string): string {
  const plain = text.replace(SECRET_TEXT, WITHHELD_FIELD_PLACEHOLDER)
  return plain.length > MAX_TEXT_CHARS ? `${plain.slice(0, MAX_TEXT_CHARS)}…` : plain
}

/** The active leaf states, for people: `low · busy`. */
export function toActiveLeafStatesText(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null) return ''
  return Object.entries(value)
    .map(([name, inner]) => toActiveLeafStatesText(inner) || name)
    .join(' · ')
}
