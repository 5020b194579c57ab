import type { Details } from '../core/errors.ts'
import { spendingIdOf } from '../core/key-terms.ts'
import { add, toUsdc, type Micros } from '../core/money.ts'
import type { Turn } from '../actors/command.ts'
import {
  fuseMeter,
  keyMeter,
  type FuseLimit,
  type KeyLimit,
  type Meter,
} from '../actors/commands/meters.ts'
import type { Admission, Reserved } from './admission.ts'

/** A limit that refused an amount: what stands against it, and until when. */
interface Reached extends Meter {
  readonly limit: Micros | null
  readonly needed: Micros
}

/** What a tripped fuse tells: its limit, what is gone of it, what was needed, and when it resets. */
export function fuseDetails(
  turn: Turn,
  limit: FuseLimit,
  { amount, backpackId }: Admission,
  reserved: Reserved,
): Details {
  const id = backpackId ?? ''
  const { fuse } = turn.peek('backpack', id).context
  const max = { per_call: fuse.perCall, per_day: fuse.perDay, per_month: fuse.perMonth }[limit]
  const inMemory = limit === 'per_month' ? reserved.month : reserved.day
  const reached = reachedOf(fuseMeter(turn, id, limit), inMemory, max, amount)
  const detail =
    limit === 'per_call'
      ? `This costs ${usdc(amount)} and one call may cost ${usdc(max)} USDC at most in this Backpack. Nothing was charged.`
      : sentence(limit, reached, 'in this Backpack')
  return { backpack_id: id, ...figures(`backpack.${limit}`, reached, turn.now), detail }
}

/** What an exceeded cap of a key tells. */
export function capDetails(
  turn: Turn,
  limit: KeyLimit,
  { amount, key }: Admission,
  reserved: Reserved,
): Details {
  const max = {
    total: key?.cap ?? null,
    per_day: key?.capPerDay ?? null,
    per_month: key?.capPerMonth ?? null,
  }[limit]
  const inMemory = { total: reserved.key, per_day: reserved.keyDay, per_month: reserved.keyMonth }
  const meter = keyMeter(turn, key === null ? '' : spendingIdOf(key), limit)
  const reached = reachedOf(meter, inMemory[limit], max, amount)
  return { ...figures('key', reached, turn.now), detail: sentence(limit, reached, 'with this key') }
}

/** What the budget of a task tells that is too small for a call. */
export function taskDetails(
  turn: Turn,
  { amount, taskId }: Admission,
  reserved: Reserved,
): Details {
  const { budget, spent, held: durable } = turn.peek('taskSession', taskId ?? '').context
  const held = add(durable, reserved.task)
  const running = held === 0n ? '' : ` and ${usdc(held)} is held by running calls`
  return {
    task_id: taskId,
    limit_source: 'task',
    limit_usdc: toUsdc(budget),
    spent_usdc: toUsdc(spent),
    held_usdc: toUsdc(held),
    needed_usdc: toUsdc(amount),
    detail: `${usdc(spent)} of ${usdc(budget)} USDC is spent in this task${running}, and this costs ${usdc(amount)}. Nothing was charged.`,
  }
}

const reachedOf = (
  { spent, held, endsAt }: Meter,
  inMemory: Micros,
  limit: Micros | null,
  needed: Micros,
): Reached => ({ spent, held: add(held, inMemory), endsAt, limit, needed })

/** `spent_usdc` is what no other call can have any more: spent, or held by a call that is running. */
function figures(source: string, { limit, spent, held, needed, endsAt }: Reached, now: number) {
  return {
    limit_source: source,
    limit_usdc: limit === null ? 0 : toUsdc(limit),
    spent_usdc: toUsdc(add(spent, held)),
    held_usdc: toUsdc(held),
    needed_usdc: toUsdc(needed),
    // What has no window, or costs more than all of it, stays as it is: waiting does not help.
    ...(endsAt === null || limit === null || needed > limit
      ? {}
      : {
          resets_at: new Date(endsAt).toISOString(),
          retry_after: Math.ceil((endsAt - now) / 1000),
        }),
  }
}

const SPAN = { total: 'in all', per_day: 'today', per_month: 'this month' } as const

function sentence(span: keyof typeof SPAN, reached: Reached, where: string): string {
  const { limit, spent, held, needed, endsAt } = reached
  const gone = `${usdc(add(spent, held))} of ${usdc(limit)} USDC is spent ${SPAN[span]} ${where}`
  const running = held === 0n ? '' : ` (${usdc(held)} of it is held by running calls)`
  const isTooDear = limit !== null && needed > limit
  const ends = endsAt === null || isTooDear ? '' : `; the window ends at ${utcTime(endsAt)}`
  return `${gone}${running}, and this costs ${usdc(needed)}${ends}. Nothing was charged.`
}

const usdc = (amount: Micros | null): string => String(amount === null ? 0 : toUsdc(amount))
const utcTime = (at: number): string =>
  new Date(at).toISOString().slice(0, 16).replace('T', ' ') + ' UTC'
