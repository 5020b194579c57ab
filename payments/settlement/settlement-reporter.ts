import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import type { ActorRuntime } from '../../actors/actor-runtime.ts'
import { createEventLoopYieldQueue } from '../../core/concurrency/event-loop-yield-queue.ts'
import type { SettlementQueries } from '../../persistence/payments/settlement-queries.ts'
import { decodeWithheldAnswer } from '../keyless-caller-paid-answer.ts'
import { settlementLoadOptions } from '../commands/payment-claim-commands.ts'
import {
  recordPaymentLostCommand,
  retryPaymentCommand,
  recordPaymentSettledCommand,
  recordPaymentSubmittedCommand,
  recordPaymentOutcomeUnknownCommand,
} from '../commands/settlement-commands.ts'
import type { SettlementEventRecorder, SettlementAndPayment } from './settlement-rail.ts'

/**
 * Turns chain results into commands of the payer's aggregate. The payments of one block are
 * reported one by one, so that other calls and commits do not wait for all of them.
 */
export function createPayerSettlementEventRecorder(
  actors: Pick<ActorRuntime, 'ask'>,
  store: Pick<SettlementQueries, 'withheldAnswer'>,
): SettlementEventRecorder {
  const turn = createEventLoopYieldQueue()
  const ask = async <I extends { settlement: string }>(
    { payer }: SettlementAndPayment,
    command: AggregateCommand<I, { money: string }>,
    input: I,
  ) => {
    await turn()
    return (await actors.ask(payer, command, input, settlementLoadOptions(input.settlement))).money
  }
  return {
    submitted: (work, txHash) =>
      ask(work, recordPaymentSubmittedCommand, { settlement: work.id, txHash }),
    unknown: (work) => ask(work, recordPaymentOutcomeUnknownCommand, { settlement: work.id }),
    retry: (work, failed) => ask(work, retryPaymentCommand, { settlement: work.id, failed }),
    async settled(work, { tx, logIndex, block }) {
      const kept = work.delivery === 'withheld' ? await store.withheldAnswer(work.id) : null
      const answer = kept === null ? null : decodeWithheldAnswer(kept)
      const arrival = { settlement: work.id, tx, logIndex, block, answer }
      return ask(work, recordPaymentSettledCommand, arrival)
    },
    lost: (work, lookAt) => ask(work, recordPaymentLostCommand, { settlement: work.id, lookAt }),
  }
}
