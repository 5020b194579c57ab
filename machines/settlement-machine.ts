import { settlementMachineSetup } from './settlement/settlement-guards-and-actions.ts'

/**
 * One payment: the state of the money and of the call it pays for. Nothing is sent to a chain
 * before it is due. A payment is lost only when it can no longer settle. `settled` follows the
 * chain, which may undo it.
 */
export const settlementMachine = settlementMachineSetup.createMachine({
  id: 'settlement',
  type: 'parallel',
  context: ({ input: { at, expiresAt, ...claim } }) => ({
    ...claim,
    runner: { callId: claim.callId, until: expiresAt },
    claims: 1,
    txHash: null,
    attempts: 0,
    lookAt: null,
    claimedAt: at,
    settledAt: null,
    undone: 0,
    credited: false,
  }),
  on: {
    // Late timers, and events that another node has reported already.
    EXPIRE: {},
    SUBMITTED: {},
    UNKNOWN: {},
    RETRY: {},
    SETTLED: {},
    LOST: {},
    UNDONE: {},
    '*': { actions: { type: 'reject', params: { code: 'internal' } } },
  },
  states: {
    money: {
      initial: 'claimed',
      states: {
        claimed: {
          always: { guard: 'settlesFirst', target: 'due' },
          on: {
            CLAIM: [
              {
                guard: { type: 'isOther', params: ({ event }) => event },
                actions: { type: 'reject', params: { code: 'payment_already_used' } },
              },
              { actions: { type: 'reject', params: { code: 'payment_in_progress' } } },
            ],
            DELIVER: {
              guard: { type: 'isRunner', params: ({ event }) => event },
              target: 'due',
            },
            RELEASE: {
              guard: { type: 'isRunner', params: ({ event }) => event },
              target: 'released',
            },
            EXPIRE: {
              guard: { type: 'isRunner', params: ({ event }) => event },
              target: 'released',
            },
          },
        },
        due: {
          on: {
            CLAIM: [
              {
                guard: { type: 'isOther', params: ({ event }) => event },
                actions: { type: 'reject', params: { code: 'payment_already_used' } },
              },
              { guard: 'isDelivered' },
              { actions: { type: 'reject', params: { code: 'settlement_unknown' } } },
            ],
            SUBMITTED: {
              target: 'submitted',
              actions: { type: 'noteSubmitted', params: ({ event }) => event },
            },
            UNKNOWN: 'unknown',
            SETTLED: {
              target: 'settled',
              actions: { type: 'noteSettled', params: ({ event }) => event },
            },
          },
        },
        submitted: {
          on: {
            CLAIM: [
              {
                guard: { type: 'isOther', params: ({ event }) => event },
                actions: { type: 'reject', params: { code: 'payment_already_used' } },
              },
              { guard: 'isDelivered' },
              { actions: { type: 'reject', params: { code: 'settlement_unknown' } } },
            ],
            UNKNOWN: 'unknown',
            SETTLED: {
              target: 'settled',
              actions: { type: 'noteSettled', params: ({ event }) => event },
            },
          },
        },
        unknown: {
          on: {
            CLAIM: [
              {
                guard: { type: 'isOther', params: ({ event }) => event },
                actions: { type: 'reject', params: { code: 'payment_already_used' } },
              },
              { guard: 'isDelivered' },
              { actions: { type: 'reject', params: { code: 'settlement_unknown' } } },
            ],
            SUBMITTED: {
              target: 'submitted',
              actions: { type: 'noteSubmitted', params: ({ event }) => event },
            },
            RETRY: {
              target: 'due',
              actions: { type: 'countFailure', params: ({ event }) => event },
            },
            SETTLED: {
              target: 'settled',
              actions: { type: 'noteSettled', params: ({ event }) => event },
            },
            LOST: { target: 'lost', actions: { type: 'noteLost', params: ({ event }) => event } },
          },
        },
        settled: {
          tags: 'ended',
          on: {
            CLAIM: [
              {
                guard: { type: 'isOther', params: ({ event }) => event },
                actions: { type: 'reject', params: { code: 'payment_already_used' } },
              },
              { guard: 'isDelivered' },
              {
                guard: 'hasFailed',
                actions: { type: 'reject', params: { code: 'payment_credited' } },
              },
              {
                guard: { type: 'isFree', params: ({ event }) => event },
                actions: { type: 'runAgain', params: ({ event }) => event },
              },
              { actions: { type: 'reject', params: { code: 'payment_in_progress' } } },
            ],
            // The signature is still valid: look up its nonce and settle again.
            UNDONE: [
              { guard: 'hasCredited', target: 'unknown', actions: ['noteUndone', 'keepCredits'] },
              { target: 'unknown', actions: 'noteUndone' },
            ],
          },
        },
        released: {
          tags: 'ended',
          on: {
            CLAIM: [
              {
                guard: { type: 'isFree', params: ({ event }) => event },
                target: 'claimed',
                actions: { type: 'claimAgain', params: ({ event }) => event },
              },
              { actions: { type: 'reject', params: { code: 'payment_in_progress' } } },
            ],
            // The agent's own commit delivered after the payment was released.
            DELIVER: {
              guard: { type: 'isRunner', params: ({ event }) => event },
              target: 'lost',
            },
          },
        },
        lost: {
          tags: 'ended',
          on: {
            CLAIM: [
              {
                guard: 'isUndelivered',
                actions: { type: 'reject', params: { code: 'payment_invalid', reason: 'lost' } },
              },
              {
                guard: { type: 'isOther', params: ({ event }) => event },
                actions: { type: 'reject', params: { code: 'payment_already_used' } },
              },
              {},
            ],
            SETTLED: {
              target: 'settled',
              actions: { type: 'noteSettled', params: ({ event }) => event },
            },
            LOST: {
              actions: { type: 'noteLost', params: ({ event }) => event },
            },
          },
        },
      },
    },
    delivery: {
      initial: 'waiting',
      states: {
        waiting: {
          on: {
            DELIVER: [
              {
                guard: { type: 'withholdsAnswer', params: ({ event }) => event },
                target: 'withheld',
                actions: 'freeRunner',
              },
              {
                guard: { type: 'isRunner', params: ({ event }) => event },
                target: 'delivered',
                actions: 'freeRunner',
              },
              { actions: { type: 'reject', params: { code: 'call_settled' } } },
            ],
            RELEASE: [
              {
                guard: { type: 'isNotRunner', params: ({ event }) => event },
                actions: { type: 'reject', params: { code: 'call_settled' } },
              },
              { guard: 'isUnspent', actions: 'freeRunner' },
              { guard: 'hasAgent', target: 'failed', actions: 'freeRunner' },
              { actions: 'freeRunner' },
            ],
            // For an agent, the hold ends the call.
            EXPIRE: [
              { guard: 'hasAgent' },
              {
                guard: { type: 'isNotRunner', params: ({ event }) => event },
              },
              { guard: 'isUnspent', actions: 'freeRunner' },
              {},
            ],
            SETTLED: { guard: 'isTopUp', target: 'delivered', actions: 'freeRunner' },
          },
        },
        // The answer exists and is not released before the money has arrived; if it never does, never.
        withheld: {
          on: {
            DELIVER: { actions: { type: 'reject', params: { code: 'call_settled' } } },
            RELEASE: { actions: { type: 'reject', params: { code: 'call_settled' } } },
            SETTLED: 'delivered',
          },
        },
        delivered: {
          on: {
            DELIVER: { actions: { type: 'reject', params: { code: 'call_settled' } } },
            RELEASE: { actions: { type: 'reject', params: { code: 'call_settled' } } },
          },
        },
        failed: {
          on: {
            DELIVER: { actions: { type: 'reject', params: { code: 'call_settled' } } },
            RELEASE: { actions: { type: 'reject', params: { code: 'call_settled' } } },
          },
        },
      },
    },
  },
})
