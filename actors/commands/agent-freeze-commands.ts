import { ServiceError, type ErrorDetails } from '../../core/errors.ts'
import type { ActorSystem, AggregateCommand, CommandContext } from '../aggregate-command-types.ts'

/** Commands that freeze an agent and let it go on. They move no money. */

/** Since when an agent is frozen; null unless it is. */
export interface AgentFreezeView {
  readonly frozenAt: number | null
}

export const freezeAgentCommand: AggregateCommand<Record<string, never>, AgentFreezeView> = {
  name: 'agent.freeze',
  kind: 'agent',
  apply(ctx) {
    const { aggregateId: to, now } = ctx
    const before = ctx.snapshotOf('agent', to)
    const after = ctx.send('agent', to, { type: 'FREEZE', at: now })
    if (before.value !== after.value)
      ctx.event({ type: 'agent.frozen', to, data: { frozen_at: new Date(now).toISOString() } })
    return { frozenAt: after.context.frozen?.at ?? null }
  },
}

export const unfreezeAgentCommand: AggregateCommand<Record<string, never>, AgentFreezeView> = {
  name: 'agent.unfreeze',
  kind: 'agent',
  apply(ctx) {
    const { aggregateId: to } = ctx
    const { frozen } = ctx.snapshotOf('agent', to).context
    ctx.send('agent', to, { type: 'UNFREEZE' })
    if (frozen !== null)
      ctx.event({
        type: 'agent.unfrozen',
        to,
        data: { frozen_at: new Date(frozen.at).toISOString() },
      })
    return { frozenAt: null }
  },
}

/** Reads whether the agent is frozen; the answer is never stale. */
export const readAgentFreezeCommand: AggregateCommand<Record<string, never>, AgentFreezeView> = {
  name: 'agent.freeze.get',
  kind: 'agent',
  apply: (ctx) => ({
    frozenAt: ctx.snapshotOf('agent', ctx.aggregateId).context.frozen?.at ?? null,
  }),
}

export const isAgentFrozen = (ctx: CommandContext): boolean =>
  ctx.snapshotOf('agent', ctx.aggregateId).value === 'frozen'

/** Throws 403 `agent_frozen` while the owner has frozen the agent. */
export async function assertAgentNotFrozen(
  actors: Pick<ActorSystem, 'ask'>,
  agentId: string,
): Promise<void> {
  const { frozenAt } = await actors.ask(agentId, readAgentFreezeCommand, {})
  if (frozenAt !== null)
    throw new ServiceError('agent_frozen', agentFrozenDetails(agentId, frozenAt))
}

export function agentFrozenDetails(agentId: string, frozenAt: number): ErrorDetails {
  const since = new Date(frozenAt).toISOString()
  return {
    agent_id: agentId,
    frozen_at: since,
    detail: `This agent has been frozen since ${since}. Its owner lets it go on: POST /api/agent/unfreeze with a key that manages its keys (scope \`keys\` or \`*\`, no Backpack, no cap), \`gas unfreeze\`, or the page /owner. Deposits are still credited.`,
  }
}
