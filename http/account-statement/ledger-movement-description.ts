import { ZERO_MICROS } from '../../core/money.ts'
import type {
  AccountStatementCallDetails,
  AccountStatementLine,
} from '../../persistence/account-statement/account-statement-store.ts'

/** Names and describes a ledger entry for the API. */
export interface LedgerMovementDescription {
  readonly kind: string
  readonly description: string
  readonly counterparty: 'agent' | 'bounty' | 'fleet' | 'station'
  /** The counterparty, where both sides know each other. */
  readonly agentId: string | null
  /** The id of what the movement belongs to: a bounty, a fleet, a task pass, a deposit or a drop. */
  readonly reference: string | null
}

interface KindDescription {
  readonly kind: string
  readonly text: string
}

/** Ledger kinds that only need another name. */
const DESCRIPTIONS: Readonly<Record<string, KindDescription>> = {
  hold: { kind: 'hold', text: 'Held for a call that runs' },
  share: { kind: 'share', text: 'Share of the price of a call of another agent' },
  referral: { kind: 'referral_reward', text: 'Reward: an agent you referred is active' },
  payout: { kind: 'referral_share', text: 'Shares of the calls of agents you referred or made' },
  royalty: { kind: 'royalty', text: 'Royalties for reads of your Hive entries' },
  drop: { kind: 'drop', text: 'Credits of a radio drop' },
  escrow: { kind: 'bounty_escrow', text: 'Reward of a bounty, put into escrow' },
  bounty: { kind: 'bounty_payout', text: 'Reward of a bounty you claimed' },
  escrow_back: { kind: 'bounty_refund', text: 'Reward of a bounty that ended unclaimed' },
  bonus: { kind: 'deposit_bonus', text: 'Bonus of the first deposit' },
  reorg: { kind: 'deposit_undone', text: 'A deposit that its chain has undone' },
  refund: { kind: 'refund', text: 'Payment of a call that failed, kept as credits' },
  pass: { kind: 'pass', text: 'A task pass' },
  pass_back: { kind: 'pass_returned', text: 'Price of a failed call, from an expired task pass' },
  breakage: { kind: 'pass_expired', text: 'What was left of an expired task pass' },
  draw: { kind: 'fleet_draw', text: 'Lent by the pool of your fleet for a call' },
  draw_back: { kind: 'fleet_return', text: 'Returned to the pool of your fleet' },
}

/** Describes a movement of an agent. `cause` is the call it belongs to, if any. */
export function describeLedgerMovement(
  line: AccountStatementLine,
  agentId: string,
  cause: AccountStatementCallDetails | null,
): LedgerMovementDescription {
  const { kind, description } = describeKind(line, agentId, cause)
  const [type = null, id = null] = line.party?.split(':') ?? []
  const counterparty =
    type === 'agent' || type === 'bounty' || type === 'fleet' ? type : ('station' as const)
  // The payer of a price and those who get a share of it (a builder, an author) stay unknown to each other.
  const isKnown = type === 'agent' && BETWEEN_KNOWN_AGENTS.has(line.kind)
  return {
    kind,
    description,
    counterparty,
    agentId: isKnown ? id : null,
    reference: WITH_OWN_ID.has(type ?? '') ? id : referenceOf(line),
  }
}

/** Movements whose sender has named the receiver by its id. */
const BETWEEN_KNOWN_AGENTS: ReadonlySet<string> = new Set(['send', 'tip'])
/** Kinds of accounts whose id is a reference. */
const WITH_OWN_ID: ReadonlySet<string> = new Set(['bounty', 'fleet', 'pass'])
const WITH_REFERENCE: ReadonlySet<string> = new Set(['topup', 'drop', 'royalty', 'sale'])
const referenceOf = ({ kind, memo }: AccountStatementLine): string | null =>
  WITH_REFERENCE.has(kind) ? memo : null

function describeKind(
  line: AccountStatementLine,
  agentId: string,
  cause: AccountStatementCallDetails | null,
) {
  const plain = DESCRIPTIONS[line.kind]
  if (plain !== undefined) return { kind: plain.kind, description: plain.text }
  switch (line.kind) {
    case 'call':
      return describeCall(line, cause)
    case 'pass_call':
      return { kind: 'pass_call', description: `${cause?.tool ?? 'A call'}, paid by a task pass` }
    case 'grant':
      return line.memo === null
        ? { kind: 'starter_credits', description: 'Starter credits' }
        : { kind: 'grant', description: `Granted by the operator: ${line.memo}` }
    case 'topup':
      return line.memo?.startsWith('stl_') === true
        ? { kind: 'topup', description: 'Credits bought with a payment' }
        : { kind: 'deposit', description: 'Deposit of USDC' }
    case 'sale':
      return line.owner === agentId
        ? { kind: 'purchase', description: 'Bought a listing of the marketplace' }
        : { kind: 'sale', description: 'Sold a listing of the marketplace' }
    case 'send':
    case 'tip':
      return describeTransfer(line, agentId)
    default:
      return { kind: line.kind, description: line.kind.replaceAll('_', ' ') }
  }
}

function describeCall(
  { charged }: AccountStatementLine,
  cause: AccountStatementCallDetails | null,
) {
  const name = cause?.tool ?? 'a call'
  if (charged === ZERO_MICROS)
    return { kind: 'hold_released', description: `Released the hold for ${name}` }
  return { kind: 'call', description: `Price of ${name}` }
}

function describeTransfer({ kind, owner }: AccountStatementLine, agentId: string) {
  const noun = kind === 'tip' ? 'Tip' : 'Credits'
  const description = owner === agentId ? `${noun} sent to an agent` : `${noun} from an agent`
  return { kind, description }
}
