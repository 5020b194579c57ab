/** Errors of keys and of the agents that they belong to: a part of the table in `errors.ts`. */

const ASK_OWNER = { action: 'ask_owner' } as const

export const KEY_ERROR_DEFINITIONS = {
  unauthenticated: {
    status: 401,
    title: 'A valid API key is required.',
    remedy: { action: 'onboard', method: 'POST', url: '/api/onboard' },
  },
  insufficient_scope: { status: 403, title: 'This key may not do that.' },
  key_bound: {
    status: 403,
    title: 'This key acts in one Backpack and may not do that.',
    remedy: ASK_OWNER,
  },
  key_cap_exceeded: { status: 403, title: 'The call would exceed the spending cap of this key.' },
  key_revoked: { status: 403, title: 'The key this runs under has been revoked.' },
  key_expired: { status: 403, title: 'The key this runs under has expired.' },
  key_not_found: { status: 404, title: 'There is no such key.' },
  agent_frozen: { status: 403, title: 'This agent is frozen by its owner.', remedy: ASK_OWNER },
  last_key: {
    status: 409,
    title:
      'This is the last lasting key of its agent that may do everything, or manage its keys. Make another such key first: with scope `*`, without an expiry, a cap or a Backpack.',
    remedy: { action: 'make_another_key', method: 'POST', url: '/api/keys' },
  },
  agent_not_found: { status: 404, title: 'There is no such agent.' },
} as const
