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

/** The limits of a Backpack by their names in requests. */
export const REMOVABLE_BACKPACK_LIMITS = [
  'per_call_usdc',
  'per_day_usdc',
  'per_month_usdc',
  'tools',
] as const

export type BackpackLimitName = (typeof REMOVABLE_BACKPACK_LIMITS)[number]

const FUSE_FIELDS = {
  per_call_usdc: 'perCall',
  per_day_usdc: 'perDay',
  per_month_usdc: 'perMonth',
} as const satisfies Partial<Record<BackpackLimitName, keyof Fuse>>

export interface BackpackChange extends BackpackInputById {
  readonly tools?: readonly string[] | null
  /** Absent limits keep their value. */
  readonly fuse?: Partial<Fuse>
  readonly pager?: Partial<BackpackPagerContacts>
  /** Limits to remove. Null in `tools` or `fuse` removes none that is not named here. */
  readonly remove?: readonly BackpackLimitName[]
}

export const updateBackpackCommand: AggregateCommand<BackpackChange, BackpackView> = {
  name: 'backpack.set',
  kind: 'agent',
  apply(ctx, input) {
    const { backpackId, pager } = input
    const { context } = ctx.snapshotOf('backpack', requireBackpackId(ctx, backpackId))
    const { tools, fuse } = withRemovals(input)
    const event = {
      type: 'SET',
      ...(tools === undefined ? {} : { tools }),
      ...(fuse === undefined ? {} : { fuse: { ...context.fuse, ...fuse } }),
      ...(pager === undefined ? {} : { pager: { ...context.pager, ...pager } }),
      at: ctx.now,
    } as const
    const changed = ctx.send('backpack', backpackId, event)
    // After the machine: a Backpack that has ended says so first.
    assertRemovalsNamed(context, input)
    return toBackpackView(changed, ctx.now)
  },
  note: ({ backpackId, tools, fuse, remove }) => ({ backpackId, tools, fuse, remove }),
}

/**
 * Throws `limit_not_named` where null would remove a limit that is set (decision 430): what a program or a page
 * could not read as a number becomes null in JSON.
 */
function assertRemovalsNamed(
  { tools, fuse }: Pick<NewBackpack, 'tools' | 'fuse'>,
  { backpackId, remove = [], ...change }: BackpackChange,
): void {
  const limits = REMOVABLE_BACKPACK_LIMITS.filter((name) => {
    if (remove.includes(name)) return false
    if (name === 'tools') return change.tools === null && tools !== null
    return change.fuse?.[FUSE_FIELDS[name]] === null && fuse[FUSE_FIELDS[name]] !== null
  })
  if (limits.length === 0) return
  const detail = `Null does not remove a limit. To remove it, send {"remove": ${JSON.stringify(limits)}}. Nothing was changed.`
  throw new ServiceError('limit_not_named', { backpack_id: backpackId, limits, detail })
}

/** The change with null for each limit that it removes. */
function withRemovals({ tools, fuse, remove = [] }: BackpackChange) {
  const removed = remove.flatMap((name) => (name === 'tools' ? [] : [[FUSE_FIELDS[name], null]]))
  return {
    tools: remove.includes('tools') ? null : tools,
    fuse: removed.length === 0 ? fuse : { ...fuse, ...Object.fromEntries(removed) },
  }
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
