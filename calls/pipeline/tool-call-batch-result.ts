import type { CallReply } from '../call-request-and-reply-types.ts'

/** The result of one call in a batch. */
export interface ToolCallBatchItemResult {
  readonly tool: unknown
  readonly ok: boolean
  readonly result: unknown
  readonly cost_usdc: number
  readonly ms: number
  readonly error?: unknown
}

export const failedToolCallBatchItem = (
  tool: string,
  error: unknown,
  ms: number,
): ToolCallBatchItemResult => ({
  tool,
  ok: false,
  result: null,
  cost_usdc: 0,
  ms,
  error,
})

/** The entry of a successful call, from its own response body. */
export function succeededToolCallBatchItem(
  tool: string,
  body: Record<string, unknown>,
): ToolCallBatchItemResult {
  const { _meta: meta, ...result } = body as { _meta: { cost_usdc: number; ms: number } }
  const { cost_usdc, ms } = meta
  return { tool, ok: true, result: { ...result, _meta: meta }, cost_usdc, ms }
}

/** The response body of a batch. */
export function toolCallBatchResultBody(
  results: readonly ToolCallBatchItemResult[],
  ms: number,
): CallReply['body'] {
  const succeeded = results.filter((item) => item.ok).length
  return {
    ok: succeeded === results.length,
    results,
    // Summed in micro-USDC, which is exact.
    total_cost_usdc: results.reduce((all, item) => all + Math.round(item.cost_usdc * 1e6), 0) / 1e6,
    total_ms: ms,
    parallel: true,
    succeeded,
    failed: results.length - succeeded,
  }
}
