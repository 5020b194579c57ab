import fc from 'fast-check'
import t from 'tap'
import {
  initialTransition,
  transition,
  type AnyEventObject,
  type AnyMachineSnapshot,
  type AnyStateMachine,
} from 'xstate'
import { SUPPORTED_MACHINE_ACTIONS } from '../../actors/command-context.ts'
import { machineRegistry, type ActorKind } from '../../actors/machine-registry.ts'
import { createMachineStepper, type MachineStepAction } from '../../actors/machine-stepper.ts'
import { DAY } from '../../core/clock.ts'
import { stringifyWithBigints } from '../../core/bigint-json.ts'
import { shortestEventPaths, microUsd } from '../support/machines/state-machine-stepper.ts'

const NOON = Date.UTC(2026, 10, 21, 12)
const SEED = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)

const spend = (type: string, at: number) => ({
  type,
  callId: 'c1',
  tool: 'a',
  amount: microUsd(40),
  reserved: microUsd(10),
  reservedDay: microUsd(10),
  reservedMonth: microUsd(10),
  keyId: 'k',
  keyCap: microUsd(90),
  keyReserved: microUsd(0),
  taskId: null,
  backpackId: null,
  idempotencyKey: null,
  heldAt: at,
  held: microUsd(40),
  at,
})
const keyed = { keyId: 'k', keyCap: microUsd(90), keyReserved: microUsd(0), at: NOON }
const unkeyed = { ...keyed, keyId: null, keyCap: null }
const after = (delay: string, state: string, at: number) => ({
  type: `xstate.after.${delay}.${state}`,
  at,
})

/** A machine, its input and an alphabet of events, late and unknown ones among them. */
interface Subject {
  readonly input: unknown
  readonly events: readonly AnyEventObject[]
  /** Amounts are told apart by this much, up to three times as much: contexts have to be few. */
  readonly unit: number
  /** What tells contexts apart; everything unless given. */
  readonly by?: readonly string[]
}
const told = (context: Record<string, unknown>, { by }: Subject) =>
  by === undefined ? context : by.map((name) => context[name])
const coarse = (amount: number, { unit }: Subject) => `${Math.min(3, Math.floor(amount / unit))}`

