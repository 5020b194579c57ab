import { utcDay, utcMonth } from '../core/clock.ts'
import { spendingIdOf } from '../core/key-terms.ts'
import { ZERO, type Micros } from '../core/money.ts'
import type { SoftHold, Turn } from '../actors/command.ts'
import type { Admission, Reserved } from './admission.ts'

/** The caps of a key, as the agent's machine reads them. */
export const keyLimitsOf = (key: Admission['key']) => ({
  keyId: key === null ? null : spendingIdOf(key),
  keyCap: key?.cap ?? null,
  keyCapPerDay: key?.capPerDay ?? null,
  keyCapPerMonth: key?.capPerMonth ?? null,
})

/** What calls hold in memory of the caps of a key, as the agent's machine reads it. */
export const keyReservedOf = ({ key, keyDay, keyMonth }: Reserved) => ({
  keyReserved: key,
  keyReservedDay: keyDay,
  keyReservedMonth: keyMonth,
})

/** Nothing is held in memory beside a call that is being charged. */
export const NOTHING_RESERVED: Reserved = {
  agent: ZERO,
  key: ZERO,
  keyDay: ZERO,
  keyMonth: ZERO,
  task: ZERO,
  day: ZERO,
  month: ZERO,
}

/** What other calls hold in memory of every limit that a spender stands under. */
export function reservedBeside(
  turn: Turn,
  { key, taskId, backpackId }: Pick<Admission, 'key' | 'taskId' | 'backpackId'>,
): Reserved {
  const [day, month] = [utcDay(turn.now), utcMonth(turn.now)]
  const sum = (match: ((hold: SoftHold) => boolean) | null): Micros =>
    match === null ? ZERO : turn.soft.sum(match)
  const keyId = key === null ? null : spendingIdOf(key)
  const ofKey = keyId === null ? null : (hold: SoftHold) => hold.keyId === keyId
  const ofPack = backpackId === null ? null : (hold: SoftHold) => hold.backpackId === backpackId
  const ofTask = taskId === null ? null : (hold: SoftHold) => hold.taskId === taskId
  const today = (of: typeof ofKey) =>
    of && ((hold: SoftHold) => of(hold) && utcDay(hold.at) === day)
  const thisMonth = (of: typeof ofKey) =>
    of && ((hold: SoftHold) => of(hold) && utcMonth(hold.at) === month)
  return {
    agent: turn.soft.total,
    key: sum(ofKey),
    keyDay: sum(today(ofKey)),
    keyMonth: sum(thisMonth(ofKey)),
    task: sum(ofTask),
    day: sum(today(ofPack)),
    month: sum(thisMonth(ofPack)),
  }
}
