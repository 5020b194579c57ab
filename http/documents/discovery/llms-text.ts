import type { CatalogueEntry } from '../../../tools/tool-ports.ts'
import {
  describeCatalogueEntryPrice,
  SERVICE_NAME,
  SERVICE_SUMMARY,
  toToolsByCategory,
  type DiscoveryDocumentInput,
} from './discovery-document-input.ts'

/** Texts for language models: the index of https://llmstxt.org, the same with the catalogue, and an agent skill. */

/** A short index: what the service is, and where each part is described. */
export function writeLlmsText(service: DiscoveryDocumentInput): string {
  const { publicUrl, tools } = service
  const link = (title: string, path: string, note: string) =>
    `- [${title}](${publicUrl}${path}): ${note}`
  return `# ${SERVICE_NAME}

> ${SERVICE_SUMMARY}

## Begin

${[
  link('Welcome', '/api/agent-welcome', 'onboarding, three requests that run, limits'),
  link('Conventions', '/api/standard', 'keys, errors, idempotency, paging, money, events'),
  link('Skill', '/skill.md', 'how an agent uses the station, in one page'),
  link('All of this in one text', '/llms-full.txt', 'with every tool and how calls are paid'),
].join('\n')}

## API

${[
  link('OpenAPI document', '/api/openapi.json', 'every operation, with examples'),
  link('Documentation', '/docs', 'guides and the reference'),
  link('Errors', '/problems', 'every problem code, its cause and its remedy'),
  link('MCP server card', '/mcp/server-card', 'the same tools over the Model Context Protocol'),
  link('Payable resources', '/.well-known/x402', 'terms of each tool, for clients of x402'),
  link('Prices', '/api/pricing.json', 'every price in one document'),
].join('\n')}

## Tools

${tools.map((tool) => link(tool.slug, `/api/tools/${tool.slug}`, `${tool.description} ${sentence(describeCatalogueEntryPrice(tool))}`)).join('\n')}

## Optional

${[
  link('Statistics', '/api/stats', 'figures of the station, from its ledger'),
  link('News', '/api/whats-new', 'releases, and changes of the catalogue'),
  link('Bounties', '/api/bounties?status=open', 'work that agents pay for'),
  link('Recipes', '/api/cookbook', 'pipelines that run as printed'),
].join('\n')}
`
}

/** The index with the whole catalogue: inputs, examples, and how calls are paid. */
export function writeFullLlmsText(service: DiscoveryDocumentInput): string {
  return `${writeLlmsText(service).trimEnd()}

${writeUsage(service)}
## Every tool

${toToolsByCategory(service.tools)
  .map(({ category, tools }) => `### ${category}\n\n${tools.map(describeTool).join('\n')}`)
  .join('\n')}`
}

/** One page in the form of an agent skill (https://agentskills.io): front matter, then instructions. */
export function writeAgentSkillPage(service: DiscoveryDocumentInput): string {
  const categories = toToolsByCategory(service.tools)
  return `---
name: gas-station
description: Calls paid tools (search, prices, pages, memory, chains, code, models, messages) of the Gas Station at ${service.publicUrl} and pays for them. Use when a task needs such a tool or a wallet-bound budget.
---

# ${SERVICE_NAME}

${SERVICE_SUMMARY}

${writeUsage(service)}
## Tools

${categories
  .map(
    ({ category, tools }) =>
      `- **${category}**: ${tools.map((tool) => `\`${tool.slug}\` (${describeCatalogueEntryPrice(tool)})`).join(', ')}`,
  )
  .join('\n')}

Inputs of a tool: \`GET ${service.publicUrl}/api/tools/{slug}\`.
`
}

const writeUsage = ({ publicUrl }: DiscoveryDocumentInput): string => `## Use

1. Get a key, a wallet and starter credits. The key is shown once; send it as \`X-API-Key\`.

   \`\`\`sh
   curl -s ${publicUrl}/api/onboard -H 'content-type: application/json' -d '{"name":"my-agent"}'
   \`\`\`

2. Call a tool: \`tool\` and its fields in one body. The cost is in \`_meta.cost_usdc\`.

   \`\`\`sh
   curl -s ${publicUrl}/api/refuel -H "X-API-Key: $GAS_KEY" -H 'content-type: application/json' \\
     -H "Idempotency-Key: $(uuidgen)" -d '{"tool":"hive_trending"}'
   \`\`\`

3. Repeat a request safely with the same \`Idempotency-Key\`: it runs and costs once.

## Pay

- Free calls come first, then credits. \`POST /api/quote\` says what a call would cost and which way pays it.
- Without credits a paid call answers 402. The header \`PAYMENT-REQUIRED\` has the terms of x402, \`WWW-Authenticate\` those of MPP; a client of either pays by itself.
- A refusal is a problem document: \`code\` is stable, \`detail\` says why, \`remedy\` what to do. A refused or failed call costs nothing.
- Bound yourself or a helper: \`POST /api/task/start\` opens a budget; a key bound to a Backpack obeys its fuses.

`

function describeTool(tool: CatalogueEntry): string {
  const { slug, description, input_schema: input, example_calls: examples } = tool
  const isShown = tool.type === 'native' && examples[0] !== undefined
  const example = isShown ? `\n  Example: \`${JSON.stringify(examples[0])}\`` : ''
  return `- **${slug}** (${describeCatalogueEntryPrice(tool)}${tool.key_required ? ', needs a key' : ''}): ${description}
${describeInput(input)}${example}
`
}

/** The fields of an object schema, in a line each. */
function describeInput(schema: unknown): string {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Record<string, { type?: unknown; description?: string }>
    required?: string[]
  }
  return Object.entries(properties)
    .map(([name, { type, description }]) => {
      const kind = typeof type === 'string' ? type : 'any'
      const need = required.includes(name) ? 'required' : 'optional'
      return `  - \`${name}\` (${kind}, ${need})${description === undefined ? '' : `: ${description}`}`
    })
    .join('\n')
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
