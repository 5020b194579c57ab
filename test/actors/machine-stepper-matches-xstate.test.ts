import fc from 'fast-check'
import t from 'tap'
import {
  initialTransition,
  transition,
  type AnyEventObject,
  type AnyMachineSnapshot,
  type AnyStateMachine,
} from 'xstate'
import { SUPPORTED_XSTATE_ACTIONS } from '../../actors/command-context.ts'
import {
  machineRegistryEntry,
  getMachineStepperOfActorKind,
  type ActorKind,
} from '../../actors/machine-registry.ts'
import type {
  MachineStepAction,
  MachineOrReducerSnapshot,
} from '../../actors/pure-machine-transition.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import type { MachineEventRejection } from '../../machines/machine-event-rejection.ts'
import {
  STATE_SPACE_WALK_SUBJECTS,
  type StateSpaceWalkSubject,
} from '../support/machines/machine-random-walk-inputs.ts'
import { shortestEventPaths, microUsd } from '../support/machines/state-machine-stepper.ts'

const SEED = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)

const told = (context: Record<string, unknown>, { by }: StateSpaceWalkSubject) =>
  by === undefined ? context : by.map((name) => context[name])
const coarse = (amount: number, { unit }: StateSpaceWalkSubject) =>
  `${Math.min(3, Math.floor(amount / unit))}`

const UNKNOWN = { type: 'NO_SUCH_EVENT', at: 0 }
const kinds = Object.keys(STATE_SPACE_WALK_SUBJECTS) as ActorKind[]
const machineOf = (kind: ActorKind): AnyStateMachine | null => {
  const entry = machineRegistryEntry(kind)
  return entry.type === 'machine' ? entry.machine : null
}
const reduced = (actions: readonly MachineStepAction[]) =>
  actions.map(({ type, params }) => ({ type, params }))
const seen = (
  { value, context, status }: MachineOrReducerSnapshot,
  actions: readonly MachineStepAction[],
  rejected: MachineEventRejection | null,
) => ({ value, context, status, actions: reduced(actions), rejected })

/** The rejections of the library: events named `rejected` among the emitted ones. */
function seenByXState(snapshot: AnyMachineSnapshot, actions: readonly MachineStepAction[]) {
  const emitted = ({ type, params }: MachineStepAction) =>
    type === 'xstate.emit' ? (params as { event: AnyEventObject }).event : null
  const [first] = actions.flatMap((action) => {
    const event = emitted(action)
    return event?.type === 'rejected' ? [event] : []
  })
  const { type: _, ...rejection } = first ?? { type: '' }
  return seen(
    snapshot,
    actions.filter((action) => emitted(action)?.type !== 'rejected'),
    first === undefined ? null : (rejection as MachineEventRejection),
  )
}

/** Runs the stepper and the library in parallel; returns the first differing step, or null. */
function difference(
  kind: ActorKind,
  machine: AnyStateMachine,
  { input }: StateSpaceWalkSubject,
  events: readonly AnyEventObject[],
) {
  const ours = getMachineStepperOfActorKind(kind)
  const official = initialTransition(machine, input as never)
  let mine = ours.initial(input)
  let [theirs, theirActions] = official as [AnyMachineSnapshot, MachineStepAction[]]
  for (const event of [null, ...events]) {
    if (event !== null) {
      ;[theirs, theirActions] = transition(machine, theirs, event) as [
        AnyMachineSnapshot,
        MachineStepAction[],
      ]
      mine = ours.step(mine.snapshot, event)
      for (const { type } of mine.actions) types.add(type)
      if (mine.rejected !== null) types.add('rejected')
    }
    const left = seen(mine.snapshot, mine.actions, mine.rejected)
    const right = seenByXState(theirs, theirActions)
    if (stringifyWithBigints(left) !== stringifyWithBigints(right))
      return { event, ours: left, official: right }
  }
  return null
}
const types = new Set<string>()

for (const kind of kinds) {
  const subject = STATE_SPACE_WALK_SUBJECTS[kind]
  const machine = machineOf(kind)
  if (machine === null) continue

  t.test(`${kind}: on every shortest path the stepper matches the library`, async (t) => {
    const from = getMachineStepperOfActorKind(kind).initial(subject.input).snapshot
    const bucket = ({ value, context }: AnyMachineSnapshot) =>
      stringifyWithBigints([value, told(context, subject)]).replace(/"\$n":"(\d+)"/g, (_, amount) =>
        coarse(Number(amount), subject),
      )
    const walks = shortestEventPaths(
      machine,
      from as never,
      subject.events as never[],
      bucket as never,
      30_000,
    )
    t.ok(walks.length > 6, `${walks.length} paths`)
    for (const walk of walks) t.equal(difference(kind, machine, subject, walk), null)
  })

  t.test(`${kind}: on random walks the stepper matches the library`, async (t) => {
    const events = fc.array(fc.constantFrom(...subject.events, UNKNOWN), { maxLength: 25 })
    fc.assert(
      fc.property(events, (walk) => difference(kind, machine, subject, walk) === null),
      { seed: SEED, numRuns: 300 },
    )
    t.pass(`seed ${SEED}`)
  })
}

t.test('the runtime handles every action that a machine can return', async (t) => {
  const declared = kinds.flatMap((kind) => {
    const machine = machineOf(kind)
    return machine === null ? [] : actionsOf(machine)
  })
  t.ok(types.delete('rejected'), 'the walks saw rejections')
  for (const type of new Set([...declared, ...types]))
    t.ok(SUPPORTED_XSTATE_ACTIONS.has(type), type)
  t.ok(types.has('xstate.emit') && types.has('xstate.raise'), 'the walks saw them')
})

/** Names of custom actions in the charts; unresolved actions are returned by a step. */
function actionsOf(machine: AnyStateMachine): string[] {
  const names = Object.keys(machine.implementations.actions)
  return names.filter((name) => {
    const made = machine.implementations.actions[name] as { type?: string } | undefined
    return !String(made?.type ?? '').startsWith('xstate.')
  })
}

t.test('a reducer steps like a machine: it accepts, changes, rejects', async (t) => {
  const { initial, step } = getMachineStepperOfActorKind('tally')
  const { snapshot } = initial({ agentId: 'a' })
  const used = step(snapshot, { type: 'USE', name: 'x', most: 1 })
  t.match(used, { snapshot: { value: null, context: { used: { x: 1 } } }, rejected: null })
  const again = step(used.snapshot, { type: 'USE', name: 'x', most: 1 })
  t.strictSame([again.rejected, again.actions], [{ code: 'allowance_used' }, []])
  t.equal(again.snapshot, used.snapshot)
  t.strictSame(step(snapshot, UNKNOWN).rejected, { code: 'internal' })
  t.strictSame(step(snapshot, { type: 'constructor' }).rejected, { code: 'internal' })
})

t.test('a guard that throws changes no state', async (t) => {
  const { initial, step } = getMachineStepperOfActorKind('agent')
  const { snapshot } = initial(STATE_SPACE_WALK_SUBJECTS.agent.input)
  t.throws(() =>
    step(snapshot, { type: 'HOLD', amount: 'no number', callId: 'c', reserved: microUsd(1) }),
  )
  const clean = step(snapshot, { type: 'CREDIT', promo: microUsd(1), cash: microUsd(0) })
  t.match(clean.snapshot.context, { promo: 101n, held: 0n })
  t.strictSame(reduced(clean.actions), [])
})
