import type { Command } from '../actors/command.ts'
import type { Runtime } from '../actors/runtime.ts'
import { turns } from '../core/turns.ts'
import { touching } from './commands/payment.ts'
import {
  paymentLost,
  paymentRetry,
  paymentSettled,
  paymentSubmitted,
  paymentUnknown,
} from './commands/settlement.ts'
import type { Tell, Work } from './settle-rail.ts'

/**
 * What a chain says becomes commands to the payer's aggregate. A block may say it of many: they are
 * told one by one, so that neither the calls of others nor their commits wait behind all of them.
 */
export function telling(actors: Pick<Runtime, 'ask'>): Tell {
  const turn = turns()
  const ask = async <I extends { settlement: string }>(
    { payer }: Work,
    command: Command<I, { money: string }>,
    input: I,
  ) => {
    await turn()
    return (await actors.ask(payer, command, input, touching(input.settlement))).money
  }
  return {
    submitted: (work, txHash) => ask(work, paymentSubmitted, { settlement: work.id, txHash }),
    unknown: (work) => ask(work, paymentUnknown, { settlement: work.id }),
    retry: (work, failed) => ask(work, paymentRetry, { settlement: work.id, failed }),
    settled: (work, { tx, logIndex, block }) =>
      ask(work, paymentSettled, { settlement: work.id, tx, logIndex, block }),
    lost: (work, lookAt) => ask(work, paymentLost, { settlement: work.id, lookAt }),
  }
}
