import { createActorRuntime } from '../../actors/actor-runtime.ts'
import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import { createActorNames } from '../../actors/inspection/inspector-actor-names.ts'
import { createInspectionFeed } from '../../actors/inspection/inspection-feed.ts'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../core/money.ts'
import { quantile } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import {
  createSharedInspectorStepFrames,
  encodeActorStepFrames,
} from '../../http/inspector/shared-inspector-step-frames.ts'
import { createBenchmarkReportRow, type BenchmarkRow } from '../benchmark-result-row.ts'

/** Benchmarks the feed of the inspector: commands in process, without a database, in alternating runs. */

const STEPS = 1_000_000
/** Watched commands cost more, and need no figure as exact. */
const WATCHED_STEPS = STEPS / 10
const ROUNDS = 20
const AT_ONCE = 500
const MAX_ADDED_US = 1

const credit = { promo: fromUsdc(0.001), cash: fromUsdc(0) }
const createCommand: AggregateCommand<string, void> = {
  name: 'bench.create',
  kind: 'agent',
  creates: true,
  apply(ctx, agentId) {
    ctx.create('agent', agentId, { agentId, ...credit })
  },
}
const creditCommand: AggregateCommand<null, void> = {
  name: 'bench.credit',
  kind: 'agent',
  apply(ctx) {
    ctx.send('agent', ctx.aggregateId, { type: 'CREDIT', ...credit })
  },
}

/** Microseconds a command without a feed, with an unwatched one, and with one and ten watchers. */
export async function benchmarkInspector(): Promise<BenchmarkRow[]> {
  const variants = [createVariant(null), createVariant(0), createVariant(1), createVariant(10)]
  const taken: number[][] = variants.map(() => [])
  const each = [STEPS, STEPS, WATCHED_STEPS, WATCHED_STEPS].map((steps) => steps / ROUNDS)
  for (const [at, run] of variants.entries()) await run(each[at] ?? 0)
  for (let round = 0; round < ROUNDS; round++) {
    // The order turns round, so that no variant always runs first.
    for (let turn = 0; turn < variants.length; turn++) {
      const at = (round + turn) % variants.length
      taken[at]?.push((await variants[at]?.(each[at] ?? 0)) ?? 0)
    }
  }
  const [none = 0, unwatched = 0, one = 0, ten = 0] = taken.map((runs) => quantile(runs, 0.5))
  const added = unwatched - none
  return [
    createBenchmarkReportRow({
      what: 'A command while nobody watches the inspector, against none',
      measured: `${unwatched.toFixed(2)} us; one watcher ${one.toFixed(2)} us, ten ${ten.toFixed(2)} us`,
      baseline: `${none.toFixed(2)} us without a feed`,
      result: `${added.toFixed(2)} us added`,
      target: `<= ${MAX_ADDED_US} us`,
      met: added <= MAX_ADDED_US,
      n: `${STEPS} commands each, ${WATCHED_STEPS} watched, median of ${ROUNDS} alternating runs`,
    }),
  ]
}

/** A runtime whose commits succeed at once; null for one without a feed. */
function createVariant(watchers: number | null): (commands: number) => Promise<number> {
  const clock = createDatabaseAdjustedClock()
  const bus = { publish: async () => {}, subscribe: () => () => {} }
  const log = () => {}
  const names = createActorNames({ clock, read: async () => [], log })
  const readStates = async () => []
  const feed =
    watchers === null ? null : createInspectionFeed({ bus, clock, readStates, names, log })
  const outcome = { bad: new Set<string>(), waiting: new Set<string>(), storedEvents: 0 }
  const actors = createActorRuntime({
    clock,
    store: { load: async () => new Map() } as never,
    callLog: { findAnswer: async () => null },
    cache: null,
    commit: async () => outcome,
    isOutage: () => false,
    log,
    absorb: () => {},
    ...(feed === null ? {} : { recorder: feed }),
  })
  const framesOf = createSharedInspectorStepFrames(names)
  let sent = 0
  for (let n = 0; n < (watchers ?? 0); n++) {
    feed?.watch({
      heard(command) {
        for (const one of framesOf(command)) sent += encodeActorStepFrames(one).length
      },
      missed() {},
    })
  }
  return async (commands) => {
    const id = newUuidV7(clock.now())
    await actors.ask(id, createCommand, id, { fresh: true })
    const startedAt = performance.now()
    for (let done = 0; done < commands; done += AT_ONCE)
      await Promise.all(Array.from({ length: AT_ONCE }, () => actors.ask(id, creditCommand, null)))
    const us = ((performance.now() - startedAt) * 1_000) / commands
    if (watchers !== null && watchers > 0 && sent === 0) throw new Error('nothing was sent')
    return us
  }
}
