import { hmac, sameSecret } from '../core/crypto.ts'
import { formatUsdc, toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { CallRow } from '../core/rows.ts'
import type { Ghost } from './calls.ts'
import type { Outcome } from './run.ts'

/** What a receipt vouches for. */
export type Receipted = Pick<CallRow, 'callId' | 'agentId' | 'tool' | 'rail' | 'cost' | 'at'>

/**
 * Proof that this service settled a call at this price: `gr1.` and HMAC-SHA256 over its id, agent,
 * tool, rail, price and instant. `gas receipt` checks one against the ledger.
 */
function receiptOf(key: Buffer, row: Receipted): string {
  const { callId, agentId, tool, rail, cost, at } = row
  const text = ['gr1', callId, agentId ?? '-', tool ?? '-', rail, formatUsdc(cost), at].join('|')
  return `gr1.${hmac(key, text).toString('base64url')}`
}

export const isReceiptOf = (key: Buffer, row: Receipted, receipt: string): boolean =>
  sameSecret(receiptOf(key, row), receipt)

const NOTES: Record<Ghost, string> = {
  off: 'This call counts in the public statistics.',
  stealth: 'Private: no public statistics, no Hive echo.',
  observe: 'Private: no public statistics, no Hive echo; the public Hive is read.',
}

/** The body of an answered call: the tool's fields, then the names no tool may use. */
export function replyBody(
  { output, traces, notes }: Outcome,
  row: CallRow,
  ghost: Ghost,
  balance: Micros | null,
  receiptKey: Buffer,
  settlementUrl: string | null,
): Record<string, unknown> {
  return {
    ...output,
    // An echo is the share of a call in what the Hive shows as trending.
    echo_recycled: row.cost > ZERO && ghost === 'off',
    ghost_protocol: {
      active: ghost !== 'off',
      mode: ghost === 'off' ? null : ghost,
      note: NOTES[ghost],
    },
    ...(notes.length === 0 ? {} : { hive: { entries: notes } }),
    _meta: {
      call_id: row.callId,
      cost_usdc: toUsdc(row.cost),
      balance_usdc: balance === null ? null : toUsdc(balance),
      rail: row.rail,
      provider: traces.provider,
      mode: traces.mode,
      cached: traces.mode === 'cache',
      ms: row.ms,
      ...(traces.waived === null ? {} : { waived: traces.waived }),
      ...(settlementUrl === null ? {} : { settlement_url: settlementUrl }),
      receipt: receiptOf(receiptKey, row),
    },
  }
}
