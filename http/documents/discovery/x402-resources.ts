import type { Tool } from '../../../tools/define-tool.ts'
import {
  pricesForExternalPayers,
  type PaymentOfferSource,
} from '../../openapi/openapi-payment-info.ts'

/**
 * `/.well-known/x402`: the resources that a client can pay for. Crawlers read two forms, `resources`
 * (version 1) and `items` with their terms (x402 version 2); the document has both.
 */

export interface X402ResourcesDocumentInput {
  readonly publicUrl: string
  readonly tools: readonly Tool[]
  readonly paying: PaymentOfferSource
}

/** Lists every tool that takes a payment without a key. Empty while no rail is configured. */
export function describeX402Resources({ publicUrl, tools, paying }: X402ResourcesDocumentInput) {
  const items = tools.flatMap((tool) => {
    const [price] = pricesForExternalPayers(tool)?.toSorted((a, b) => (a < b ? -1 : 1)) ?? []
    const path = `/api/t/${tool.slug}`
    if (price === undefined || tool.keyRequired === true) return []
    const { description, timeoutMs: deadlineMs } = tool
    const accepts = paying.offer(path, { description, price, deadlineMs })?.requirements ?? []
    if (accepts.length === 0) return []
    return [{ resource: `${publicUrl}${path}`, type: 'http', method: 'POST', description, accepts }]
  })
  return {
    version: 1,
    resources: items.map(({ resource }) => resource),
    x402Version: 2,
    items,
    instructions: `Send the input as JSON. Without a payment the answer is 402 with the terms. Documentation: ${publicUrl}/docs`,
  }
}