const pays = {
  asset: 'usdc',
  amount: 40n,
  price: microUsd(40),
  mode: 'optimistic',
  balance: 100n,
  balanceBlock: 5n,
  globalRoom: true,
}
const claimed = {
  validBefore: NOON / 1000,
  purpose: { kind: 'call' },
  agentId: null,
  fingerprint: 'f1',
  credential: 'k1',
  marks: null,
  expiresAt: NOON + DAY,
}
const bountyParts = {
  bountyId: 'o',
  posterId: 'a',
  promo: microUsd(30),
  cash: microUsd(70),
  minQuality: 50,
}
const moments = [NOON, NOON + DAY, NOON + 40 * DAY]
const subjects: Record<ActorKind, Subject> = {
  agent: {
    input: { agentId: 'a', promo: microUsd(100), cash: microUsd(300_000) },
    unit: 100_000,
    events: [
      spend('ASK', NOON),
      spend('HOLD', NOON),
      { ...spend('HOLD', NOON), callId: 'c2', amount: microUsd(300_060), keyCap: null },
      { ...spend('CHARGE', NOON), amount: microUsd(250_000), keyCap: null },
      { ...keyed, type: 'CHARGE', amount: microUsd(5), heldAt: NOON },
      { ...keyed, type: 'CHARGE', amount: microUsd(5), heldAt: NOON, keyCapPerDay: microUsd(8) },
      { type: 'CAPTURE', callId: 'c1', amount: microUsd(25), at: NOON },
      { type: 'CAPTURE', callId: 'c2', amount: microUsd(300_060), at: NOON + DAY },
      { type: 'RELEASE', callId: 'c1' },
      { type: 'CREDIT', promo: microUsd(0), cash: microUsd(60_000) },
      { ...keyed, type: 'DEBIT', amount: microUsd(120), reserved: microUsd(0), from: 'cash' },
      { ...keyed, type: 'DEBIT', amount: microUsd(12), reserved: microUsd(7), from: 'any' },
      { ...unkeyed, type: 'DEBIT', amount: microUsd(300_050), reserved: microUsd(0), from: 'cash' },
    ],
  },
  backpack: {
    unit: 60,
    by: ['day', 'spentDay', 'heldDay', 'month', 'expiresAt'],
    input: {
      backpackId: 'b',
      agentName: 'scout',
      tools: ['a'],
      fuse: { perCall: microUsd(50), perDay: microUsd(90), perMonth: microUsd(120) },
      pager: { webhookUrl: null, ownerEmail: null, ownerTelegram: null },
      createdAt: NOON,
      expiresAt: NOON + 30 * DAY,
    },
    events: [
      ...moments.flatMap((at) =>
        ['ASK', 'HOLD', 'CHARGE', 'CAPTURE', 'RELEASE'].map((type) => spend(type, at)),
      ),
      { ...spend('ASK', NOON), tool: 'b' },
      { ...spend('CHARGE', NOON), amount: microUsd(60) },
      { type: 'SET', fuse: { perCall: null, perDay: null, perMonth: null }, at: NOON },
      { type: 'RENEW', expiresAt: NOON + 5 * DAY, at: NOON },
      { type: 'RENEW', expiresAt: NOON + DAY / 2, at: NOON },
      { type: 'RENEW', expiresAt: NOON, at: NOON },
      { type: 'REVOKE', at: NOON },
      after('weekBefore', 'backpack.active', NOON),
      after('dayBefore', 'backpack.active', NOON),
      after('expiry', 'backpack.active', NOON),
    ],
  },
  taskSession: {
    unit: 35,
    input: { taskId: 't', name: 'demo', budget: microUsd(100), at: NOON },
    events: [
      ...['ASK', 'HOLD', 'CHARGE', 'CAPTURE', 'RELEASE'].map((type) => spend(type, NOON)),
      { type: 'SET_BUDGET', budget: microUsd(60), reserved: microUsd(0) },
      { type: 'END', at: NOON },
      { type: 'CANCEL', at: NOON },
    ],
  },
  schedule: {
    unit: 50,
    by: ['slot', 'needed', 'name', 'budget'],
    input: {
      scheduleId: 's',
      name: 'demo',
      tool: 'a',
      every: DAY,
      budget: microUsd(100),
      writeToHive: false,
      keyId: 'k',
      at: NOON,
    },
    events: [
      ...[NOON + DAY, NOON + 2 * DAY].flatMap((slot) => [
        { type: 'RAN', slot, at: slot },
        { type: 'EXHAUSTED', slot, needed: microUsd(60) },
      ]),
      { type: 'RAN', slot: NOON + DAY, at: NOON + 3 * DAY },
      { type: 'FUNDED', balance: microUsd(59), at: NOON + DAY },
      { type: 'FUNDED', balance: microUsd(60), at: NOON + DAY },
      { type: 'ENABLE', at: NOON + DAY },
      { type: 'DISABLE' },
      { type: 'CHANGE', budget: microUsd(50) },
      { type: 'CANCEL' },
    ],
  },
  visitor: {
    input: {},
    unit: 1,
    events: moments.flatMap((at) => [
      { type: 'ASK', tool: 'a', limit: 2, reserved: 1, at },
      { type: 'USE', tool: 'a', limit: 2, at },
      { type: 'GIVE_BACK', tool: 'a', usedAt: NOON, at },
    ]),
  },
  payer: {
    unit: 40,
    by: ['reservations', 'cap'],
    input: { payer: 'eip155:8453:0xabc' },
    events: [
      ...['s1', 's2'].flatMap((id) => [
        { ...spend('RESERVE', NOON), ...pays, settlement: id },
        { type: 'RELEASE', settlement: id },
        { type: 'SETTLE', settlement: id, price: microUsd(40), block: 7n },
        { type: 'LOSE', settlement: id, price: microUsd(40), delivered: id === 's1' },
      ]),
      { ...spend('RESERVE', NOON), ...pays, settlement: 's3', balance: 39n },
    ],
  },
  settlement: {
    unit: 40,
    by: ['runner', 'lookAt', 'mode', 'fingerprint'],
    input: { ...spend('', NOON), ...pays, ...claimed, settlementId: 's1', chain: 'base' },
    events: [
      { ...spend('CLAIM', NOON), ...pays, ...claimed },
      { ...spend('CLAIM', NOON + DAY), ...pays, ...claimed, callId: 'c2', mode: 'first' },
      { ...spend('CLAIM', NOON), ...pays, ...claimed, fingerprint: 'f2' },
      ...['DELIVER', 'RELEASE', 'EXPIRE'].map((type) => ({ type, callId: 'c1' })),
      { type: 'SUBMITTED', txHash: '0x1' },
      { type: 'UNKNOWN' },
      { type: 'RETRY' },
      { type: 'SETTLED', txHash: '0x1', at: NOON },
      { type: 'LOST', lookAt: NOON },
      { type: 'LOST', lookAt: null },
    ],
  },
  fleet: {
    input: { fleetId: 'f', ownerId: 'a' },
    unit: 500_000,
    events: [
      ...['a', 'b'].flatMap((agentId) => [
        { type: 'JOIN', agentId },
        { type: 'LEAVE', agentId },
        { type: 'DRAW', agentId, amount: microUsd(600_000) },
      ]),
      { type: 'CREDIT', amount: microUsd(400_000) },
      { type: 'TOP_UP', amount: microUsd(900_000) },
      { type: 'TOP_UP', amount: microUsd(1_000_000) },
    ],
  },
  drop: {
    input: { code: 'd', slots: 2, credit: microUsd(100), at: NOON, expiresAt: NOON + DAY },
    unit: 1,
    events: [
      ...['a', 'b', 'c'].flatMap((agentId) =>
        [NOON, NOON + DAY].map((at) => ({ type: 'REDEEM', agentId, at })),
      ),
      after('life', 'drop.open', NOON + DAY),
    ],
  },
  tally: {
    input: { agentId: 'a' },
    unit: 1,
    events: [
      { type: 'USE', name: 'x', most: 2 },
      { type: 'OWN', names: ['x'] },
      { type: 'OWN', names: ['y', 'z'] },
      { type: 'ORDER', seen: 0 },
      { type: 'ORDER', seen: 1 },
    ],
  },
  watchList: {
    input: { agentId: 'a', most: 2 },
    unit: 1,
    events: ['a', 'b', 'c'].flatMap((watchId) => [
      { type: 'BEGIN', watchId },
      { type: 'END', watchId },
    ]),
  },
  quota: {
    input: { agentId: 'a' },
    unit: 1,
    by: ['day', 'used', 'open'],
    events: ['c1', 'c2', 'c3'].flatMap((callId) => [
      ...[NOON, NOON + DAY].map((at) => ({ type: 'TAKE', callId, tool: 'x', most: 2, at })),
      { type: 'KEEP', callId },
      { type: 'GIVE_BACK', callId },
    ]),
  },
  bounty: {
    input: { ...bountyParts, at: NOON, expiresAt: NOON + DAY },
    unit: 1,
    events: [NOON, NOON + DAY].flatMap((at) => [
      ...['a', 'b', 'c', 'd'].flatMap((agentId) => [
        { type: 'CLAIM', agentId, missing: 0, quality: 50, at },
        { type: 'CANCEL', agentId, at },
      ]),
      { type: 'CLAIM', agentId: 'b', missing: 1, quality: 100, at },
      { type: 'CLAIM', agentId: 'b', missing: 0, quality: 49, at },
      { type: 'EXPIRE', at },
    ]),
  },
}

