import type { Command } from '../../actors/command.ts'
import type { SnapshotOf } from '../../actors/registry.ts'

/** The agents that joined from a visitor in an hour; the hour may be over. */
export type Newcomers = SnapshotOf<'visitor'>['context']['newcomers']

/** Agents that join together from a visitor: an address, or a network of many. */
export interface Joining {
  readonly agents: number
  readonly limit: number
  /** They leave nothing of the hour. */
  readonly fills: boolean
}

/** Counts new agents in the hour of their visitor; answers with the hour as they found it. */
export const newcomersJoin: Command<Joining, Newcomers> = {
  name: 'newcomers.join',
  kind: 'visitor',
  creates: true,
  apply(turn, joining) {
    const { aggregateId: id, now: at } = turn
    if (!turn.has('visitor', id)) turn.create('visitor', id, {})
    const { newcomers: before } = turn.peek('visitor', id).context
    const { newcomers } = turn.step('visitor', id, { type: 'JOIN', ...joining, at }).context
    return newcomers.since === before.since ? before : { since: newcomers.since, agents: 0 }
  },
  note: ({ agents }) => ({ agents }),
}

/** Takes back what was counted in the hour that began at `since`. */
export const newcomersLeave: Command<{ agents: number; since: number }, void> = {
  name: 'newcomers.leave',
  kind: 'visitor',
  apply(turn, { agents, since }) {
    turn.step('visitor', turn.aggregateId, { type: 'LEAVE', agents, since })
  },
  note: ({ agents }) => ({ agents }),
}

/** The last hour in which agents joined from a visitor. */
export const newcomersLast: Command<Record<string, never>, Newcomers> = {
  name: 'newcomers.last',
  kind: 'visitor',
  creates: true,
  apply(turn) {
    const id = turn.aggregateId
    if (!turn.has('visitor', id)) return { since: 0, agents: 0 }
    return turn.peek('visitor', id).context.newcomers
  },
}
