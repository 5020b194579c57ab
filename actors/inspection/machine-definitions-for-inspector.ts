import type { AnyStateNode } from 'xstate'
import { machineConfigJson } from '../../machines/machine-config-json.ts'
import type { AnyReducer } from '../../machines/aggregate-reducer.ts'
import { isActorKind, machineRegistryEntry, type ActorKind } from '../machine-registry.ts'

/** The definitions of the machines, as the inspector and Stately's editor read them. */

const definitions = new Map<ActorKind, string>()

/** The config of a machine as JSON; a reducer is a machine of one state that takes its events. */
export function machineDefinitionOf(kind: ActorKind): string {
  const known = definitions.get(kind)
  if (known !== undefined) return known
  const entry = machineRegistryEntry(kind)
  const definition =
    entry.type === 'machine' ? machineConfigJson(entry.machine) : reducerConfigJson(entry.reducer)
  definitions.set(kind, definition)
  return definition
}

const REDUCED = { actions: 'reduce' }
const reducerConfigJson = ({ id, on }: AnyReducer): string =>
  JSON.stringify({ id, on: Object.fromEntries(Object.keys(on).map((event) => [event, REDUCED])) })

/** Whether the kind has states and transitions to draw. */
export const hasStatechart = (kind: string): boolean =>
  isActorKind(kind) && machineRegistryEntry(kind).type === 'machine'

/** Whether a state carries the tag `ended`: the life is over, though it may still settle what is open. */
export function isEndedMachineState(kind: ActorKind, value: unknown): boolean {
  const entry = machineRegistryEntry(kind)
  return entry.type === 'machine' && isTaggedEnded(entry.machine.root, value)
}

/** Looks at the active states only. An earlier version of the machine may have had states unknown to it. */
function isTaggedEnded(node: AnyStateNode | undefined, value: unknown): boolean {
  if (node === undefined) return false
  if (node.tags.includes('ended')) return true
  if (typeof value === 'string') return isTaggedEnded(node.states[value], undefined)
  return Object.entries((value ?? {}) as object).some(([name, inner]) =>
    isTaggedEnded(node.states[name], inner),
  )
}
