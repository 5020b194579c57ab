import { ServiceError } from '../../core/errors.ts'
import type { Micros } from '../../core/money.ts'
import {
  type CommunityToolDefinition,
  type CommunityToolState,
  type MeasuredToolQuality,
} from '../../domain/community-tool-record.ts'
import { communityToolPriceAt } from '../../machines/community-tool-machine.ts'
import { toCommunityToolChangeRow } from '../../persistence/tools/community-tool-store.ts'
import type { AggregateCommand, CommandContext } from '../aggregate-command-types.ts'
import type { ActorSnapshot } from '../machine-registry.ts'

/** Commands of a tool that an agent sells. The aggregate's id contains the slug, so a slug is taken once. */

/** A tool after a command. */
export interface CommunityToolView {
  readonly toolId: string
  readonly slug: string
  readonly state: CommunityToolState
  readonly context: ActorSnapshot<'tool'>['context']
  /** The price of a call now. */
  readonly price: Micros
}

/** What a new tool says of itself and its builder. */
export interface RegisterCommunityToolInput {
  /** Drawn by the request: a repetition finds its own tool. */
  readonly toolId: string
  readonly slug: string
  readonly builderId: string
  readonly builderName: string
  readonly builderVisitor: string
  /** Among the tools of the builder; the commit of a place that is taken is rejected. */
  readonly place: number
  readonly definition: CommunityToolDefinition
  readonly price: Micros
  readonly acceptsPromo: boolean
  /** The endpoint has answered the challenge. */
  readonly proven: boolean
}

export const registerCommunityToolCommand: AggregateCommand<
  RegisterCommunityToolInput,
  CommunityToolView
> = {
  name: 'tool.register',
  kind: 'tool',
  creates: true,
  apply(ctx, { builderName, builderVisitor, place, definition, proven, ...registered }) {
    const { slug, toolId } = registered
    if (ctx.has('tool', ctx.aggregateId)) {
      const view = toView(ctx)
      if (view.toolId === toolId) return view
      throw new ServiceError('slug_taken', { slug, did_you_mean: slug })
    }
    ctx.create('tool', ctx.aggregateId, { ...registered, at: ctx.now })
    if (proven) ctx.send('tool', ctx.aggregateId, { type: 'PROVE', at: ctx.now })
    return recordChange(ctx, { builderName, builderVisitor, place, definition })
  },
  note: ({ slug, builderId, price }) => ({ slug, builderId, price }),
}

/** What a builder changes; null leaves it. */
export interface ChangeCommunityToolInput {
  readonly builderId: string
  readonly price: Micros | null
  readonly noticeMs: number
  readonly acceptsPromo: boolean | null
  /** Its changed fields. */
  readonly definition: Partial<CommunityToolDefinition> | null
  /** What the tool says of itself, its schemas or its endpoint are other ones. */
  readonly revised: boolean
  /** The endpoint of `definition` has answered the challenge again. */
  readonly proven: boolean
  readonly rotateSecret: boolean
  /** The address of the request: calls from there do not count for its quality. */
  readonly builderVisitor: string
}

export const changeCommunityToolCommand: AggregateCommand<
  ChangeCommunityToolInput,
  CommunityToolView
> = {
  name: 'tool.change',
  kind: 'tool',
  apply(ctx, { definition, proven, rotateSecret, builderVisitor, ...change }) {
    const { builderId } = change
    ctx.send('tool', ctx.aggregateId, { type: 'CHANGE', ...change, at: ctx.now })
    if (rotateSecret)
      ctx.send('tool', ctx.aggregateId, { type: 'ROTATE_SECRET', builderId, at: ctx.now })
    if (proven) ctx.send('tool', ctx.aggregateId, { type: 'PROVE', at: ctx.now })
    return recordChange(ctx, { definition, builderVisitor })
  },
  note: ({ builderId, price, proven }) => ({ builderId, price, proven }),
}

export const retireCommunityToolCommand: AggregateCommand<
  { readonly builderId: string },
  CommunityToolView
> = {
  name: 'tool.retire',
  kind: 'tool',
  apply(ctx, { builderId }) {
    const before = ctx.snapshotOf('tool', ctx.aggregateId)
    ctx.send('tool', ctx.aggregateId, { type: 'RETIRE', builderId, at: ctx.now })
    return before.value === 'retired' ? toView(ctx) : recordChange(ctx)
  },
  note: ({ builderId }) => ({ builderId }),
}

/** Asks the operator for the mark `verified`. */
export const requestCommunityToolVerificationCommand: AggregateCommand<
  { readonly builderId: string },
  CommunityToolView
> = {
  name: 'tool.submit',
  kind: 'tool',
  apply(ctx, { builderId }) {
    ctx.send('tool', ctx.aggregateId, { type: 'SUBMIT', builderId, at: ctx.now })
    return recordChange(ctx)
  },
  note: ({ builderId }) => ({ builderId }),
}

/** The operator's answer; `reason` is what the builder reads. */
export interface CommunityToolVerificationDecision {
  readonly accepted: boolean
  readonly reason: string | null
}

export const decideCommunityToolVerificationCommand: AggregateCommand<
  CommunityToolVerificationDecision,
  CommunityToolView
> = {
  name: 'tool.review',
  kind: 'tool',
  apply(ctx, { accepted, reason }) {
    ctx.send('tool', ctx.aggregateId, { type: 'REVIEW', accepted, reason, at: ctx.now })
    const view = recordChange(ctx)
    tellBuilder(ctx, { review: accepted ? 'verified' : 'refused', reason })
    return view
  },
  note: ({ accepted }) => ({ accepted }),
}

/** Judges a tool by its measured calls; null if its state stays. */
export const judgeCommunityToolByMeasuredCallsCommand: AggregateCommand<
  MeasuredToolQuality,
  CommunityToolView | null
> = {
  name: 'tool.measure',
  kind: 'tool',
  apply(ctx, quality) {
    const before = ctx.snapshotOf('tool', ctx.aggregateId)
    const after = ctx.send('tool', ctx.aggregateId, { type: 'MEASURE', ...quality, at: ctx.now })
    if (after.value === before.value) return null
    const view = recordChange(ctx)
    const { calls, successes } = quality
    tellBuilder(ctx, { calls, successes })
    return view
  },
  note: ({ calls, successes, payers }) => ({ calls, successes, payers }),
}

/** Tells the builder what was decided about a tool. */
function tellBuilder(ctx: CommandContext, about: Record<string, unknown>): void {
  const { value, context } = ctx.snapshotOf('tool', ctx.aggregateId)
  const data = { tool: context.slug, state: value, ...about }
  ctx.event({ type: 'tool.judged', to: context.builderId, data })
}

/** Stages the row that catalogues read. */
function recordChange(
  ctx: CommandContext,
  said: {
    readonly builderName?: string
    readonly builderVisitor?: string
    readonly place?: number
    readonly definition?: Partial<CommunityToolDefinition> | null
  } = {},
): CommunityToolView {
  const view = toView(ctx)
  const { builderName = null, builderVisitor = null, place = null, definition = null } = said
  const change = { ...view.context, changeId: ctx.newId(), state: view.state }
  ctx.row(
    'community_tool_changes',
    toCommunityToolChangeRow(
      { ...change, builderName, builderVisitor, place, definition },
      ctx.now,
    ),
  )
  return view
}

function toView(ctx: CommandContext): CommunityToolView {
  const { value, context } = ctx.snapshotOf('tool', ctx.aggregateId)
  const { toolId, slug } = context
  return { toolId, slug, state: value, context, price: communityToolPriceAt(context, ctx.now) }
}
