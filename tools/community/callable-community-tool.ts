import type { TSchema } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { SECOND } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { ZERO_MICROS, type Micros } from '../../core/money.ts'
import {
  builderShareOf,
  isCallableCommunityToolState,
  type CommunityToolRecord,
} from '../../domain/community-tool-record.ts'
import { isScheduleVisitorId } from '../../domain/visitor-id-of-scheduled-calls.ts'
import {
  callerIdOf,
  type Tool,
  type ToolCallerIdentity,
  type ToolCategory,
  type ToolContext,
} from '../define-tool.ts'
import type { ToolBuilderCircuitBreaker } from './tool-builder-circuit-breaker.ts'
import { schemaTextOf, type UntrustedWork } from './untrusted-work-pool.ts'

/** A tool that an agent sells, as the call path runs it: like a native one, with a share for its builder. */

/** A call that was sent to a builder, for the figures of its tool. */
export interface ForwardedCommunityCall {
  readonly callId: string
  readonly tool: CommunityToolRecord
  readonly payer: string
  readonly errorCode: string | null
  readonly errorDetail: string | null
  readonly ms: number
  readonly price: Micros
  readonly share: Micros
  readonly counted: boolean
  /** The builder has refused the input of another agent. */
  readonly refused: boolean
  readonly at: number
}

export interface CallableCommunityToolDeps {
  readonly now: () => number
  readonly mono: () => number
  /** The time of a whole call. */
  readonly callMs: number
  /** Whether promotional credits may reach another agent; without that only cash pays. */
  readonly promoTransferable: boolean
  /** The row of a forwarded call. */
  readonly toRow: (call: ForwardedCommunityCall) => Record<string, unknown>
  /** Records a refunded call beside the commit of its refund. */
  readonly recordRefund: (call: ForwardedCommunityCall) => Promise<void>
  /** Checks inputs. */
  readonly work: Pick<UntrustedWork, 'validate'>
  readonly health: Pick<ToolBuilderCircuitBreaker, 'assertReachable' | 'forward'>
}

/** Makes the tool of a record. */
export function createCallableCommunityTool(
  record: CommunityToolRecord,
  deps: CallableCommunityToolDeps,
): Tool {
  const { slug, definition, builderId } = record
  const priceAt = (at: number): Micros =>
    record.nextPrice !== null && at >= record.nextPrice.from ? record.nextPrice.price : record.price
  const isOwn = ({ agentId }: Pick<ToolCallerIdentity, 'agentId'>) => agentId === builderId
  return {
    slug,
    name: definition.name,
    category: definition.category as ToolCategory,
    description: definition.description,
    tags: [],
    useCases: [],
    examples: definition.example === null ? [] : [definition.example],
    access: 'paid',
    sharesPrice: true,
    // A price that was quoted before it rose still applies for a while.
    get price() {
      return priceAt(deps.now() - LIMITS.communityPriceHoldSeconds * SECOND)
    },
    input: definition.inputSchema as TSchema,
    output: definition.outputSchema as TSchema,
    effect: 'external',
    timeoutMs: deps.callMs + 2 * SECOND,
    community: {
      record,
      get quotedPrice() {
        return priceAt(deps.now())
      },
      isFreeFor: isOwn,
      takesCashOnly: (caller) => !isOwn(caller) && !(record.acceptsPromo && deps.promoTransferable),
      assertCallable: (caller) => assertCallable(record, isOwn(caller)),
      validateInput: (input) =>
        deps.work.validate(builderId, schemaTextOf(definition.inputSchema), input),
    },
    async preflight(_input, { caller }) {
      await deps.health.assertReachable(record, callerIdOf(caller))
    },
    run: (input, context) =>
      runCommunityTool({ record, deps }, input as Record<string, unknown>, context),
  }
}

/**
 * Its builder may try a tool that others cannot call any more. Nobody calls an origin that is not proven: the station
 * would carry requests of one stranger to another (decision 380).
 */
function assertCallable({ slug, state }: CommunityToolRecord, isOwn: boolean): void {
  if (isCallableCommunityToolState(state) || (isOwn && state === 'suspended')) return
  throw new ServiceError(state === 'retired' ? 'tool_retired' : 'tool_not_active', {
    tool: slug,
    state,
  })
}

const GOOD = { errorCode: null, errorDetail: null, refused: false }

interface CommunityToolRun {
  readonly record: CommunityToolRecord
  readonly deps: CallableCommunityToolDeps
}

/**
 * Sends the call to the builder. A good answer is charged, with the builder's share; anything else is refunded.
 * The builder's own calls are free: they test the tool.
 */
async function runCommunityTool(
  { record, deps }: CommunityToolRun,
  input: Record<string, unknown>,
  context: ToolContext,
): Promise<Record<string, unknown>> {
  const { caller, callId, meter, stage } = context
  const isOwn = caller.agentId === record.builderId
  const price = isOwn ? ZERO_MICROS : context.price
  const started = deps.mono()
  const describe = (
    outcome: Pick<
      ForwardedCommunityCall,
      'errorCode' | 'errorDetail' | 'share' | 'counted' | 'refused'
    >,
  ): ForwardedCommunityCall => ({
    ...outcome,
    callId,
    tool: record,
    payer: callerIdOf(caller),
    ms: Math.round(deps.mono() - started),
    price,
    at: deps.now(),
  })
  // A schedule calls from no address: it may be the builder's.
  const isFromElsewhere =
    caller.visitor !== record.builderVisitor && !isScheduleVisitorId(caller.visitor)
  const counted = !isOwn && isFromElsewhere
  const call = { callId, callerId: callerIdOf(caller), input, signal: context.signal }
  const outcome = await deps.health.forward(record, call)
  if (!outcome.ok) {
    const { error, detail, isCallersFault } = outcome
    const share = ZERO_MICROS
    const refused = counted && error.code === 'builder_refused'
    const refund = { errorCode: error.code, errorDetail: detail, share, refused }
    await deps.recordRefund(describe({ ...refund, counted: counted && !isCallersFault }))
    throw error
  }
  const share = builderShareOf(price)
  const row = deps.toRow(describe({ ...GOOD, share, counted }))
  const rows = [{ table: 'community_tool_calls', row }]
  if (isOwn) {
    meter.waive('own_tool')
    stage.row('community_tool_calls', row)
  } else
    stage.credit({
      to: record.builderId,
      amount: share,
      stagedWrites: () => ({ rows, events: [] }),
    })
  return outcome.output
}
