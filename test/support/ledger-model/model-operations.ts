/** What can happen to the agents of the model; a number stands for an agent, a node, a task or a call. */
export type ModelOperation =
  | {
      type: 'admit'
      agent: number
      node: number
      amount: bigint
      key: boolean
      task: number | null
      pack: boolean
      durable: boolean
    }
  | ModelSettleOperation
  | { type: 'activate'; agent: number; node: number }
  | { type: 'fail' | 'expire' | 'forget'; node: number; call: number }
  | { type: 'send' | 'tip'; agent: number; node: number; amount: bigint; promoToo: boolean }
  | { type: 'deposit'; agent: number; node: number; amount: bigint }
  | { type: 'look'; agent: number; node: number }
  | { type: 'start'; agent: number; node: number; amount: bigint }
  | { type: 'budget'; node: number; task: number; amount: bigint }
  | { type: 'end'; node: number; task: number; cancel: boolean }
  | { type: 'fuse'; agent: number; node: number; perCall: bigint | null; perDay: bigint | null }
  | { type: 'revoke'; agent: number; node: number }

/** `part` quarters of what was admitted are its price, `share` quarters of that the other agent's. */
export interface ModelSettleOperation {
  type: 'settle'
  node: number
  call: number
  part: bigint
  share: bigint
  withFee: boolean
  promoToo: boolean
}
