import type { AnyTransitionDefinition } from 'xstate'
import type { RejectedStep } from '../command-context.ts'
import { machineRegistryEntry, getMachineStepperOfActorKind } from '../machine-registry.ts'
import { runStepAndObserveTransitions } from '../pure-machine-transition.ts'
import { readActorName } from './inspector-frames.ts'
import { findMachineTransitionId } from './record-actor-step.ts'
import { shortenLists } from './shorten-lists-in-refusal-explanation.ts'
import {
  redactActorStateForInspector,
  redactEventValueForInspector,
} from './withhold-secrets-from-inspector.ts'

/** Why a machine has rejected an event: its state, the transition that rejected, and those before it. */

interface ExplainedTransition {
  /** As the charts name it. */
  readonly id: string
  readonly guard: unknown
}

export interface MachineRejectionExplanation {
  readonly actor: { readonly kind: string; readonly id: string; readonly name: string }
  readonly aggregate_id: string
  readonly event: unknown
  readonly value: unknown
  readonly context: Readonly<Record<string, unknown>>
  /** Null for a reducer, which has no transitions. */
  readonly transition: ExplainedTransition | null
  /** Transitions of the same event that come first; their guards did not hold. */
  readonly passed_over: readonly ExplainedTransition[]
}

/** Takes the step once more, which changes nothing. */
export function explainMachineRejection({
  actor,
  aggregateId,
  event,
}: RejectedStep): MachineRejectionExplanation {
  const { kind, id, snapshot } = actor
  const { value, context } = redactActorStateForInspector(kind, snapshot)
  return {
    actor: { kind, id, name: readActorName(snapshot.context) ?? id },
    aggregate_id: aggregateId,
    event: shortenLists(redactEventValueForInspector(event)),
    value,
    context: shortenLists(context) as Record<string, unknown>,
    ...transitionsOf({ actor, event }),
  }
}

function transitionsOf({
  actor: { kind, snapshot },
  event,
}: Pick<RejectedStep, 'actor' | 'event'>): Pick<
  MachineRejectionExplanation,
  'transition' | 'passed_over'
> {
  if (machineRegistryEntry(kind).type === 'reducer') return { transition: null, passed_over: [] }
  const { taken } = runStepAndObserveTransitions(() =>
    getMachineStepperOfActorKind(kind).step(snapshot, event),
  )
  const rejecting = taken.find((one) => one.eventType !== '') ?? taken[0]
  if (rejecting === undefined) return { transition: null, passed_over: [] }
  const explain = (one: AnyTransitionDefinition): ExplainedTransition => ({
    id: findMachineTransitionId(kind, one) ?? '',
    guard: guardOf(one),
  })
  const { source } = rejecting
  const lists = [...source.transitions.values(), source.always ?? []]
  const list = lists.find((transitions) => transitions.includes(rejecting)) ?? []
  return {
    transition: explain(rejecting),
    passed_over: list.slice(0, list.indexOf(rejecting)).map(explain),
  }
}

/** Names the guard with its parameters; null for a transition without one. */
function guardOf({ guard }: AnyTransitionDefinition): unknown {
  if (guard === undefined) return null
  if (typeof guard === 'string') return { type: guard }
  const { type, params } = guard as { type?: string; params?: unknown }
  if (typeof type !== 'string') return null
  return {
    type,
    ...(typeof params === 'object' ? { params: redactEventValueForInspector(params) } : {}),
  }
}
