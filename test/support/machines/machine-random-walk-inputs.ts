import type { AnyEventObject } from 'xstate'
import type { ActorKind } from '../../../actors/machine-registry.ts'
import { DAY } from '../../../core/clock.ts'
import { microUsd } from './state-machine-stepper.ts'

/** The input and the events of each machine for generated walks. */

const NOON = Date.UTC(2026, 10, 21, 12)

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
export interface StateSpaceWalkSubject {
  readonly input: unknown
  readonly events: readonly AnyEventObject[]
  /** Step between amounts, up to three times it: few amounts keep the contexts few. */
  readonly unit: number
  /** The part of a context that distinguishes it; all of it by default. */
  readonly by?: readonly string[]
}
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
export const STATE_SPACE_WALK_SUBJECTS: Record<ActorKind, StateSpaceWalkSubject> = {
  agent: {
    input: { agentId: 'a', promo: microUsd(100), cash: microUsd(300_000) },
    unit: 100_000,
    events: [
      spend('ASK', NOON),
      spend('HOLD', NOON),
      spend('SPEND', NOON),
      { ...spend('SPEND', NOON), amount: microUsd(250_000), keyCap: null },
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
      { type: 'FREEZE', at: NOON - 1 },
      { type: 'FREEZE', at: NOON },
      { type: 'UNFREEZE' },
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
        ['ASK', 'HOLD', 'SPEND', 'CHARGE', 'CAPTURE', 'RELEASE'].map((type) => spend(type, at)),
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
      ...['ASK', 'HOLD', 'SPEND', 'CHARGE', 'CAPTURE', 'RELEASE'].map((type) => spend(type, NOON)),
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
      { ...spend('RESERVE', NOON), ...pays, settlement: 's2', mode: 'withheld' },
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
      { ...spend('CLAIM', NOON), ...pays, ...claimed, mode: 'withheld' },
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
  taskPasses: {
    input: { agentId: 'a' },
    unit: 10_000,
    events: ['p', 'q'].flatMap((passId) => [
      {
        ...{ type: 'BUY', passId, pass: 'hour', price: microUsd(25_000), calls: 2, at: NOON },
        ...{ promo: microUsd(10_000), cash: microUsd(40_000), expiresAt: NOON + DAY },
      },
      { type: 'HOLD', passId },
      { type: 'CAPTURE', passId },
      { type: 'RELEASE', passId },
      { type: 'USE', passId },
      { type: 'GIVE_BACK', passId, at: NOON },
      { type: 'GIVE_BACK', passId, at: NOON + DAY },
      { type: 'EXPIRE', passId, at: NOON + DAY },
    ]),
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
  tool: {
    input: {
      toolId: 't',
      slug: 'weather',
      builderId: 'a',
      price: microUsd(10),
      acceptsPromo: false,
      at: NOON,
    },
    unit: 10,
    by: ['review', 'nextPrice'],
    events: [NOON, NOON + DAY].flatMap((at) => [
      { type: 'PROVE', at },
      ...['a', 'b'].flatMap((builderId) => [
        ...[5, 10, 20, null].map((price) => ({
          type: 'CHANGE',
          builderId,
          price: price === null ? null : microUsd(price),
          noticeMs: DAY,
          acceptsPromo: price === null ? true : null,
          revised: price === 20,
          at,
        })),
        { type: 'SUBMIT', builderId, at },
        { type: 'ROTATE_SECRET', builderId, at },
        { type: 'RETIRE', builderId, at },
      ]),
      ...[
        [10, 9, 3],
        [10, 8, 3],
        [50, 24, 3],
        [50, 25, 3],
      ].map(([calls, successes, payers]) => ({
        type: 'MEASURE',
        since: at,
        calls,
        successes,
        payers,
        failingPayers: payers,
        at,
      })),
      { type: 'REVIEW', accepted: true, reason: null, at },
      { type: 'REVIEW', accepted: false, reason: 'no', at },
    ]),
  },
  listing: {
    input: {
      listingId: 'l',
      sellerId: 'a',
      name: 'x',
      price: microUsd(100),
      entries: 2,
      acceptsPromo: false,
      at: NOON,
    },
    unit: 82,
    by: ['withdrawnAt', 'cash'],
    events: [
      { type: 'SOLD', promo: microUsd(0), cash: microUsd(82) },
      { type: 'RATED', stars: 4 },
      ...['a', 'b'].map((agentId) => ({ type: 'WITHDRAW', agentId, at: NOON })),
      { type: 'WITHDRAW', agentId: 'a', at: NOON + DAY },
    ],
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
