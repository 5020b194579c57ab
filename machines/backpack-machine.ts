import { ZERO_MICROS } from '../core/money.ts'
import { backpackMachineSetup } from './backpack/backpack-guards-and-actions.ts'
import { newSpendWindows } from './backpack/fuse-limits.ts'

/** A Backpack: an identity with its own tools, spend limits, expiry and notifications. */

/**
 * An identity with spend limits. Calls admitted before expiry are still charged. After revocation,
 * only durable holds settle.
 */
export const backpackMachine = backpackMachineSetup.createMachine({
  id: 'backpack',
  context: ({ input }) => ({
    ...input,
    ...newSpendWindows(input.createdAt),
    spentTotal: ZERO_MICROS,
    calls: 0,
    told: {},
    seenAt: input.createdAt,
  }),
  initial: 'active',
  states: {
    active: {
      initial: 'far',
      after: {
        weekBefore: [
          {
            guard: 'isFar',
            target: '.week',
            actions: { type: 'tellExpiring', params: { days: 7 } },
          },
          {},
        ],
        dayBefore: [
          {
            guard: 'isBeforeLastDay',
            target: '.day',
            actions: { type: 'tellExpiring', params: { days: 1 } },
          },
          {},
        ],
        expiry: 'expired',
      },
      on: {
        ASK: [
          { guard: { type: 'allowed', params: ({ event }) => event } },
          {
            guard: { type: 'pastExpiry', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'EXPIRED' } },
          },
          {
            guard: { type: 'toolNotListed', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'TOOL_NOT_ALLOWED' } },
          },
          {
            guard: { type: 'tripsPerCall', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_call' } },
            ],
          },
          {
            guard: { type: 'tripsPerDay', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_day' } },
            ],
          },
          {
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_month' } },
            ],
          },
        ],
        HOLD: [
          {
            guard: { type: 'allowed', params: ({ event }) => event },
            actions: { type: 'hold', params: ({ event }) => event },
          },
          {
            guard: { type: 'pastExpiry', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'EXPIRED' } },
          },
          {
            guard: { type: 'toolNotListed', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'TOOL_NOT_ALLOWED' } },
          },
          {
            guard: { type: 'tripsPerCall', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_call' } },
            ],
          },
          {
            guard: { type: 'tripsPerDay', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_day' } },
            ],
          },
          {
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_month' } },
            ],
          },
        ],
        SPEND: [
          {
            guard: { type: 'allowed', params: ({ event }) => event },
            actions: { type: 'spend', params: ({ event }) => event },
          },
          {
            guard: { type: 'pastExpiry', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'EXPIRED' } },
          },
          {
            guard: { type: 'toolNotListed', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'TOOL_NOT_ALLOWED' } },
          },
          {
            guard: { type: 'tripsPerCall', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_call' } },
            ],
          },
          {
            guard: { type: 'tripsPerDay', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_day' } },
            ],
          },
          {
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_month' } },
            ],
          },
        ],
        CHARGE: [
          {
            guard: { type: 'fuseHolds', params: ({ event }) => event },
            actions: { type: 'charge', params: ({ event }) => event },
          },
          {
            guard: { type: 'tripsPerCall', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_call' } },
            ],
          },
          {
            guard: { type: 'tripsPerDay', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_day' } },
            ],
          },
          {
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_month' } },
            ],
          },
        ],
        CAPTURE: { actions: { type: 'capture', params: ({ event }) => event } },
        RELEASE: { actions: { type: 'release', params: ({ event }) => event } },
        SET: [
          {
            guard: { type: 'pastExpiry', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'EXPIRED' } },
          },
          { actions: { type: 'change', params: ({ event }) => event } },
        ],
        REVOKE: 'revoked',
        RENEW: [
          { guard: { type: 'endsEarlier', params: ({ event }) => event } },
          {
            guard: { type: 'endsInFuture', params: ({ event }) => event },
            target: 'active',
            actions: { type: 'extend', params: ({ event }) => event },
            reenter: true,
          },
          { actions: { type: 'reject', params: { code: 'invalid_input' } } },
        ],
        '*': { actions: { type: 'reject', params: { code: 'internal' } } },
      },
      states: {
        far: {
          always: [
            { guard: 'startsInLastDay', target: 'day' },
            { guard: 'startsInLastWeek', target: 'week' },
          ],
        },
        week: {},
        day: {},
      },
    },
    expired: {
      on: {
        CHARGE: [
          {
            guard: { type: 'fuseHolds', params: ({ event }) => event },
            actions: { type: 'charge', params: ({ event }) => event },
          },
          {
            guard: { type: 'tripsPerCall', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_call' } },
            ],
          },
          {
            guard: { type: 'tripsPerDay', params: ({ event }) => event },
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_day' } },
            ],
          },
          {
            actions: [
              { type: 'tellTrippedOnce', params: ({ event }) => event },
              { type: 'reject', params: { code: 'FUSE_TRIPPED', limit: 'per_month' } },
            ],
          },
        ],
        CAPTURE: { actions: { type: 'capture', params: ({ event }) => event } },
        RELEASE: { actions: { type: 'release', params: ({ event }) => event } },
        RENEW: [
          {
            guard: { type: 'endsInFuture', params: ({ event }) => event },
            target: 'active',
            actions: { type: 'extend', params: ({ event }) => event },
          },
          { actions: { type: 'reject', params: { code: 'invalid_input' } } },
        ],
        REVOKE: 'revoked',
        '*': { actions: { type: 'reject', params: { code: 'EXPIRED' } } },
      },
    },
    revoked: {
      tags: 'ended',
      on: {
        CAPTURE: { actions: { type: 'capture', params: ({ event }) => event } },
        RELEASE: { actions: { type: 'release', params: ({ event }) => event } },
        REVOKE: {},
        '*': { actions: { type: 'reject', params: { code: 'REVOKED' } } },
      },
    },
  },
})