const UNKNOWN = { type: 'NO_SUCH_EVENT', at: NOON }
const kinds = Object.keys(subjects) as ActorKind[]
const reduced = (actions: readonly MachineStepAction[]) =>
  actions.map(({ type, params }) => ({ type, params }))
const seen = (snapshot: AnyMachineSnapshot, actions: readonly MachineStepAction[]) => ({
  value: snapshot.value as unknown,
  context: snapshot.context as unknown,
  status: snapshot.status,
  actions: reduced(actions),
})

/** Walks both ways at once; gives what the first differing step saw, or null. */
function difference(
  machine: AnyStateMachine,
  { input }: Subject,
  events: readonly AnyEventObject[],
) {
  const ours = createMachineStepper(machine)
  const official = initialTransition(machine, input as never)
  const first = ours.initial(input)
  let [theirs, theirActions] = official as [AnyMachineSnapshot, MachineStepAction[]]
  let [mine, myActions] = [first.snapshot, first.actions]
  for (const event of [null, ...events]) {
    if (event !== null) {
      ;[theirs, theirActions] = transition(machine, theirs, event) as [
        AnyMachineSnapshot,
        MachineStepAction[],
      ]
      ;({ snapshot: mine, actions: myActions } = ours.step(mine, event))
      for (const { type } of myActions) types.add(type)
    }
    const [left, right] = [seen(mine, myActions), seen(theirs, theirActions)]
    if (stringifyWithBigints(left) !== stringifyWithBigints(right))
      return { event, ours: left, official: right }
  }
  return null
}
const types = new Set<string>()

