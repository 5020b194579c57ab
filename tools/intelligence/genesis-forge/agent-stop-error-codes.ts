/** Codes after which the program stops: limits set by its owner, which it must not work around. */
export const AGENT_STOP_ERROR_CODES = [
  'FUSE_TRIPPED',
  'TOOL_NOT_ALLOWED',
  'REVOKED',
  'EXPIRED',
  'key_cap_exceeded',
  'payment_required',
  'task_budget_exceeded',
  'unauthenticated',
] as const
