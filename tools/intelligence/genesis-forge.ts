import Type from 'typebox'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { llmOptionalToolAvailability } from '../tool-availability.ts'
import { defineTool, type ToolContext } from '../define-tool.ts'
import { tryLlmCompletion } from '../llm-call-with-fallback.ts'
import { createAgentBundle } from './genesis-forge/agent-starter-bundle.ts'
import { AGENT_FRAMEWORKS } from './genesis-forge/agent-blueprint.ts'
import {
  NEW_AGENT_TASK_NOTES_SYSTEM_PROMPT,
  buildNewAgentTaskNotesPrompt,
  buildAgentSystemPrompt,
} from './genesis-forge/new-agent-system-prompt.ts'
import type { PlannedStep } from './planner/planner-port.ts'
import type { CatalogueEntry } from '../tool-ports.ts'

/** The tool `genesis-forge`: creates a starter bundle for a new agent. */

const MAX_CHOSEN_TOOLS = 8
/** Tools of every agent. */
const BASIC_TOOLS = ['hive_read', 'hive_write']

/** Returns a valid agent name: words of the prompt, and part of the id for uniqueness. */
function toAgentName(words: readonly string[], id: string): string {
  const plain = words.map((word) => word.toLowerCase().replace(/[^a-z0-9]+/g, '-'))
  const stem = plain
    .join('-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40)
  return `${stem === '' ? 'agent' : stem}-${id.slice(-6)}`
}

/** Selects the tools of its steps, then likely ones, then the basics. */
function selectTools(steps: readonly PlannedStep[], likely: readonly string[]): readonly string[] {
  const planned = steps.flatMap(({ tool }) => tool ?? [])
  const chosen = [...new Set([...planned, ...likely])].slice(0, MAX_CHOSEN_TOOLS)
  return [...new Set([...chosen, ...BASIC_TOOLS])].filter((slug) => slug !== 'genesis_forge')
}

/** Returns a model's notes on the task; null without a model or with an empty response. */
async function writeNotesWithLlm(
  prompt: string,
  tools: readonly CatalogueEntry[],
  context: ToolContext,
) {
  const llmRequest = {
    system: NEW_AGENT_TASK_NOTES_SYSTEM_PROMPT,
    prompt: buildNewAgentTaskNotesPrompt(prompt, tools),
    maxTokens: 400,
  }
  const answer = await tryLlmCompletion(context, llmRequest)
  return answer === null || answer.text.trim() === '' ? null : answer.text
}

export default defineTool({
  slug: 'genesis_forge',
  name: 'Genesis Forge',
  category: 'intelligence',
  description:
    'Generates the bundle of a new agent from a prompt: a program that does the task step by step, the system prompt, the chosen tools with their schemas and the body to onboard it with. Actions that affect others need the confirmation of a person.',
  tags: ['agents', 'templates', 'bootstrap'],
  useCases: ['Bootstrap a new agent', 'Turn an idea into runnable files', 'Spawn a specialist'],
  examples: [
    { prompt: 'An agent that watches gas prices on Base and warns me', framework: 'fetch' },
  ],
  access: 'paid',
  price: fromUsdc(1),
  effect: 'internal',
  timeoutMs: 45_000,
  input: Type.Object(
    {
      prompt: Type.String({ minLength: 10, maxLength: 2_000, pattern: NOT_BLANK_PATTERN }),
      framework: Type.Optional(Type.Enum([...AGENT_FRAMEWORKS], { default: 'http' })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    forge_id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    framework: Type.Enum([...AGENT_FRAMEWORKS]),
    system_prompt: Type.String(),
    tools: Type.Array(
      Type.Object({
        slug: Type.String(),
        price_usdc: Type.Number(),
        description: Type.String(),
      }),
    ),
    files: Type.Array(Type.Object({ path: Type.String(), content: Type.String() })),
    mcp_config: Type.Unsafe<object>({
      type: 'object',
      description: 'The tools of this station over MCP, for clients that read `mcpServers`.',
    }),
    onboard: Type.Object({
      method: Type.String(),
      url: Type.String(),
      body: Type.Unsafe<object>({ type: 'object' }),
    }),
    method: Type.Enum(['template', 'template+llm']),
    created_at: Type.String({ format: 'date-time' }),
  }),
  availability: llmOptionalToolAvailability('template'),
  async run({ prompt, framework = 'http' }, context) {
    const { caller, callId, catalogue, planner, text, now, stage } = context
    const at = now().getTime()
    const forgeId = newUuidV7(at)
    const keywords = await text.keywords(prompt, 2)
    const name = toAgentName(
      keywords.map((one) => one.text),
      forgeId,
    )
    const entries = catalogue.entries()
    const plan = await planner.plan(prompt, { crews: false })
    const steps = plan.steps.filter(({ tool }) => tool !== 'genesis_forge')
    const slugs = selectTools(steps, await planner.toolsFor(prompt, MAX_CHOSEN_TOOLS))
    const tools = slugs.flatMap((slug) => entries.find((entry) => entry.slug === slug) ?? [])
    const notes = await writeNotesWithLlm(prompt, tools, context)
    const systemPrompt = buildAgentSystemPrompt(name, prompt, tools, notes)
    const baseUrl = (entries[0]?.call_endpoint ?? '').replace(/\/api\/refuel$/, '')
    const { files, onboard } = createAgentBundle({
      forgeId,
      name,
      prompt,
      framework,
      systemPrompt,
      baseUrl,
      tools,
      plan: { ...plan, steps },
    })
    const createdAt = new Date(at).toISOString()
    stage.row('forged_bundles', {
      id: forgeId,
      creator_id: caller.agentId,
      name,
      framework,
      call_id: callId,
      at: createdAt,
    })
    return {
      forge_id: forgeId,
      name,
      framework,
      system_prompt: systemPrompt,
      tools: tools.map(({ slug, price_usdc, description }) => ({ slug, price_usdc, description })),
      files,
      mcp_config: toMcpConfig(baseUrl),
      onboard,
      method: notes === null ? ('template' as const) : ('template+llm' as const),
      created_at: createdAt,
    }
  },
})

/** The key is the one that onboarding returns. */
const toMcpConfig = (baseUrl: string) => ({
  mcpServers: {
    gas: { type: 'http', url: `${baseUrl}/mcp`, headers: { 'X-API-Key': '${GAS_API_KEY}' } },
  },
})
