import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate'

/**
 * The id of each transition of a machine, by its definition: the path of its state, its event and
 * its place among the transitions of that event, as in `active|RENEW|1`. The charts of the
 * inspector and the edges that it is told use the same ids.
 */
export function toMachineTransitionIds({
  root,
}: AnyStateMachine): ReadonlyMap<AnyTransitionDefinition, string> {
  const ids = new Map<AnyTransitionDefinition, string>()
  for (const node of withDescendants(root)) {
    const path = node.path.join('.')
    for (const [event, transitions] of [['', node.always ?? []] as const, ...node.transitions])
      for (const [at, transition] of transitions.entries())
        ids.set(transition, `${path}|${event}|${at}`)
  }
  return ids
}

const withDescendants = (node: AnyStateNode): AnyStateNode[] => [
  node,
  ...Object.values(node.states).flatMap(withDescendants),
]
