import { toComparableText } from '../../core/comparable-text.ts'
import type { InspectorShownActor } from '../../actors/inspection/inspector-frames.ts'

/** What a watcher of the inspector wants to see. All conditions hold together. */
export interface InspectorFilter {
  readonly machine?: string | undefined
  /** A part of the id or of the name, of the actor or its aggregate. */
  readonly q?: string | undefined
  readonly actor?: { readonly kind: string; readonly id: string } | undefined
  readonly agent?: string | undefined
}

const MAX_FIELD_CHARS = 200

/** Reads a filter from a query or a frame; what is malformed counts as absent. */
export function parseInspectorFilter(raw: Readonly<Record<string, unknown>>): InspectorFilter {
  const text = (name: string): string | undefined => {
    const value = raw[name]
    const isUsable = typeof value === 'string' && value !== '' && value.length <= MAX_FIELD_CHARS
    return isUsable && !value.includes('\0') ? value : undefined
  }
  const [, kind = '', id = ''] = /^(\w+):(.+)$/s.exec(text('actor') ?? '') ?? []
  return {
    machine: text('machine'),
    q: text('q'),
    actor: id === '' ? undefined : { kind, id },
    agent: text('agent'),
  }
}

/** Whether a step of the actor is shown. */
export function matchesInspectorFilter(
  { machine, q, actor, agent }: InspectorFilter,
  shown: InspectorShownActor,
  commandAggregateId: string,
): boolean {
  if (machine !== undefined && shown.kind !== machine) return false
  if (actor !== undefined && (shown.kind !== actor.kind || shown.id !== actor.id)) return false
  if (agent !== undefined && !belongsToAgent(shown, commandAggregateId, agent)) return false
  if (q === undefined) return true
  const wanted = toComparableText(q)
  return [shown.id, shown.name, shown.aggregateId].some((text) =>
    toComparableText(text).includes(wanted),
  )
}

/** Bounties, listings, tools and payments name their agents in their contexts. */
function belongsToAgent(
  shown: InspectorShownActor,
  commandAggregateId: string,
  agent: string,
): boolean {
  if (shown.aggregateId === agent || commandAggregateId === agent) return true
  const context = (shown.state.context ?? {}) as Record<string, unknown>
  return ['agentId', 'posterId', 'claimerId', 'sellerId', 'builderId'].some(
    (name) => context[name] === agent,
  )
}