for (const kind of kinds) {
  const subject = subjects[kind]
  const machine = machineRegistry[kind].machine as AnyStateMachine

  t.test(`${kind}: every shortest path is stepped as the library steps it`, async (t) => {
    const from = createMachineStepper(machine).initial(subject.input).snapshot
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
    for (const walk of walks) t.equal(difference(machine, subject, walk), null)
  })

  t.test(`${kind}: random walks are stepped as the library steps them`, async (t) => {
    const events = fc.array(fc.constantFrom(...subject.events, UNKNOWN), { maxLength: 25 })
    fc.assert(
      fc.property(events, (walk) => difference(machine, subject, walk) === null),
      { seed: SEED, numRuns: 300 },
    )
    t.pass(`seed ${SEED}`)
  })
}

t.test('every action a machine can return has a meaning for a turn', async (t) => {
  const declared = kinds.flatMap((kind) =>
    actionsOf(machineRegistry[kind].machine as AnyStateMachine),
  )
  for (const type of new Set([...declared, ...types]))
    t.ok(SUPPORTED_MACHINE_ACTIONS.has(type), type)
  t.ok(
    types.has('refuse') && types.has('xstate.emit') && types.has('xstate.raise'),
    'the walks saw them',
  )
})

/** Names of custom actions as a chart refers to them: what is left unresolved comes out of a step. */
function actionsOf(machine: AnyStateMachine): string[] {
  const names = Object.keys(machine.implementations.actions)
  return names.filter((name) => {
    const made = machine.implementations.actions[name] as { type?: string } | undefined
    return !String(made?.type ?? '').startsWith('xstate.')
  })
}

t.test('a guard that throws leaves nothing behind', async (t) => {
  const machine = machineRegistry.agent.machine as AnyStateMachine
  const { initial, step } = createMachineStepper(machine)
  const { snapshot } = initial(subjects.agent.input)
  t.throws(() =>
    step(snapshot, { type: 'HOLD', amount: 'no number', callId: 'c', reserved: microUsd(1) }),
  )
  const clean = step(snapshot, { type: 'CREDIT', promo: microUsd(1), cash: microUsd(0) })
  t.match(clean.snapshot.context, { promo: 101n, held: 0n })
  t.strictSame(reduced(clean.actions), [])
})
