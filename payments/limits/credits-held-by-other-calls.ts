import { utcDay, utcMonth } from '../../core/clock.ts'
import { spendingCountIdOfApiKey } from '../../domain/api-key-spending-limits.ts'
import { ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { InMemoryHold, CommandContext } from '../../actors/aggregate-command-types.ts'
import type {
  CallAdmissionRequest,
  CreditsHeldByOtherCalls,
} from '../agent-call-admission-request-types.ts'

/** The caps of a key, as the agent's machine reads them. */
export const toApiKeySpendCaps = (key: CallAdmissionRequest['key']) => ({
  keyId: key === null ? null : spendingCountIdOfApiKey(key),
  keyCap: key?.cap ?? null,
  keyCapPerDay: key?.capPerDay ?? null,
  keyCapPerMonth: key?.capPerMonth ?? null,
})

/** What calls hold in memory of a key's caps, as the agent's machine reads it. */
export const toKeySpendReservedInMemory = ({ key, keyDay, keyMonth }: CreditsHeldByOtherCalls) => ({
  keyReserved: key,
  keyReservedDay: keyDay,
  keyReservedMonth: keyMonth,
})

/** No other call holds anything in memory. */
export const NO_CREDITS_HELD_BY_OTHER_CALLS: CreditsHeldByOtherCalls = {
  agent: ZERO_MICROS,
  key: ZERO_MICROS,
  keyDay: ZERO_MICROS,
  keyMonth: ZERO_MICROS,
  task: ZERO_MICROS,
  day: ZERO_MICROS,
  month: ZERO_MICROS,
}

/** What other calls hold in memory, for each limit of a spender. */
export function sumCreditsHeldByOtherCalls(
  ctx: CommandContext,
  { key, taskId, backpackId }: Pick<CallAdmissionRequest, 'key' | 'taskId' | 'backpackId'>,
): CreditsHeldByOtherCalls {
  if (ctx.inMemoryHolds.isEmpty) return NO_CREDITS_HELD_BY_OTHER_CALLS
  const [day, month] = [utcDay(ctx.now), utcMonth(ctx.now)]
  const sum = (match: ((hold: InMemoryHold) => boolean) | null): Micros =>
    match === null ? ZERO_MICROS : ctx.inMemoryHolds.sum(match)
  const keyId = key === null ? null : spendingCountIdOfApiKey(key)
  const ofKey = keyId === null ? null : (hold: InMemoryHold) => hold.keyId === keyId
  const ofPack = backpackId === null ? null : (hold: InMemoryHold) => hold.backpackId === backpackId
  const ofTask = taskId === null ? null : (hold: InMemoryHold) => hold.taskId === taskId
  const today = (of: typeof ofKey) =>
    of && ((hold: InMemoryHold) => of(hold) && utcDay(hold.at) === day)
  const thisMonth = (of: typeof ofKey) =>
    of && ((hold: InMemoryHold) => of(hold) && utcMonth(hold.at) === month)
  return {
    agent: ctx.inMemoryHolds.total,
    key: sum(ofKey),
    keyDay: sum(today(ofKey)),
    keyMonth: sum(thisMonth(ofKey)),
    task: sum(ofTask),
    day: sum(today(ofPack)),
    month: sum(thisMonth(ofPack)),
  }
}
