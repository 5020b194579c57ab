import type { Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/events.ts'
import type { PriceShare } from '../../core/rows.ts'
import type { ToolCaller, ToolContext } from '../../tools/define.ts'
import type { Ports } from '../../tools/ports.ts'

/** A clock that moves only when it is told to. */
export function handClock(start = Date.UTC(2026, 10, 21, 10)): Clock & { pass(ms: number): void } {
  let at = start
  return {
    now: () => at,
    mono: () => at,
    correct: () => {},
    anchor: () => {},
    disturbed: () => false,
    pass(ms) {
      at += ms
    },
  }
}

export const AUTHOR = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d'
export const READER = '018f2f6e-7c1a-7b3a-9c55-000000000002'
export const CALL = '018f2f6e-7c1a-7b3a-9c55-00000000ca11'

export interface Recorded {
  readonly rows: { table: string; row: Record<string, unknown> }[]
  readonly events: DomainEvent[]
  readonly waived: string[]
  readonly served: string[]
}

/** A context that writes down what a tool stages; ports that a test does not give refuse to be used. */
export function context(
  given: Partial<Ports> & {
    caller?: Partial<ToolCaller>
    ghost?: ToolContext['ghost']
    clock?: Clock
    signal?: AbortSignal
  } = {},
) {
  const recorded: Recorded = { rows: [], events: [], waived: [], served: [] }
  const { caller, clock = handClock(), ...rest } = given
  const base = {
    callId: CALL,
    ghost: 'off',
    claimant: CALL,
    signal: new AbortController().signal,
    now: () => new Date(clock.now()),
    emit: () => {},
    seal: () => void recorded.served.push('sealed'),
    callerGone: new AbortController().signal,
    secrets: { resolve: async () => null },
    meter: {
      served: (provider: string, mode: string) => void recorded.served.push(`${provider} ${mode}`),
      waive: (reason: string) => void recorded.waived.push(reason),
    },
    stage: {
      row: (table: string, row: Record<string, unknown>) => void recorded.rows.push({ table, row }),
      event: (event: DomainEvent) => void recorded.events.push(event),
      // As if the whole of it reached its agent.
      credit({ amount, written }: PriceShare) {
        const { rows = [], events = [] } = written?.(amount) ?? {}
        recorded.rows.push(...rows)
        recorded.events.push(...events)
      },
      watch: () => {},
      undo: () => {},
    },
    ...rest,
    caller: { agentId: AUTHOR, fleetId: null, visitor: 'visitor-1', ...caller },
  }
  const context = new Proxy(base as unknown as ToolContext, {
    get(target, name) {
      if (name in target) return Reflect.get(target, name)
      throw new Error(`this test gives no port "${String(name)}"`)
    },
  })
  return { context, recorded }
}

/** What a promise is refused with, in the form tests compare. */
export async function refusalOf(work: Promise<unknown>) {
  try {
    await work
  } catch (error) {
    if (error instanceof ServiceError) return { code: error.code, ...error.details }
    throw error
  }
  return { code: 'not refused' }
}
