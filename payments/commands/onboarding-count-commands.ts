import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import type { ActorSnapshot } from '../../actors/machine-registry.ts'

/** The agents a visitor onboarded in an hour; the hour may be over. */
export type VisitorHourlyOnboardings = ActorSnapshot<'visitor'>['context']['newcomers']

/** Agents that join together from a visitor: an address, or a larger network. */
export interface CountOnboardingInput {
  readonly agents: number
  readonly limit: number
  /** They use up the rest of the hour. */
  readonly fills: boolean
}

/** Counts new agents in the visitor's hour; returns the hour before the count. */
export const countOnboardedAgentsCommand: AggregateCommand<
  CountOnboardingInput,
  VisitorHourlyOnboardings
> = {
  name: 'newcomers.join',
  kind: 'visitor',
  creates: true,
  apply(ctx, joining) {
    const { aggregateId: id, now: at } = ctx
    if (!ctx.has('visitor', id)) ctx.create('visitor', id, {})
    const { newcomers: before } = ctx.snapshotOf('visitor', id).context
    const { newcomers } = ctx.send('visitor', id, { type: 'JOIN', ...joining, at }).context
    return newcomers.since === before.since ? before : { since: newcomers.since, agents: 0 }
  },
  note: ({ agents }) => ({ agents }),
}

/** Undoes a count in the hour that began at `since`. */
export const uncountOnboardedAgentsCommand: AggregateCommand<
  { agents: number; since: number },
  void
> = {
  name: 'newcomers.leave',
  kind: 'visitor',
  apply(ctx, { agents, since }) {
    ctx.send('visitor', ctx.aggregateId, { type: 'LEAVE', agents, since })
  },
  note: ({ agents }) => ({ agents }),
}

/** The last hour in which agents joined from a visitor. */
export const getVisitorOnboardingCountCommand: AggregateCommand<
  Record<string, never>,
  VisitorHourlyOnboardings
> = {
  name: 'newcomers.last',
  kind: 'visitor',
  creates: true,
  apply(ctx) {
    const id = ctx.aggregateId
    if (!ctx.has('visitor', id)) return { since: 0, agents: 0 }
    return ctx.snapshotOf('visitor', id).context.newcomers
  },
}
