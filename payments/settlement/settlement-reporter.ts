import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import type { ActorRuntime } from '../../actors/actor-runtime.ts'
import { createYieldQueue } from '../../core/concurrency/yield-queue.ts'
import { settlementLoadOptions } from '../commands/payment-claim-commands.ts'
import {
  recordPaymentLostCommand,
  retryPaymentCommand,
  recordPaymentSettledCommand,
  recordPaymentSubmittedCommand,
  recordPaymentUnknownCommand,
} from '../commands/settlement-commands.ts'
import type { SettlementReporter, SettlementTask } from './settlement-rail.ts'

/**
 * Turns chain results into commands of the payer's aggregate. The payments of one block are
 * reported one by one, so that other calls and commits do not wait for all of them.
 */
export function createSettlementReporter(actors: Pick<ActorRuntime, 'ask'>): SettlementReporter {
  const turn = createYieldQueue()
  const ask = async <I extends { settlement: string }>(
    { payer }: SettlementTask,
    command: AggregateCommand<I, { money: string }>,
    input: I,
  ) => {
    await turn()
    return (await actors.ask(payer, command, input, settlementLoadOptions(input.settlement))).money
  }
  return {
    submitted: (work, txHash) =>
      ask(work, recordPaymentSubmittedCommand, { settlement: work.id, txHash }),
    unknown: (work) => ask(work, recordPaymentUnknownCommand, { settlement: work.id }),
    retry: (work, failed) => ask(work, retryPaymentCommand, { settlement: work.id, failed }),
    settled: (work, { tx, logIndex, block }) =>
      ask(work, recordPaymentSettledCommand, { settlement: work.id, tx, logIndex, block }),
    lost: (work, lookAt) => ask(work, recordPaymentLostCommand, { settlement: work.id, lookAt }),
  }
}
