import { createMachine, type AnyStateMachine, type AnyStateNode } from 'xstate'

/** Machines from configs without functions, as plain XState makes them. */

type Implementation = (args: { readonly event: unknown }, params: unknown) => unknown

/** What JSON says of a guard or an action without params: it receives the event. */
function givenTheEvent(implementation: unknown): unknown {
  const expression = (call: Implementation) =>
    ((args, params) => call(args, params ?? args.event)) satisfies Implementation
  if (typeof implementation !== 'function') return implementation
  for (const field of ['assignment', 'event', 'collect'] as const) {
    const own = (implementation as unknown as Record<string, unknown>)[field]
    if (typeof own !== 'function') continue
    const made = () => {}
    return Object.assign(made, implementation, { [field]: expression(own as Implementation) })
  }
  return 'check' in implementation || 'resolve' in implementation
    ? implementation
    : expression(implementation as Implementation)
}

const withEvents = (all: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(all).map(([name, one]) => [name, givenTheEvent(one)]))

/** A config as a developer pastes it into `createMachine`, with the guards and actions of our machine. */
export function createPlainXstateMachine(ours: AnyStateMachine, config: object): AnyStateMachine {
  const { guards, actions, delays } = ours.implementations
  return createMachine(config as never).provide({
    guards: withEvents(guards),
    actions: withEvents(actions),
    delays,
  } as never)
}

/** A state and all states below it. */
export const stateNodesOf = (node: AnyStateNode): AnyStateNode[] => [
  node,
  ...Object.values(node.states).flatMap(stateNodesOf),
]
/** States and transitions of a machine, without functions. */
export const outlineMachine = ({ root }: AnyStateMachine) =>
  stateNodesOf(root).map((node) => ({
    id: node.id,
    type: node.type,
    tags: node.tags,
    initial: node.type === 'compound' ? node.initial.target?.map(({ id }) => id) : [],
    transitions: [...node.transitions.values(), node.always ?? []].flat().map((one) => ({
      event: one.eventType,
      target: one.target?.map(({ id }) => id),
      guard: (one.guard as { type?: string } | undefined)?.type ?? one.guard,
      actions: (one.actions as unknown as ({ type?: string } | string)[]).map((action) =>
        typeof action === 'string' ? action : action.type,
      ),
      reenter: one.reenter,
    })),
  }))
