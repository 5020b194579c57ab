/** Operations on the agents of the model; numbers refer to agents, nodes, tasks or calls. */
export type LedgerModelOperation =
  | {
      type: 'admit'
      agent: number
      node: number
      amount: bigint
      key: boolean
      task: number | null
      pack: boolean
      durable: boolean
      /** A task pass may pay it. */
      passable: boolean
    }
  | LedgerModelSettleOperation
  | { type: 'activate'; agent: number; node: number }
  | { type: 'fail' | 'expire' | 'forget'; node: number; call: number }
  | { type: 'send' | 'tip'; agent: number; node: number; amount: bigint; promoToo: boolean }
  | { type: 'deposit'; agent: number; node: number; amount: bigint }
  | { type: 'look'; agent: number; node: number }
  /** Buys a small task pass, unless the agent has an open one. */
  | { type: 'buyPass'; agent: number; node: number }
  | { type: 'start'; agent: number; node: number; amount: bigint }
  | { type: 'budget'; node: number; task: number; amount: bigint }
  | { type: 'end'; node: number; task: number; cancel: boolean }
  | LedgerModelFuseOperation
  | { type: 'revoke'; agent: number; node: number }

/**
 * The price is `part` quarters of the hold; the other agent receives `share` quarters of the price.
 */
export interface LedgerModelSettleOperation {
  type: 'settle'
  node: number
  call: number
  part: bigint
  share: bigint
  withFee: boolean
  promoToo: boolean
}

/** Changes the fuse of a Backpack; a limit that is null is removed if it is `named`. */
export interface LedgerModelFuseOperation {
  type: 'fuse'
  agent: number
  node: number
  perCall: bigint | null
  perDay: bigint | null
  named: readonly ('perCall' | 'perDay')[]
}
