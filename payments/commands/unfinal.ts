import type { Turn } from '../../actors/command.ts'
import type { Micros } from '../../core/money.ts'
import type { ChainName } from '../ledger.ts'

/** A movement on a chain that is booked with its block. */
export interface Booked {
  readonly chain: ChainName
  readonly tx: string
  readonly logIndex: number
  readonly kind: 'settlement' | 'fleet_topup'
  /** The settlement or the fleet. */
  readonly ref: string
  readonly asset: string | null
  /** Whose tokens moved, in lower case; null where that does not matter. */
  readonly sender: string | null
  /** Atomic units. */
  readonly amount: bigint
  readonly bonus: Micros
  /** Null where nobody has said: the first look at its transaction says it. */
  readonly block: bigint | null
}

/** A movement as `payments/finality.ts` names it when the chain has undone it. */
export interface Move {
  readonly id: string
  readonly chain: string
  readonly tx: string
  readonly logIndex: number
  readonly kind: string
  readonly ref: string
}

/** The chains whose blocks may be replaced after they were seen, and that we can ask. */
const REPLACEABLE: ReadonlySet<ChainName> = new Set(['base', 'bsc'])

/** Has a movement that this commit books watched until its block is final. */
export function watchMove(turn: Turn, booked: Booked): void {
  const { chain, tx, logIndex, kind, ref, asset, sender, amount, bonus, block } = booked
  if (!REPLACEABLE.has(chain)) return
  turn.row('unfinal_moves', {
    id: turn.id(),
    chain,
    tx,
    log_index: logIndex,
    kind,
    ref,
    receiver: turn.aggregateId,
    asset,
    sender,
    amount: amount.toString(),
    bonus_micros: bonus.toString(),
    block: block?.toString() ?? null,
    block_hash: null,
    at: new Date(turn.now).toISOString(),
  })
}

/** Takes a movement off the books in this commit; done a second time, the commit is refused. */
export function takeMoveOff(turn: Turn, { id, chain, tx, logIndex, kind, ref }: Move): void {
  const at = new Date(turn.now).toISOString()
  turn.row('undone_moves', { id, chain, tx, log_index: logIndex, kind, ref, at })
}
