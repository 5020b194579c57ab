import { ServiceError } from '../../core/errors.ts'
import { newPrefixedId } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Micros } from '../../core/money.ts'
import type {
  BackpackState,
  BackpackPagerContacts,
} from '../../machines/backpack/backpack-guards-and-actions.ts'
import { spendWindowsAt, type Fuse } from '../../machines/backpack/fuse-limits.ts'
import type { AggregateCommand, CommandContext } from '../aggregate-command-types.ts'
import type { ActorSnapshot } from '../machine-registry.ts'

/** A Backpack as its owner sees it. Spending is that of the current UTC day and month. */
export interface BackpackView {
  readonly backpackId: string
  readonly agentName: string
  readonly tools: readonly string[] | null
  readonly fuse: Fuse
  readonly pager: BackpackPagerContacts
  readonly state: BackpackState
  readonly createdAt: number
  readonly expiresAt: number
  readonly spentDay: Micros
  readonly spentMonth: Micros
  readonly spentTotal: Micros
  readonly calls: number
}

export interface NewBackpack {
  readonly agentName: string
  readonly tools: readonly string[] | null
  readonly fuse: Fuse
  readonly pager: BackpackPagerContacts
  readonly expiresAt: number
}

export const createBackpackCommand: AggregateCommand<NewBackpack, BackpackView> = {
  name: 'backpack.create',
  kind: 'agent',
  apply(ctx, input) {
    const open = ctx.all('backpack').filter(({ snapshot }) => snapshot.value !== 'revoked')
    if (open.length >= LIMITS.backpacks) {
      throw new ServiceError('limit_reached', { limit: LIMITS.backpacks, of: 'Backpacks' })
    }
    return toBackpackView(createBackpackAndEmitEvent(ctx, newPrefixedId('bp'), input), ctx.now)
  },
}

/** Creates a Backpack under a new id and emits `backpack.created`. */
export function createBackpackAndEmitEvent(
  ctx: CommandContext,
  backpackId: string,
  input: NewBackpack,
): ActorSnapshot<'backpack'> {
  const created = ctx.create('backpack', backpackId, {
    backpackId,
    createdAt: ctx.now,
    ...input,
  })
  ctx.event({
    type: 'backpack.created',
    to: ctx.aggregateId,
    backpackId,
    data: { backpack_id: backpackId, agent_name: input.agentName },
  })
  return created
}

interface BackpackInputById {
  readonly backpackId: string
}

export const getBackpackCommand: AggregateCommand<BackpackInputById, BackpackView> = {
  name: 'backpack.get',
  kind: 'agent',
  apply: (ctx, { backpackId }) =>
    toBackpackView(ctx.snapshotOf('backpack', requireBackpackId(ctx, backpackId)), ctx.now),
}

/** Returns the Backpacks that exist, in the order of the ids. */
export const listBackpacksCommand: AggregateCommand<
  { backpackIds: readonly string[] },
  BackpackView[]
> = {
  name: 'backpack.list',
  kind: 'agent',
  apply: (ctx, { backpackIds }) =>
    backpackIds
      .filter((id) => ctx.has('backpack', id))
      .map((id) => toBackpackView(ctx.snapshotOf('backpack', id), ctx.now)),
}

export interface BackpackChange extends BackpackInputById {
  readonly tools?: readonly string[] | null
  /** Absent limits keep their value. */
  readonly fuse?: Partial<Fuse>
  readonly pager?: Partial<BackpackPagerContacts>
}

export const updateBackpackCommand: AggregateCommand<BackpackChange, BackpackView> = {
  name: 'backpack.set',
  kind: 'agent',
  apply(ctx, { backpackId, tools, fuse, pager }) {
    const { context } = ctx.snapshotOf('backpack', requireBackpackId(ctx, backpackId))
    const event = {
      type: 'SET',
      ...(tools === undefined ? {} : { tools }),
      ...(fuse === undefined ? {} : { fuse: { ...context.fuse, ...fuse } }),
      ...(pager === undefined ? {} : { pager: { ...context.pager, ...pager } }),
      at: ctx.now,
    } as const
    return toBackpackView(ctx.send('backpack', backpackId, event), ctx.now)
  },
  note: ({ backpackId, tools, fuse }) => ({ backpackId, tools, fuse }),
}

/** Final: no node accepts a call afterwards. */
export const revokeBackpackCommand: AggregateCommand<BackpackInputById, BackpackView> = {
  name: 'backpack.revoke',
  kind: 'agent',
  apply(ctx, { backpackId }) {
    const event = { type: 'REVOKE', at: ctx.now } as const
    return toBackpackView(ctx.send('backpack', requireBackpackId(ctx, backpackId), event), ctx.now)
  },
  note: ({ backpackId }) => ({ backpackId }),
}

export const renewBackpackCommand: AggregateCommand<
  BackpackInputById & { expiresAt: number },
  BackpackView
> = {
  name: 'backpack.renew',
  kind: 'agent',
  apply(ctx, { backpackId, expiresAt }) {
    const event = { type: 'RENEW', expiresAt, at: ctx.now } as const
    return toBackpackView(ctx.send('backpack', requireBackpackId(ctx, backpackId), event), ctx.now)
  },
  note: ({ backpackId, expiresAt }) => ({ backpackId, expiresAt }),
}

function requireBackpackId(ctx: CommandContext, backpackId: string): string {
  if (ctx.has('backpack', backpackId)) return backpackId
  throw new ServiceError('NOT_FOUND', { backpack_id: backpackId })
}

function toBackpackView({ value, context }: ActorSnapshot<'backpack'>, now: number): BackpackView {
  const { backpackId, agentName, tools, fuse, pager, createdAt, expiresAt, spentTotal, calls } =
    context
  const { spentDay, spentMonth } = spendWindowsAt(context, now)
  const chart: BackpackState = typeof value === 'string' ? value : 'active'
  // The machine expires by a timer or at the next call; a reader sees the expiry at once.
  const state: BackpackState = chart === 'active' && now >= expiresAt ? 'expired' : chart
  const facts = { backpackId, agentName, tools, fuse, pager, state, createdAt, expiresAt }
  return { ...facts, spentDay, spentMonth, spentTotal, calls }
}
