/** Codes after which a program ends its work: these limits are its owner's, and not to be worked around. */
export const TERMINAL_ERROR_CODES = [
  'FUSE_TRIPPED',
  'TOOL_NOT_ALLOWED',
  'REVOKED',
  'EXPIRED',
  'key_cap_exceeded',
  'payment_required',
  'task_budget_exceeded',
  'unauthenticated',
] as const
