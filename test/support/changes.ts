import { newId } from '../../core/ids.ts'
import { micros } from '../../core/money.ts'
import type { AggregateChanges } from '../../persistence/commit.ts'

export const NOW = Date.now()

/** What an aggregate contributes to a batch: one command from `oldVersion` on, and what is given. */
export function changes(
  id: string,
  oldVersion: number,
  more: Partial<AggregateChanges> = {},
): AggregateChanges {
  const version = oldVersion + 1
  const journal = {
    version,
    commandId: newId(NOW),
    at: NOW,
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
    calls: [],
    inbox: [],
    absorbed: [],
    events: [],
    timersGone: [],
    timers: [],
    rows: [],
    ...more,
  }
}
export const actor = (id: string, state = '{"value":"x","context":{}}') => ({
  kind: 'agent',
  id,
  machineVersion: 1,
  state,
  atRest: false,
})
export const transfer = (memo: string | null = null) => ({
  id: newId(NOW),
  debit: 'a',
  credit: 'b',
  amount: micros(5n),
  kind: 'send' as const,
  memo,
  at: NOW,
})
export const call = (key: string | null = null) => ({
  callId: newId(NOW),
  agentId: null,
  keyId: null,
  operation: 'refuel',
  tool: null,
  rail: 'none',
  cost: micros(0n),
  status: 'ok' as const,
  errorCode: null,
  ms: 1,
  taskId: null,
  backpackId: null,
  ghost: false,
  idempotencyKey: key,
  requestHash: key,
  response: key === null ? null : '{}',
  at: NOW,
})
export const message = (receiver: string, id: string) => ({
  receiver,
  receiverKind: 'agent' as const,
  id,
  event: { type: 'CREDIT', promo: 5n, cash: 0n },
  at: NOW,
})
export const timer = (id: string) => ({ id, dueAt: NOW, command: 'x', input: { amount: 5n } })
