import { ServiceError } from '../../core/errors.ts'
import { newName } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Micros } from '../../core/money.ts'
import type { BackpackState, Pager } from '../../machines/backpack.ts'
import { windowsAt, type Fuse } from '../../machines/fuse.ts'
import type { Command, Turn } from '../command.ts'
import type { SnapshotOf } from '../registry.ts'

/** A Backpack as its owner sees it; the spending is that of the current UTC day and month. */
export interface BackpackView {
  readonly backpackId: string
  readonly agentName: string
  readonly tools: readonly string[] | null
  readonly fuse: Fuse
  readonly pager: Pager
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
  readonly pager: Pager
  readonly expiresAt: number
}

export const backpackCreate: Command<NewBackpack, BackpackView> = {
  name: 'backpack.create',
  kind: 'agent',
  apply(turn, input) {
    const open = turn.all('backpack').filter(({ snapshot }) => snapshot.value !== 'revoked')
    if (open.length >= LIMITS.backpacks) {
      throw new ServiceError('limit_reached', { limit: LIMITS.backpacks, of: 'Backpacks' })
    }
    return view(openBackpack(turn, newName('bp'), input), turn.now)
  },
}

/** Creates a Backpack under an id that is new, and tells of it. */
export function openBackpack(
  turn: Turn,
  backpackId: string,
  input: NewBackpack,
): SnapshotOf<'backpack'> {
  const created = turn.create('backpack', backpackId, {
    backpackId,
    createdAt: turn.now,
    ...input,
  })
  turn.event({
    type: 'backpack.created',
    to: turn.aggregateId,
    backpackId,
    data: { backpack_id: backpackId, agent_name: input.agentName },
  })
  return created
}

interface Named {
  readonly backpackId: string
}

export const backpackGet: Command<Named, BackpackView> = {
  name: 'backpack.get',
  kind: 'agent',
  apply: (turn, { backpackId }) => view(turn.peek('backpack', known(turn, backpackId)), turn.now),
}

/** Those of the Backpacks that are there, in the order they are asked for. */
export const backpackList: Command<{ backpackIds: readonly string[] }, BackpackView[]> = {
  name: 'backpack.list',
  kind: 'agent',
  apply: (turn, { backpackIds }) =>
    backpackIds
      .filter((id) => turn.has('backpack', id))
      .map((id) => view(turn.peek('backpack', id), turn.now)),
}

export interface BackpackChange extends Named {
  readonly tools?: readonly string[] | null
  /** Limits that are absent stay as they are, whatever else changes at the same time. */
  readonly fuse?: Partial<Fuse>
  readonly pager?: Partial<Pager>
}

export const backpackSet: Command<BackpackChange, BackpackView> = {
  name: 'backpack.set',
  kind: 'agent',
  apply(turn, { backpackId, tools, fuse, pager }) {
    const { context } = turn.peek('backpack', known(turn, backpackId))
    const event = {
      type: 'SET',
      ...(tools === undefined ? {} : { tools }),
      ...(fuse === undefined ? {} : { fuse: { ...context.fuse, ...fuse } }),
      ...(pager === undefined ? {} : { pager: { ...context.pager, ...pager } }),
      at: turn.now,
    } as const
    return view(turn.step('backpack', backpackId, event), turn.now)
  },
  note: ({ backpackId, tools, fuse }) => ({ backpackId, tools, fuse }),
}

/** Final: nothing is let through afterwards, on any node. */
export const backpackRevoke: Command<Named, BackpackView> = {
  name: 'backpack.revoke',
  kind: 'agent',
  apply(turn, { backpackId }) {
    const event = { type: 'REVOKE', at: turn.now } as const
    return view(turn.step('backpack', known(turn, backpackId), event), turn.now)
  },
  note: ({ backpackId }) => ({ backpackId }),
}

export const backpackRenew: Command<Named & { expiresAt: number }, BackpackView> = {
  name: 'backpack.renew',
  kind: 'agent',
  apply(turn, { backpackId, expiresAt }) {
    const event = { type: 'RENEW', expiresAt, at: turn.now } as const
    return view(turn.step('backpack', known(turn, backpackId), event), turn.now)
  },
  note: ({ backpackId, expiresAt }) => ({ backpackId, expiresAt }),
}

function known(turn: Turn, backpackId: string): string {
  if (turn.has('backpack', backpackId)) return backpackId
  throw new ServiceError('NOT_FOUND', { backpack_id: backpackId })
}

function view({ value, context }: SnapshotOf<'backpack'>, now: number): BackpackView {
  const { backpackId, agentName, tools, fuse, pager, createdAt, expiresAt, spentTotal, calls } =
    context
  const { spentDay, spentMonth } = windowsAt(context, now)
  const chart: BackpackState = typeof value === 'string' ? value : 'active'
  // The chart learns of the hour by a timer or the next call; a reader is told the truth at once.
  const state: BackpackState = chart === 'active' && now >= expiresAt ? 'expired' : chart
  const facts = { backpackId, agentName, tools, fuse, pager, state, createdAt, expiresAt }
  return { ...facts, spentDay, spentMonth, spentTotal, calls }
}
