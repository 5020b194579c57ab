import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { asMicros } from '../../../core/money.ts'
import type { AggregateChanges } from '../../../persistence/commit-batch.ts'

/** Sample aggregate changes and rows for the batch writer. */

export const SAMPLE_COMMITTED_AT_MS = Date.now()

/** The changes of one command of an aggregate after `oldVersion`, with the given rows. */
export function sampleAggregateChanges(
  id: string,
  oldVersion: number,
  more: Partial<AggregateChanges> = {},
): AggregateChanges {
  const version = oldVersion + 1
  const journal = {
    version,
    commandId: newUuidV7(SAMPLE_COMMITTED_AT_MS),
    at: SAMPLE_COMMITTED_AT_MS,
    command: '{"name":"x"}',
    changed: '[]',
  }
  return {
    id,
    kind: 'agent',
    oldVersion,
    newVersion: version,
    journal: [journal],
    actors: [],
    transfers: [],
    prices: [],
    calls: [],
    inbox: [],
    absorbed: [],
    events: [],
    removedTimers: [],
    timers: [],
    rows: [],
    ...more,
  }
}
export const sampleActorRow = (id: string, state = '{"value":"x","context":{}}') => ({
  kind: 'agent',
  id,
  machineVersion: 1,
  state,
  archived: false,
})
export const sampleTransferRow = (memo: string | null = null) => ({
  id: newUuidV7(SAMPLE_COMMITTED_AT_MS),
  debit: 'a',
  credit: 'b',
  amount: asMicros(5n),
  kind: 'send' as const,
  memo,
  at: SAMPLE_COMMITTED_AT_MS,
})
export const sampleCallRow = (key: string | null = null) => ({
  callId: newUuidV7(SAMPLE_COMMITTED_AT_MS),
  agentId: null,
  keyId: null,
  operation: 'refuel',
  tool: null,
  rail: 'none',
  cost: asMicros(0n),
  status: 'ok' as const,
  errorCode: null,
  ms: 1,
  taskId: null,
  backpackId: null,
  ghost: false,
  idempotencyKey: key,
  requestHash: key,
  response: key === null ? null : '{}',
  at: SAMPLE_COMMITTED_AT_MS,
})
export const sampleInboxMessage = (receiver: string, id: string) => ({
  receiver,
  receiverKind: 'agent' as const,
  id,
  event: { type: 'CREDIT', promo: 5n, cash: 0n },
  at: SAMPLE_COMMITTED_AT_MS,
})
export const sampleTimerRow = (id: string) => ({
  id,
  dueAt: SAMPLE_COMMITTED_AT_MS,
  command: 'x',
  input: { amount: 5n },
})
