import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import type { AnyEventObject } from 'xstate'
import { hydrateActor, actorKey, type LoadedActor } from '../../actors/loaded-aggregate-state.ts'
import { toJournalChangesOfActors } from '../../actors/changed-actors-to-journal-deltas.ts'
import {
  machineRegistry,
  getMachineStepperOfActorKind,
  type ActorKind,
} from '../../actors/machine-registry.ts'
import type { MachineOrReducerSnapshot } from '../../actors/pure-machine-transition.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import {
  applyStateDelta,
  JOURNAL_FULL_STATE_INTERVAL,
  serializeStateDelta,
  type ActorState,
  type JournalChange,
  type JournalStateDelta,
} from '../../core/journal-actor-state-delta.ts'
import { STATE_SPACE_WALK_SUBJECTS } from '../support/machines/machine-random-walk-inputs.ts'

const SEED = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
const kinds = Object.keys(STATE_SPACE_WALK_SUBJECTS) as ActorKind[]

const stored = ({ value, context }: ActorState) =>
  JSON.parse(stringifyWithBigints({ value, context })) as ActorState
const deltaBetween = (before: ActorState, after: ActorState) =>
  JSON.parse(`{${serializeStateDelta(before, after)}}`) as JournalStateDelta
const toEntry = (kind: ActorKind, id: string, snapshot: MachineOrReducerSnapshot): LoadedActor => ({
  kind,
  id,
  snapshot,
  machineVersion: machineRegistry[kind].version,
  fullStateAt: null,
  maxChars: 0,
})
const changesOf = (text: string) => JSON.parse(text) as JournalChange[]

/** What the journal makes of a walk, with a node that loads the actor again at some steps. */
function firstDifference(kind: ActorKind, walk: readonly (AnyEventObject | 'load')[]) {
  const { initial, step } = getMachineStepperOfActorKind(kind)
  const { input } = STATE_SPACE_WALK_SUBJECTS[kind]
  const key = actorKey(kind, 'x')
  let { snapshot } = initial(input)
  let state = new Map<string, LoadedActor>()
  let folded: ActorState | undefined
  let version = 0
  for (const event of [null, ...walk]) {
    if (event === 'load') {
      const text = stringifyWithBigints({ value: snapshot.value, context: snapshot.context })
      const loaded = hydrateActor({ kind, id: 'x', machineVersion: 1, state: text })
      snapshot = loaded.snapshot
      state = new Map([[key, loaded]])
      continue
    }
    version += 1
    if (event !== null) snapshot = step(snapshot, event).snapshot
    const next = toEntry(kind, 'x', snapshot)
    const { changed, actors } = toJournalChangesOfActors(
      'other',
      version,
      state,
      new Map([[key, next]]),
    )
    state = new Map([[key, next]])
    const wanted = stored(snapshot)
    if (next.maxChars < JSON.stringify(wanted).length) return { event, maxChars: next.maxChars }
    const [change] = changesOf(changed)
    if (actors.length !== (change === undefined ? 0 : 1)) return { event, actors }
    if (change === undefined) {
      if (!isDeepStrictEqual(folded, wanted)) return { event, folded, wanted }
      continue
    }
    const made = folded === undefined ? change.state : applyStateDelta(folded, change)
    if (change.state !== undefined && !isDeepStrictEqual(change.state, made))
      return { event, made, full: change.state }
    if (!isDeepStrictEqual(made, wanted)) return { event, made, wanted, change }
    folded = made
  }
  return null
}

for (const kind of kinds) {
  t.test(`${kind}: the journal of a random walk makes each of its states`, async (t) => {
    const { events } = STATE_SPACE_WALK_SUBJECTS[kind]
    const walks = fc.array(
      fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...events) }, fc.constant('load' as const)),
      { maxLength: 40 },
    )
    fc.assert(
      fc.property(walks, (walk) => {
        const found = firstDifference(kind, walk)
        if (found !== null) throw new Error(stringifyWithBigints(found))
      }),
      { seed: SEED, numRuns: 200 },
    )
    t.pass(`seed ${SEED}`)
  })
}

