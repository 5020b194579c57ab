import { COOKBOOK_ERROR_DEFINITIONS } from './cookbook-error-definitions.ts'
import { IDEMPOTENCY_ERROR_DEFINITIONS } from './idempotency-error-definitions.ts'
import { KEY_ERROR_DEFINITIONS } from './key-errors.ts'
import { MEMORY_MARKETPLACE_ERROR_DEFINITIONS } from './memory-marketplace-error-definitions.ts'
import { REQUEST_ERROR_DEFINITIONS } from './request-error-definitions.ts'
import { CALL_AND_RECEIPT_ERROR_DEFINITIONS } from './receipt-and-journal-error-definitions.ts'

/** All public errors of the service. */

export interface ErrorRemedy {
  readonly action: string
  readonly method?: string
  readonly url?: string
  /** The body of that request: its fields, each with the detail of the error that it is filled from. */
  readonly body?: Readonly<Record<string, string>>
}

export interface ErrorDefinition {
  readonly status: number
  readonly title: string
  readonly remedy?: ErrorRemedy
}

/** Nothing was charged. The failed call stays stored under its Idempotency-Key. */
const RETRY_NEW_KEY: ErrorRemedy = { action: 'repeat_with_another_idempotency_key' }
const WAIT_AND_RETRY: ErrorRemedy = { action: 'wait' }

/**
 * Every public error: code -> status, title, remedy. Only this table sets statuses.
 * `/problems/{code}` and the error table of the documentation are generated from it.
 */
