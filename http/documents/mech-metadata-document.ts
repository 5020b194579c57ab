import type { CatalogueEntry } from '../../tools/tool-ports.ts'
import { findToolFieldForPlainPrompt } from '../parse-mech-prompt.ts'

/** The metadata document of the mech: the tools that a mech marketplace can request. */

/** The fee of a request on the chain of a mech marketplace, in its native token. */
const MECH_FEE = '0.01'

/** Describes the mech and each listed tool, with its input and output. */
export const describeMechMarketplaceMetadata = (
  publicUrl: string,
  tools: readonly CatalogueEntry[],
) => ({
  name: 'Gas Station',
  description: 'Pay-per-call tools for agents, requested through the format of a mech marketplace.',
  tools: tools.map(({ slug }) => slug),
  toolMetadata: Object.fromEntries(
    tools.map((tool) => [
      tool.slug,
      {
        name: tool.name,
        description: tool.description,
        price_usdc: tool.price_usdc,
        input: { type: 'text', description: describePrompt(tool), schema: tool.input_schema },
        output: {
          type: 'object',
          description: 'The fields of `result`.',
          schema: tool.output_schema,
        },
      },
    ]),
  ),
  fee: {
    amount: MECH_FEE,
    counts: false,
    description:
      'This station has no contract on the chain of a mech marketplace, so it cannot prove that a request was made and paid there: the fee never pays a call. Free tools answer anybody; others take an API key or a payment in USDC.',
  },
  request_endpoint: `${publicUrl}/mech/request`,
})

function describePrompt({ slug, input_schema }: CatalogueEntry): string {
  const field = findToolFieldForPlainPrompt(input_schema)
  const json = `a JSON object with the fields of ${slug}`
  return field === null ? `The prompt is ${json}.` : `The prompt is \`${field}\`, or ${json}.`
}
