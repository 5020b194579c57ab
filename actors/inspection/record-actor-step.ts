import type { AnyEventObject, AnyTransitionDefinition } from 'xstate'
import { actorKey, type LoadedActor, type ActorKey } from '../loaded-aggregate-state.ts'
import { toMachineTransitionIds } from '../machine-transition-ids.ts'
import {
  machineRegistryEntry,
  getMachineStepperOfActorKind,
  type ActorKind,
} from '../machine-registry.ts'
import { runStepAndObserveTransitions, type MachineStep } from '../pure-machine-transition.ts'
import type { RecordedActorStep } from './command-recorder.ts'

/** Steps an actor as its stepper does, and records the step with the transitions it takes. */
export function recordActorStep(
  into: RecordedActorStep[],
  { kind, id, snapshot: before }: LoadedActor,
  aggregateId: string,
  event: AnyEventObject,
): MachineStep {
  const { result, taken } = runStepAndObserveTransitions(() =>
    getMachineStepperOfActorKind(kind).step(before, event),
  )
  const { rejected } = result
  into.push({
    ...{ kind, id, aggregateId, event, isNew: false },
    snapshot: rejected === null ? result.snapshot : before,
    edges: taken.flatMap((transition) => findMachineTransitionId(kind, transition) ?? []),
    refused: rejected?.code ?? null,
  })
  return result
}

/**
 * Leaves of a failed command what is true of it: its rejections. The states before them were never
 * committed; an actor whose rejection noted something has the state that `committed` names.
 */
export function keepOnlyRejectedSteps(
  recorded: RecordedActorStep[],
  committed: ReadonlyMap<ActorKey, LoadedActor> = NOTHING,
): void {
  const kept = recorded.filter(({ refused }) => refused !== null)
  const withNotes = kept.map((step): RecordedActorStep => {
    const noted = committed.get(actorKey(step.kind, step.id))
    return noted === undefined ? step : { ...step, snapshot: noted.snapshot }
  })
  recorded.splice(0, recorded.length, ...withNotes)
}

const NOTHING: ReadonlyMap<ActorKey, LoadedActor> = new Map()

type EdgeIds = ReturnType<typeof toMachineTransitionIds>
const edgeIds = new Map<ActorKind, EdgeIds>()

/** The id of a transition; undefined for one of another machine. */
export function findMachineTransitionId(
  kind: ActorKind,
  transition: AnyTransitionDefinition,
): string | undefined {
  const known = edgeIds.get(kind)
  if (known !== undefined) return known.get(transition)
  const entry = machineRegistryEntry(kind)
  const ids: EdgeIds = entry.type === 'machine' ? toMachineTransitionIds(entry.machine) : new Map()
  edgeIds.set(kind, ids)
  return ids.get(transition)
}
