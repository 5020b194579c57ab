import type { LedgerModelFuseOperation } from './ledger-model-operations.ts'

/** Promotional and cash credits of the reference ledger. */
export interface LedgerModelPurse {
  promo: bigint
  cash: bigint
}

export interface LedgerModelCall {
  readonly agent: number
  readonly node: number
  readonly amount: bigint
  readonly key: boolean
  readonly task: number | null
  readonly pack: boolean
  /** The amount a durable hold took; null for a hold in memory. */
  readonly taken: LedgerModelPurse | null
  readonly passable: boolean
  /** The number of the pass that pays. */
  readonly passNumber: number | null
}

/** The open task pass of an agent. */
export interface LedgerModelTaskPass extends LedgerModelPurse {
  readonly number: number
  left: number
  held: number
}

export interface LedgerModelTask {
  readonly agent: number
  budget: bigint
  spent: bigint
  held: bigint
  state: 'active' | 'completed' | 'abandoned'
}

export interface LedgerModelBackpack {
  perCall: bigint | null
  perDay: bigint | null
  spent: bigint
  held: bigint
  revoked: boolean
  persistedRejections: Set<string>
}

export interface LedgerModelAgent extends LedgerModelPurse {
  keySpent: bigint
  openPass: LedgerModelTaskPass | null
  pack: LedgerModelBackpack
  inbox: LedgerModelPurse[]
  /** True after the first deposit: from then on the referrer earns. */
  activated: boolean
}

export class LedgerModelRejection extends Error {
  readonly code: string
  /** The first rejection of its kind is persisted, and therefore does not read the inbox. */
  readonly isPersisted: boolean
  constructor(code: string, isPersisted = false) {
    super(code)
    this.code = code
    this.isPersisted = isPersisted
  }
}

/** Replaces the limits of a Backpack; one that is set is removed only by its name. */
export function changeReferenceFuse(
  pack: LedgerModelBackpack,
  { named, ...fuse }: LedgerModelFuseOperation,
): void {
  if (pack.revoked) throw new LedgerModelRejection('REVOKED')
  for (const name of ['perCall', 'perDay'] as const)
    if (fuse[name] === null && pack[name] !== null && !named.includes(name))
      throw new LedgerModelRejection('limit_not_named')
  pack.perCall = fuse.perCall
  pack.perDay = fuse.perDay
}
