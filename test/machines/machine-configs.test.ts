import fc from 'fast-check'
import t from 'tap'
import {
  createMachine,
  transition,
  type AnyEventObject,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyStateNode,
} from 'xstate'
import { machineRegistryEntry, stepperOf, type ActorKind } from '../../actors/machine-registry.ts'
import { stringifyWithBigints } from '../../core/bigint-json.ts'
import { machineConfigJson } from '../../machines/machine-config-json.ts'
import { MACHINE_WALK_SUBJECTS } from '../support/machines/machine-walk-subjects.ts'

/** The configs are literals: their JSON, given to plain XState, is the same machine. */

const SEED = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)

const machines = (Object.keys(MACHINE_WALK_SUBJECTS) as ActorKind[]).flatMap((kind) => {
  const entry = machineRegistryEntry(kind)
  return entry.type === 'machine' ? [[kind, entry.machine] as const] : []
})

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

/** The JSON of a machine as a developer pastes it, with the guards and actions of the machine. */
function pasted(machine: AnyStateMachine): AnyStateMachine {
  const { guards, actions, delays } = machine.implementations
  const plain = createMachine(JSON.parse(machineConfigJson(machine)) as never)
  return plain.provide({
    guards: withEvents(guards),
    actions: withEvents(actions),
    delays,
  } as never)
}

const nodesOf = (node: AnyStateNode): AnyStateNode[] => [
  node,
  ...Object.values(node.states).flatMap(nodesOf),
]
const outline = ({ root }: AnyStateMachine) =>
  nodesOf(root).map((node) => ({
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

for (const [kind, machine] of machines) {
  const { input, events } = MACHINE_WALK_SUBJECTS[kind]

  t.test(`${kind}: its JSON has the same states and transitions`, async (t) => {
    t.strictSame(outline(pasted(machine)), outline(machine))
  })

  t.test(`${kind}: its JSON takes random walks to the same states`, async (t) => {
    const plain = pasted(machine)
    const { initial, step } = stepperOf(kind)
    const seen = ({ value, context }: { value: unknown; context: unknown }) =>
      stringifyWithBigints({ value, context })
    const property = fc.property(
      fc.array(fc.constantFrom(...(events as readonly AnyEventObject[])), { maxLength: 20 }),
      (walk) => {
        let ours = initial(input).snapshot
        let theirs = plain.resolveState(ours as never) as AnyMachineSnapshot
        return walk.every((event) => {
          ours = step(ours, event).snapshot
          ;[theirs] = transition(plain, theirs, event) as [AnyMachineSnapshot, unknown[]]
          return seen(ours) === seen(theirs)
        })
      },
    )
    fc.assert(property, { seed: SEED, numRuns: 100 })
    t.pass(`seed ${SEED}`)
  })

  t.test(`${kind}: functions in its config are the context and the event as params`, async (t) => {
    const event = { type: 'ANY' }
    const visit = (value: unknown, path: string): void => {
      if (typeof value === 'function') {
        if (path === '.context') return
        t.ok(path.endsWith('.params'), path)
        t.equal((value as Implementation)({ event }, undefined), event, path)
      } else if (typeof value === 'object' && value !== null) {
        for (const [key, inner] of Object.entries(value)) visit(inner, `${path}.${key}`)
      }
    }
    visit(machine.config, '')
    t.pass('visited')
  })

  t.test(`${kind}: only a state that answers no event is final`, async (t) => {
    for (const node of nodesOf(machine.root)) {
      if (node.type === 'final') t.equal(node.transitions.size, 0, node.id)
      for (const tag of node.tags) t.equal(tag, 'ended')
    }
    t.notOk(nodesOf(machine.root).some(({ type }) => type === 'history'))
  })
}
