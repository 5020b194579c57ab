import { ZERO } from '../core/money.ts'
import type { CallCause, StatementLine } from '../persistence/statement.ts'

/** What a movement was, in the words of the interface. */
export interface Words {
  readonly kind: string
  readonly description: string
  readonly counterparty: 'agent' | 'bounty' | 'fleet' | 'station'
  /** The agent on the other side, where both sides know each other. */
  readonly agentId: string | null
  /** The id of what it belongs to: a bounty, a fleet, a deposit, a drop. */
  readonly reference: string | null
}

interface Sentence {
  readonly kind: string
  readonly says: string
}

/** The kinds of the ledger that need no more than another name. */
const PLAIN: Readonly<Record<string, Sentence>> = {
  hold: { kind: 'hold', says: 'Held for a call that runs' },
  share: { kind: 'share', says: 'Share of the price of a call of another agent' },
  referral: { kind: 'referral_reward', says: 'Reward: an agent you referred is active' },
  payout: { kind: 'referral_share', says: 'Shares of the calls of agents you referred' },
  royalty: { kind: 'royalty', says: 'Royalties for reads of your Hive entries' },
  drop: { kind: 'drop', says: 'Credits of a radio drop' },
  escrow: { kind: 'bounty_escrow', says: 'Reward of a bounty, put into escrow' },
  bounty: { kind: 'bounty_payout', says: 'Reward of a bounty you claimed' },
  escrow_back: { kind: 'bounty_refund', says: 'Reward of a bounty that ended unclaimed' },
  bonus: { kind: 'deposit_bonus', says: 'Bonus of the first deposit' },
  reorg: { kind: 'deposit_undone', says: 'A deposit that its chain has undone' },
  refund: { kind: 'refund', says: 'Payment of a call that failed, kept as credits' },
  draw: { kind: 'fleet_draw', says: 'Lent by the pool of your fleet for a call' },
  draw_back: { kind: 'fleet_return', says: 'Returned to the pool of your fleet' },
}

/** Says what a movement of an agent was; `cause` is the call it belongs to, if it is one. */
export function wordsOf(line: StatementLine, agentId: string, cause: CallCause | null): Words {
  const { kind, description } = sentenceOf(line, agentId, cause)
  const [type = null, id = null] = line.party?.split(':') ?? []
  const counterparty =
    type === 'agent' || type === 'bounty' || type === 'fleet' ? type : ('station' as const)
  // Who called is not the business of whom a share of the price goes to.
  const isKnown = type === 'agent' && line.kind !== 'share'
  return {
    kind,
    description,
    counterparty,
    agentId: isKnown ? id : null,
    reference: type === 'bounty' || type === 'fleet' ? id : referenceOf(line),
  }
}

const WITH_REFERENCE: ReadonlySet<string> = new Set(['topup', 'drop', 'royalty'])
const referenceOf = ({ kind, memo }: StatementLine): string | null =>
  WITH_REFERENCE.has(kind) ? memo : null

function sentenceOf(line: StatementLine, agentId: string, cause: CallCause | null) {
  const plain = PLAIN[line.kind]
  if (plain !== undefined) return { kind: plain.kind, description: plain.says }
  switch (line.kind) {
    case 'call':
      return callWords(line, cause)
    case 'grant':
      return line.memo === null
        ? { kind: 'starter_credits', description: 'Starter credits' }
        : { kind: 'grant', description: `Granted by the operator: ${line.memo}` }
    case 'topup':
      return line.memo?.startsWith('stl_') === true
        ? { kind: 'topup', description: 'Credits bought with a payment' }
        : { kind: 'deposit', description: 'Deposit of USDC' }
    case 'send':
    case 'tip':
      return sentWords(line, agentId)
    default:
      return { kind: line.kind, description: line.kind.replaceAll('_', ' ') }
  }
}

function callWords({ charged }: StatementLine, cause: CallCause | null) {
  const name = cause?.tool ?? 'a call'
  if (charged === ZERO)
    return { kind: 'hold_released', description: `What was held for ${name} is free again` }
  return { kind: 'call', description: `Price of ${name}` }
}

function sentWords({ kind, owner }: StatementLine, agentId: string) {
  const word = kind === 'tip' ? 'Tip' : 'Credits'
  const description = owner === agentId ? `${word} sent to an agent` : `${word} from an agent`
  return { kind, description }
}