export const ERROR_DEFINITIONS = {
  ...REQUEST_ERROR_DEFINITIONS,
  rate_limited: { status: 429, title: 'Too many requests.', remedy: WAIT_AND_RETRY },
  ...KEY_ERROR_DEFINITIONS,
  ...CALL_AND_RECEIPT_ERROR_DEFINITIONS,
  // money
  payment_required: {
    status: 402,
    title: 'Payment Required',
    remedy: { action: 'fund', method: 'GET', url: '/fund/{agent_id}' },
  },
  cash_required: {
    status: 402,
    title: 'Only deposited credits pay for this; promotional credits do not.',
    remedy: { action: 'fund', method: 'GET', url: '/fund/{agent_id}' },
  },
  task_budget_exceeded: {
    status: 402,
    title: 'The call would exceed the budget of this task.',
    remedy: { action: 'raise_budget', method: 'PATCH', url: '/api/task/{task_id}/budget' },
  },
  // on-chain payments
  payment_invalid: { status: 402, title: 'The payment that was sent cannot be accepted.' },
  payment_malformed: { status: 400, title: 'The payment header cannot be read.' },
  permit2_allowance_required: {
    status: 412,
    title: 'The payer has to approve Permit2 for this token first.',
  },
  payment_in_progress: { status: 409, title: 'This payment is being used right now.' },
  payment_already_used: { status: 409, title: 'This payment was used for another request.' },
  payment_credited: {
    status: 409,
    title: 'The call failed after this payment had settled: it was credited to the agent.',
  },
  settlement_unknown: {
    status: 503,
    title: 'The outcome of this payment is not known yet. Do not pay again.',
    remedy: {
      action: 'ask_settlement',
      method: 'GET',
      url: '/api/x402/settlements/{settlement_id}',
    },
  },
  settlement_not_found: { status: 404, title: 'There is no such settlement.' },
  wallet_export_pending: {
    status: 503,
    title:
      'Credited deposits are being moved out of the wallet. Its key is available once that is final.',
    remedy: WAIT_AND_RETRY,
  },
  rail_unavailable: { status: 503, title: 'This way to pay does not answer right now.' },
  rail_disabled: { status: 503, title: 'This station is not configured for payments on a chain.' },
  wallet_not_found: { status: 404, title: 'There is no such wallet.' },
  confirmation_required: { status: 422, title: 'This needs `confirm: true` in the body.' },
  // fleets, referrals, bounties, drops
  fleet_not_found: { status: 404, title: 'There is no such fleet.' },
  fleet_unavailable: {
    status: 503,
    title: 'The storage schema of fleets is missing.',
    remedy: { action: 'migrate' },
  },
  already_in_fleet: { status: 409, title: 'This agent belongs to a fleet already.' },
  not_in_fleet: { status: 409, title: 'This agent is no member of that fleet.' },
  fleet_not_yours: { status: 403, title: 'Only its owner may remove agents from a fleet.' },
  transfer_not_found: { status: 422, title: 'No creditable transfer of USDC was found.' },
  transfer_claimed: { status: 409, title: 'This transfer has been credited already.' },
  bounty_not_found: { status: 404, title: 'There is no such bounty.' },
  bounty_ended: { status: 409, title: 'This bounty has expired or was cancelled.' },
  already_claimed: { status: 409, title: 'This bounty has been claimed already.' },
  own_bounty: { status: 403, title: 'An agent cannot claim a bounty of its own.' },
  bounty_not_yours: { status: 403, title: 'Only its poster may cancel a bounty.' },
  bounty_mismatch: { status: 422, title: 'The content does not match what this bounty asks for.' },
  drop_not_found: { status: 404, title: 'There is no such drop.' },
  drop_ended: { status: 409, title: 'This drop has expired or has no slots left.' },
  drop_redeemed: { status: 409, title: 'This agent has redeemed the drop already.' },
  promo_not_transferable: {
    status: 403,
    title: 'Only deposited credits can be transferred; promotional credits buy tools.',
  },
  self_transfer: { status: 422, title: 'An agent cannot pay itself.' },
  // the Hive, strategies
  entry_not_yours: { status: 403, title: 'Only a public entry of your own can be featured.' },
  feature_taken: { status: 409, title: 'The featured place of the Hive is taken.' },
  watch_not_found: { status: 404, title: 'There is no such watch.' },
  // the vault, packs
  memory_not_found: { status: 404, title: 'There is no such memory.' },
  not_enough_memories: { status: 422, title: 'The vault holds too few memories for this.' },
  vault_changed: {
    status: 409,
    title: 'Another call has reorganized these memories.',
    remedy: { action: 'repeat' },
  },
  allowance_used: { status: 409, title: 'The free calls of this tool are used up.' },
  pack_content: { status: 403, title: 'Bought content is for its buyer only.' },
  ...MEMORY_MARKETPLACE_ERROR_DEFINITIONS,
  hive_copy: { status: 409, title: 'Another author has published nearly the same text.' },
  hive_write_pending: {
    status: 409,
    title: 'The same text, or a near copy of it, is being written right now.',
    remedy: WAIT_AND_RETRY,
  },
  already_promoted: { status: 409, title: 'This memory has been published in the Hive already.' },
  pack_not_found: { status: 404, title: 'There is no such pack.' },
  already_owned: { status: 409, title: 'This agent has it already.' },
  strategy_not_found: { status: 404, title: 'There is no such strategy.' },
  ...COOKBOOK_ERROR_DEFINITIONS,
  own_strategy: { status: 409, title: 'An agent cannot fork a strategy of its own.' },
  proof_invalid: { status: 422, title: 'The transaction is no proof of this strategy.' },
  // the registry of pay-per-call APIs
  api_not_found: { status: 404, title: 'There is no such API in the registry.' },
  api_listed: {
    status: 409,
    title: 'Another agent has listed this address. Prove that the origin is yours to take it over.',
  },
  not_payable: { status: 422, title: 'This address does not ask for a payment in a known form.' },
  origin_unproven: {
    status: 422,
    title: 'The origin does not show the token of this agent.',
    remedy: { action: 'publish_token' },
  },
  // tasks
  no_active_task: {
    status: 404,
    title: 'There is no active task.',
    remedy: { action: 'start_task', method: 'POST', url: '/api/task/start' },
  },
  task_not_found: { status: 404, title: 'There is no such task.' },
  task_not_active: { status: 409, title: 'This task has ended.' },
  budget_below_spent: {
    status: 409,
    title: 'The new budget is below what the task has spent and holds.',
  },
  // schedules
  schedule_not_found: { status: 404, title: 'There is no such schedule.' },
  schedule_cancelled: { status: 409, title: 'This schedule has been cancelled.' },
  schedule_budget_exceeded: {
    status: 402,
    title: 'A run would cost more than the budget of this schedule.',
    remedy: { action: 'raise_budget', method: 'PATCH', url: '/api/task/schedule/{schedule_id}' },
  },
  // Backpacks: the interface uses upper-case codes
  NOT_FOUND: { status: 404, title: 'Backpack not found.' },
  REVOKED: { status: 403, title: 'This Backpack has been revoked.' },
  EXPIRED: {
    status: 403,
    title: 'This Backpack has expired.',
    remedy: { action: 'renew', method: 'POST', url: '/api/backpack/{backpack_id}/renew' },
  },
  TOOL_NOT_ALLOWED: { status: 403, title: 'This tool is not in the Backpack.' },
  FUSE_TRIPPED: {
    status: 403,
    title: 'The call would exceed a spend limit of this Backpack.',
    remedy: { action: 'raise_fuse', method: 'PATCH', url: '/api/backpack/{backpack_id}' },
  },
  limit_not_named: {
    status: 409,
    title: 'A limit that is set is removed only by naming it in `remove`.',
    remedy: {
      action: 'name_the_limit',
      method: 'PATCH',
      url: '/api/backpack/{backpack_id}',
      body: { remove: 'limits' },
    },
  },
  entry_not_found: { status: 404, title: 'There is no such entry.' },
  limit_reached: { status: 409, title: 'The agent has reached the maximum number of these.' },
  // signals, messages and streams
  channel_private: { status: 403, title: 'Only its owner may read this channel.' },
  message_not_found: { status: 404, title: 'There is no such message.' },
  upgrade_required: {
    status: 426,
    title: 'This address accepts WebSockets only, subprotocol gas.v1.',
  },
  // webhooks and owners
  webhook_not_found: { status: 404, title: 'There is no such webhook.' },
  webhook_exists: {
    status: 409,
    title: 'This address gets these events already.',
    remedy: { action: 'use_webhook', method: 'GET', url: '/api/webhook' },
  },
  webhook_disabled: {
    status: 409,
    title: 'This webhook has been disabled.',
    remedy: { action: 'enable', method: 'POST', url: '/api/webhook/{webhook_id}/enable' },
  },
  delivery_not_found: { status: 404, title: 'There is no such delivery.' },
  no_owner_contact: {
    status: 409,
    title: 'The owner has set no chat.',
    remedy: { action: 'set_contact', method: 'POST', url: '/api/agent/set-contact' },
  },
  owner_unreachable: { status: 422, title: 'The chat of the owner does not accept messages.' },
  mail_unavailable: { status: 503, title: 'This station is not configured to send e-mail.' },
  chat_unavailable: { status: 503, title: 'This station is not configured to write to chats.' },
  // tools and calls
  unknown_tool: {
    status: 404,
    title: 'There is no such tool.',
    remedy: { action: 'list_tools', method: 'GET', url: '/api/tools' },
  },
  slug_taken: {
    status: 409,
    title: 'Another tool has this name, or one that looks the same.',
  },
  tool_unavailable: {
    status: 503,
    title: 'The builder of this tool does not answer its calls at the moment.',
    remedy: WAIT_AND_RETRY,
  },
  import_refused: { status: 422, title: 'This document or server cannot be imported.' },
  builder_refused: { status: 422, title: 'The builder of this tool refuses this input.' },
  tool_not_yours: { status: 403, title: 'Only its builder may change this tool.' },
  tool_not_active: {
    status: 409,
    title: 'This tool cannot be called: it is not proven yet, or suspended.',
  },
  tool_retired: { status: 410, title: 'The builder of this tool has retired it.' },
  tool_already_verified: { status: 409, title: 'This tool has the mark already.' },
  free_tier_exhausted: { status: 429, title: 'The free calls of today are used up.' },
  quota_exceeded: { status: 429, title: 'The calls of today to this tool are used up.' },
  daily_bytes_exceeded: {
    status: 429,
    title: 'The agent has used up its daily storage volume.',
    remedy: WAIT_AND_RETRY,
  },
  blocked_url: { status: 422, title: 'This address may not be fetched.' },
  call_settled: { status: 409, title: 'This call has already been settled.' },
  upstream_error: { status: 502, title: 'The upstream provider failed.', remedy: RETRY_NEW_KEY },
  upstream_schema: { status: 502, title: 'The upstream provider answered in an unknown form.' },
  response_too_large: { status: 502, title: 'The answer is larger than this tool accepts.' },
  tool_output_invalid: { status: 502, title: 'The tool produced an invalid result.' },
  upstream_timeout: {
    status: 504,
    title: 'The upstream provider did not answer in time.',
    remedy: RETRY_NEW_KEY,
  },
  tool_timeout: { status: 504, title: 'The tool did not finish in time.', remedy: RETRY_NEW_KEY },
  upstream_rate_limited: {
    status: 503,
    title: 'The upstream provider limits us.',
    remedy: WAIT_AND_RETRY,
  },
  sandbox_busy: {
    status: 503,
    title: 'No sandbox is free for this program right now.',
    remedy: WAIT_AND_RETRY,
  },
  sandbox_unavailable: {
    status: 503,
    title: 'The sandbox cannot start on this station.',
    remedy: WAIT_AND_RETRY,
  },
  browser_busy: {
    status: 503,
    title: 'No browser is free for this page right now.',
    remedy: WAIT_AND_RETRY,
  },
  instruction_not_understood: {
    status: 422,
    title: 'A part of this instruction is not understood.',
  },
  step_failed: { status: 422, title: 'A step failed before anything was submitted.' },
  price_unavailable: { status: 503, title: 'No price source answered.', remedy: WAIT_AND_RETRY },
  provider_not_configured: {
    status: 503,
    title: 'This needs a provider that this station has not configured.',
  },
  no_evidence: { status: 422, title: 'The sources contain too little for an answer.' },
  provider_budget_exhausted: {
    status: 503,
    title: 'The daily model budget of this station is used up.',
  },
  model_share_exhausted: {
    status: 429,
    title: 'This caller has used up its share of the daily model budget.',
  },
  batch_not_bought: {
    status: 424,
    title: 'Another call of this batch failed: a payment buys it whole or not at all.',
  },
  outcome_unknown: {
    status: 503,
    title: 'Whether this call took effect is not known. It was not charged and is not repeated.',
  },
  recipient_suppressed: { status: 422, title: 'This address gets no e-mail from this station.' },
  transaction_rejected: { status: 422, title: 'The chain does not accept this transaction.' },
  cancelled: { status: 499, title: 'The caller went away.' },
  // idempotency
  ...IDEMPOTENCY_ERROR_DEFINITIONS,
  // the service
  unavailable: { status: 503, title: 'The service cannot answer right now.' },
  overloaded: { status: 503, title: 'Too many commands are waiting for this agent.' },
  snapshot_too_new: { status: 503, title: 'This agent is served by a newer version.' },
  quarantined: { status: 503, title: 'The stored state of this agent needs an operator.' },
  internal: { status: 500, title: 'Internal error.' },
} as const satisfies Record<string, ErrorDefinition>

