import { toUsdc, ZERO_MICROS, type Micros } from '../core/money.ts'
import type { CallRow } from '../core/aggregate-commit-row-types.ts'
import { toTaskPassJson, type TaskPassView } from '../domain/prepaid-task-passes.ts'
import type { GhostModeHeaderValue } from './call-request-and-reply-types.ts'
import { signCallReceipt } from './call-receipts.ts'
import type { ToolRunResult } from './run-tool.ts'

/** The response body of a successful call. */

const GHOST_NOTES: Record<GhostModeHeaderValue, string> = {
  off: 'This call counts in the public statistics.',
  stealth: 'Private: no public statistics, no Hive echo.',
  observe: 'Private: no public statistics, no Hive echo; the public Hive is read.',
}

/** The signing key of a receipt and the owner of the call's log. */
export interface ReceiptSigningKeyAndOwner {
  readonly key: Buffer
  /** An agent, a visitor or a payer account. */
  readonly owner: string
}

/** What paid the call besides credits. */
interface CallPaymentDetails {
  readonly settlementUrl: string | null
  readonly pass: TaskPassView | null
}

/** Builds the response body: the tool's output, then reserved fields. */
export function toCallReplyBody(
  { output, traces, notes }: ToolRunResult,
  row: CallRow,
  ghost: GhostModeHeaderValue,
  balance: Micros | null,
  { key, owner }: ReceiptSigningKeyAndOwner,
  { settlementUrl, pass }: CallPaymentDetails,
): Record<string, unknown> {
  return {
    ...output,
    // True when the call counts in public trending.
    echo_recycled: row.cost > ZERO_MICROS && ghost === 'off',
    ghost_protocol: {
      active: ghost !== 'off',
      mode: ghost === 'off' ? null : ghost,
      note: GHOST_NOTES[ghost],
    },
    ...(notes.length === 0 ? {} : { hive: { entries: notes } }),
    _meta: {
      call_id: row.callId,
      cost_usdc: toUsdc(row.cost),
      balance_usdc: balance === null ? null : toUsdc(balance),
      rail: row.rail,
      provider: traces.provider,
      mode: traces.mode,
      ...(traces.mode === 'cache' && { cached: true }),
      ms: row.ms,
      ...(traces.waived === null ? {} : { waived: traces.waived }),
      ...(pass === null ? {} : { pass: toTaskPassJson(pass) }),
      ...(settlementUrl === null ? {} : { settlement_url: settlementUrl }),
      receipt: signCallReceipt(key, row, owner),
    },
  }
}
