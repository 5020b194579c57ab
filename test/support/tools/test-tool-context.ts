import type { Clock } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import type { DomainEvent } from '../../../core/domain-events.ts'
import type { PriceShare } from '../../../core/aggregate-commit-row-types.ts'
import type { ToolCallerIdentity, ToolContext } from '../../../tools/define-tool.ts'
import type { ToolPorts } from '../../../tools/tool-ports.ts'

/** A clock that moves only when the test advances it. */
export function createManualClock(
  start = Date.UTC(2026, 10, 21, 10),
): Clock & { pass(ms: number): void } {
  let at = start
  return {
    now: () => at,
    mono: () => at,
    adjust: () => {},
    setJumpBaseline: () => {},
    hasJumped: () => false,
    pass(ms) {
      at += ms
    },
  }
}

export const TEST_AUTHOR_AGENT_ID = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d'
export const TEST_READER_AGENT_ID = '018f2f6e-7c1a-7b3a-9c55-000000000002'
export const TOOL_CALL_ID = '018f2f6e-7c1a-7b3a-9c55-00000000ca11'

export interface RecordedToolEffects {
  readonly rows: { table: string; row: Record<string, unknown> }[]
  readonly events: DomainEvent[]
  readonly waivedReasons: string[]
  readonly providers: string[]
}

/** A context that records what a tool stages; ports that a test does not provide throw. */
export function createRecordingToolContext(
  given: Partial<ToolPorts> & {
    caller?: Partial<ToolCallerIdentity>
    ghost?: ToolContext['ghost']
    clock?: Clock
    signal?: AbortSignal
  } = {},
) {
  const recorded: RecordedToolEffects = { rows: [], events: [], waivedReasons: [], providers: [] }
  const { caller, clock = createManualClock(), ...rest } = given
  const base = {
    callId: TOOL_CALL_ID,
    ghost: 'off',
    claimant: TOOL_CALL_ID,
    signal: new AbortController().signal,
    now: () => new Date(clock.now()),
    emit: () => {},
    seal: () => void recorded.providers.push('sealed'),
    callerGone: new AbortController().signal,
    secrets: { resolve: async () => null },
    meter: {
      served: (provider: string, mode: string) =>
        void recorded.providers.push(`${provider} ${mode}`),
      waive: (reason: string) => void recorded.waivedReasons.push(reason),
    },
    stage: {
      row: (table: string, row: Record<string, unknown>) => void recorded.rows.push({ table, row }),
      event: (event: DomainEvent) => void recorded.events.push(event),
      // Credits the whole share to the agent.
      credit({ amount, stagedWrites }: PriceShare) {
        const { rows = [], events = [] } = stagedWrites?.(amount) ?? {}
        recorded.rows.push(...rows)
        recorded.events.push(...events)
      },
      watch: () => {},
      undo: () => {},
    },
    ...rest,
    caller: {
      agentId: TEST_AUTHOR_AGENT_ID,
      fleetId: null,
      visitor: 'visitor-1',
      site: null,
      ...caller,
    },
  }
  const context = new Proxy(base as unknown as ToolContext, {
    get(target, name) {
      if (name in target) return Reflect.get(target, name)
      throw new Error(`this test gives no port "${String(name)}"`)
    },
  })
  return { context, recorded }
}

/** The rejection of a promise in a form that tests compare. */
export async function awaitRejectionDetails(work: Promise<unknown>) {
  try {
    await work
  } catch (error) {
    if (error instanceof ServiceError) return { code: error.code, ...error.details }
    throw error
  }
  return { code: 'not refused' }
}