export type ErrorCode = keyof typeof ERROR_DEFINITIONS

/** Additional members of a problem document: JSON values, amounts as USDC numbers. */
export type ErrorDetails = Record<string, unknown> & {
  /** Seconds; also sent as the Retry-After header. */
  retry_after?: number
  detail?: string
}

/**
 * An expected failure with a public code. Any other error is a bug and becomes a 500. Below 500 it has no stack: it
 * says what the request did, and reading the stack is a sixth of what a refused call costs.
 */
export class ServiceError extends Error {
  readonly code: ErrorCode
  readonly details: ErrorDetails
  constructor(code: ErrorCode, details: ErrorDetails = {}, cause?: unknown) {
    const { stackTraceLimit } = Error
    if (httpStatusOf(code) < 500) Error.stackTraceLimit = 0
    try {
      super(
        details.detail ?? ERROR_DEFINITIONS[code].title,
        cause === undefined ? undefined : { cause },
      )
    } finally {
      Error.stackTraceLimit = stackTraceLimit
    }
    this.name = 'ServiceError'
    this.code = code
    this.details = details
  }
}

export const httpStatusOf = (code: ErrorCode): number => ERROR_DEFINITIONS[code].status

/** Errors below 500 that count as failures of the tool: it ran and could not finish. */
const TOOL_FAULT_CODES: ReadonlySet<ErrorCode> = new Set(['no_evidence', 'step_failed'])

/**
 * Errors that the caller caused: invalid fields, unknown ids, budgets, limits, disconnects. Success
 * rates ignore them.
 */
export const CALLER_ERROR_CODES: readonly ErrorCode[] = (
  Object.keys(ERROR_DEFINITIONS) as ErrorCode[]
).filter((code) => httpStatusOf(code) < 500 && !TOOL_FAULT_CODES.has(code))

/** One invalid field of a request body, query, path or header. */
export const invalidInputError = (pointer: string, detail: string): ServiceError =>
  new ServiceError('invalid_input', {
    detail: `${pointer} ${detail}`.trim(),
    errors: [{ pointer, detail }],
  })
