import fc from 'fast-check'
import t from 'tap'
import {
  transition,
  type AnyEventObject,
  type AnyMachineSnapshot,
  type AnyStateMachine,
} from 'xstate'
import {
  machineRegistryEntry,
  getMachineStepperOfActorKind,
  type ActorKind,
} from '../../actors/machine-registry.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { machineConfigJson } from '../../machines/machine-config-json.ts'
import { STATE_SPACE_WALK_SUBJECTS } from '../support/machines/machine-random-walk-inputs.ts'
import {
  outlineMachine,
  stateNodesOf,
  createPlainXstateMachine,
} from '../support/machines/plain-xstate-machine.ts'

/** The configs are literals: their JSON, given to plain XState, is the same machine. */

const SEED = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)

const machines = (Object.keys(STATE_SPACE_WALK_SUBJECTS) as ActorKind[]).flatMap((kind) => {
  const entry = machineRegistryEntry(kind)
  return entry.type === 'machine' ? [[kind, entry.machine] as const] : []
})

/** What a developer pastes. */
const pasted = (machine: AnyStateMachine): object =>
  JSON.parse(machineConfigJson(machine)) as object

for (const [kind, machine] of machines) {
  const { input, events } = STATE_SPACE_WALK_SUBJECTS[kind]

  t.test(`${kind}: its JSON has the same states and transitions`, async (t) => {
    t.strictSame(
      outlineMachine(createPlainXstateMachine(machine, pasted(machine))),
      outlineMachine(machine),
    )
  })

  t.test(`${kind}: its JSON takes random walks to the same states`, async (t) => {
    const plain = createPlainXstateMachine(machine, pasted(machine))
    const { initial, step } = getMachineStepperOfActorKind(kind)
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
        t.equal((value as (args: object) => unknown)({ event }), event, path)
      } else if (typeof value === 'object' && value !== null) {
        for (const [key, inner] of Object.entries(value)) visit(inner, `${path}.${key}`)
      }
    }
    visit(machine.config, '')
    t.pass('visited')
  })

  t.test(`${kind}: only a state that answers no event is final`, async (t) => {
    for (const node of stateNodesOf(machine.root)) {
      if (node.type === 'final') t.equal(node.transitions.size, 0, node.id)
      for (const tag of node.tags) t.equal(tag, 'ended')
    }
    t.notOk(stateNodesOf(machine.root).some(({ type }) => type === 'history'))
  })
}