t.test('a delta leads from any JSON to any other', async (t) => {
  const keys = fc.constantFrom('a', 'b', '', '/', '~1', '__proto__', 'constructor', '0', 'é"\\')
  const { tree } = fc.letrec((tie) => ({
    tree: fc.dictionary(keys, tie('leaf'), { maxKeys: 4 }),
    leaf: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom(null, undefined, true, 'text', 0, 1.5),
      fc.bigInt(),
      fc.array(fc.constantFrom(1, null, 'x'), { maxLength: 2 }),
      tie('tree'),
    ),
  }))
  const values = fc.constantFrom<unknown>('open', 'shut', { open: 'far' }, { open: 'near' })
  const state = fc.record({ value: values, context: tree })
  fc.assert(
    fc.property(state, state, (before, after) => {
      const made = applyStateDelta(stored(before), deltaBetween(before, after))
      return isDeepStrictEqual(stored({ ...made }), stored(after))
    }),
    { seed: SEED, numRuns: 3_000 },
  )
  t.pass(`seed ${SEED}`)
})

t.test('a delta names only what changed', async (t) => {
  const hold = { promo: 1n, cash: 2n }
  const before = {
    value: 'warning',
    context: { promo: 5n, note: null, holds: { c1: hold, c2: hold }, list: [1], gone: 1 },
  }
  const after = {
    value: 'warning',
    context: {
      promo: 4n,
      note: null,
      holds: { c2: { ...hold, cash: 3n }, 'c/3': hold },
      list: [1, 2],
    },
  }
  t.strictSame(deltaBetween(before, after), {
    set: {
      '/promo': { $n: '4' },
      '/holds/c2/cash': { $n: '3' },
      '/holds/c~13': { promo: { $n: '1' }, cash: { $n: '2' } },
      '/list': [1, 2],
    },
    del: ['/holds/c1', '/gone'],
  })
  t.equal(serializeStateDelta(after, { ...after, context: { ...after.context } }), '')
  t.equal(serializeStateDelta(after, { ...after, value: 'empty' }), '"value":"empty"')
})

t.test('a delta that does not fit throws', async (t) => {
  const state = { value: 'x', context: { a: 1, map: {} } }
  for (const delta of [
    { set: { '/other/key': 1 } },
    { set: { '/a/key': 1 } },
    { set: { '': 1 } },
    { del: ['/b'] },
    { del: ['/map/x'] },
  ])
    t.throws(() => applyStateDelta(state, delta), JSON.stringify(delta))
})

t.test('a full state stands at creation, after loading and each hundred versions', async (t) => {
  const { initial, step } = getMachineStepperOfActorKind('agent')
  let { snapshot } = initial(STATE_SPACE_WALK_SUBJECTS.agent.input)
  const key = actorKey('agent', 'a')
  let state = new Map<string, LoadedActor>()
  /** Whether the change at this version has a full state, and a delta. */
  const change = (version: number) => {
    const next = toEntry('agent', 'a', snapshot)
    const [written] = changesOf(
      toJournalChangesOfActors('a', version, state, new Map([[key, next]])).changed,
    )
    state = new Map([[key, next]])
    const credit = { type: 'CREDIT', promo: 1n, cash: 0n }
    snapshot = step(snapshot, credit).snapshot
    t.match(written, { kind: 'agent', id: undefined, machine: 1 })
    return [written?.state !== undefined, written?.set !== undefined]
  }
  t.strictSame(change(7), [true, false], 'creation')
  t.strictSame(change(8), [false, true])
  t.strictSame(change(6 + JOURNAL_FULL_STATE_INTERVAL), [false, true], 'the last one without')
  t.strictSame(change(7 + JOURNAL_FULL_STATE_INTERVAL), [true, true], 'with its delta')
  t.strictSame(change(8 + JOURNAL_FULL_STATE_INTERVAL), [false, true])
  t.strictSame(change(5_000), [true, true], 'one that rested')
  const [entry] = state.values()
  state = new Map([[key, { ...(entry as LoadedActor), fullStateAt: null }]])
  t.strictSame(change(5_001), [true, true], 'loaded')
  const [last] = state.values()
  state = new Map([[key, { ...(last as LoadedActor), machineVersion: 0 }]])
  t.strictSame(change(5_002), [true, false], 'another version of the machine')
})
