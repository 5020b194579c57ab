import type { AnyEventObject } from 'xstate'
import type { Clock } from '../core/clock.ts'
import { parseWithBigints } from '../core/json/bigint.ts'
import { LIMITS } from '../core/limits.ts'
import type { AggregateStore, DueTimer } from '../persistence/aggregate-store.ts'
import type { AggregateKind } from '../core/aggregate-commit-row-types.ts'
import {
  IdempotencyKeyAnsweredElsewhereError,
  type AggregateCommandOptions,
  type AggregateCommand,
} from './aggregate-command-types.ts'
import {
  createTimerFailureTracker,
  type MoveTimerToDeadLetters,
} from './move-failing-timers-to-dead-letters.ts'
import { machineRegistryEntry, type ActorKind } from './machine-registry.ts'
import type { ActorRuntime } from './actor-runtime.ts'
import { CommandRejectedError } from './command-context.ts'

/** Fires durable timers when they are due and wakes aggregates with a neglected inbox. */

/** Input of a timer, with the actors that may be archived when it fires. */
interface TimerInput extends Record<string, unknown> {
  readonly touch?: NonNullable<AggregateCommandOptions['touch']>
  /**
   * The Idempotency-Key of the command. If it has been answered, the command gets `answered: true`.
   */
  readonly key?: string
}

interface DelayedActorEvent {
  readonly kind: ActorKind
  readonly id: string
  readonly event: AnyEventObject
  readonly timer: string
  readonly setAt: number
}

/** Delivers a delayed machine event. Events that come late or twice are dropped. */
const delayedActorEventCommand: AggregateCommand<DelayedActorEvent, void> = {
  name: 'actor.event',
  kind: 'agent',
  apply(ctx, { kind, id, event, timer, setAt }) {
    const renewedAt = ctx.has(kind, id)
      ? machineRegistryEntry(kind).timersSetAt?.(ctx.snapshotOf(kind, id).context as never)
      : 0
    // The timer was read before a renewal: the row of that name belongs to the renewal.
    if (renewedAt !== undefined && setAt < renewedAt) return
    ctx.cancelTimer(timer)
    if (!ctx.has(kind, id)) return
    try {
      ctx.send(kind, id, { ...event, at: ctx.now } as never)
    } catch (error) {
      if (!(error instanceof CommandRejectedError)) throw error
    }
  },
  note: ({ kind, id, event }) => ({ kind, id, type: event.type }),
}

export interface TimerRunnerDeps {
  readonly clock: Clock
  readonly actors: Pick<ActorRuntime, 'ask' | 'wake'>
  readonly store: AggregateStore
  /** Commands that timers may run, besides delayed machine events. */
  readonly commands: readonly AggregateCommand<never, void>[]
  readonly log: (message: string, error: unknown) => void
  /** Commands whose timers another component runs. */
  readonly elsewhere?: readonly string[]
  readonly bury?: MoveTimerToDeadLetters
}

/**
 * Runs due timers. An alarm waits for the next timer and a sweep runs every `timerSweepMs`. Safe on
 * any number of nodes: a timer's row is deleted in the commit of its command.
 */
export function createTimerRunner(parts: TimerRunnerDeps) {
  const { clock, actors, store, log, elsewhere = [] } = parts
  const fire = createTimerHandler(parts)
  let alarm: NodeJS.Timeout | null = null
  let alarmAt = Infinity
  let sweeping: Promise<void> | null = null
  let following: Promise<void> | null = null
  let stopped = false

  function wakeAt(dueAt: number): void {
    if (stopped || dueAt >= alarmAt) return
    if (alarm !== null) clearTimeout(alarm)
    alarmAt = dueAt
    const wait = Math.min(Math.max(0, dueAt - clock.now()), LIMITS.timerSweepMs)
    alarm = setTimeout(ring, wait)
    alarm.unref()
  }

  function ring(): void {
    alarmAt = Infinity
    void sweep()
  }

  /** A running sweep may have read before this call, so another one follows it. */
  function sweep(): Promise<void> {
    if (sweeping === null) return begin()
    following ??= sweeping.then(() => {
      following = null
      return stopped ? undefined : begin()
    })
    return following
  }

  function begin(): Promise<void> {
    sweeping ??= sweepOnce()
      .catch((error: unknown) => {
        log('timer sweep failed', error)
        return null
      })
      .then((next) => {
        sweeping = null
        // A sooner alarm set during the sweep stays.
        wakeAt(Math.min(next ?? Infinity, clock.now() + LIMITS.timerSweepMs))
      })
    return sweeping
  }

  /** Fires due timers and wakes neglected inboxes. Returns the time of the next timer. */
  async function sweepOnce(): Promise<number | null> {
    const now = clock.now()
    let failures = 0
    for (let more = true; more;) {
      // Failed timers are still due. They are skipped until the next sweep so that they block no
      // others.
      const due = await store.dueTimers(now, MAX_TIMERS_PER_SWEEP, failures, elsewhere)
      const fired = await Promise.allSettled(due.map(fire))
      failures += fired.filter((one) => one.status === 'rejected').length
      more = due.length === MAX_TIMERS_PER_SWEEP
    }
    for (const { id, kind } of await store.neglected(MAX_TIMERS_PER_SWEEP)) {
      await actors
        .wake(id, kind as AggregateKind)
        .catch((error: unknown) => log('wake failed', error))
    }
    return store.nextTimer(now)
  }

  return {
    wakeAt,
    sweep,
    start: () => void sweep(),
    async stop(): Promise<void> {
      stopped = true
      if (alarm !== null) clearTimeout(alarm)
      await sweeping
    },
  }
}

/** Runs the command of one timer in its aggregate. */
function createTimerHandler({ clock, actors, commands, log, bury }: TimerRunnerDeps) {
  const byName = new Map<string, AggregateCommand<never, void>>(
    [delayedActorEventCommand as AggregateCommand<never, void>, ...commands].map((one) => [
      one.name,
      one,
    ]),
  )
  const failing = createTimerFailureTracker(clock, bury)

  return async (due: DueTimer): Promise<void> => {
    const command = byName.get(due.command)
    const { touch = [], key, ...input } = parseWithBigints<TimerInput>(due.input)
    const ask = async (given: object, keyed: Pick<AggregateCommandOptions, 'key'>) => {
      if (command === undefined) throw new Error(`no command ${due.command}`)
      // Delayed machine events run on every kind of aggregate.
      const kind = due.aggregateKind as AggregateKind
      await actors.ask(due.aggregateId, { ...command, kind }, given as never, { touch, ...keyed })
    }
    try {
      await ask(input, key === undefined ? {} : { key }).catch((error: unknown) => {
        if (!(error instanceof IdempotencyKeyAnsweredElsewhereError)) throw error
        return ask({ ...input, answered: true }, {})
      })
      failing.worked(due)
    } catch (error) {
      log(`timer ${due.id} failed`, error)
      await failing
        .failed(due, error)
        .catch((cause: unknown) => log(`timer ${due.id} not put away`, cause))
      throw error
    }
  }
}

const MAX_TIMERS_PER_SWEEP = 200
