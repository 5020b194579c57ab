import Type from 'typebox'
import { newId } from '../core/ids.ts'
import { fromUsdc } from '../core/money.ts'
import { SAID } from '../core/said.ts'
import { withModel } from './availability.ts'
import { defineTool } from './define.ts'
import { perhaps } from './evidence/ask.ts'
import { bundleOf, systemPromptFor } from './forge/bundle.ts'
import { FRAMEWORKS } from './forge/starters.ts'

const TOOLS = 6
/** What every agent can use. */
const BASICS = ['hive_read', 'hive_write']

/** A name onboarding takes: words of the prompt, and a part of the id against namesakes. */
function nameFrom(words: readonly string[], id: string): string {
  const plain = words.map((word) => word.toLowerCase().replace(/[^a-z0-9]+/g, '-'))
  const stem = plain
    .join('-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40)
  return `${stem === '' ? 'agent' : stem}-${id.slice(-6)}`
}

export default defineTool({
  slug: 'genesis_forge',
  name: 'Genesis Forge',
  category: 'intelligence',
  description:
    'Makes the bundle of a new agent from a prompt: system prompt, chosen tools, starter files, MCP configuration and the body to onboard it with.',
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
      prompt: Type.String({ minLength: 10, maxLength: 2_000, pattern: SAID }),
      framework: Type.Optional(Type.Enum([...FRAMEWORKS], { default: 'http' })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    forge_id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    framework: Type.Enum([...FRAMEWORKS]),
    system_prompt: Type.String(),
    tools: Type.Array(
      Type.Object({
        slug: Type.String(),
        price_usdc: Type.Number(),
        description: Type.String(),
      }),
    ),
    files: Type.Array(Type.Object({ path: Type.String(), content: Type.String() })),
    mcp_config: Type.Unsafe<object>({ type: 'object' }),
    onboard: Type.Object({
      method: Type.String(),
      url: Type.String(),
      body: Type.Unsafe<object>({ type: 'object' }),
    }),
    method: Type.Enum(['template', 'template+llm']),
    created_at: Type.String({ format: 'date-time' }),
  }),
  availability: withModel('template'),
  async run({ prompt, framework = 'http' }, context) {
    const { caller, callId, catalogue, planner, text, now, stage } = context
    const at = now().getTime()
    const forgeId = newId(at)
    const keywords = await text.keywords(prompt, 2)
    const name = nameFrom(
      keywords.map((one) => one.text),
      forgeId,
    )
    const entries = catalogue.entries()
    const fitting = await planner.toolsFor(prompt, TOOLS)
    const slugs = [...new Set([...fitting, ...BASICS])].filter((slug) => slug !== 'genesis_forge')
    const tools = slugs.flatMap((slug) => entries.find((entry) => entry.slug === slug) ?? [])
    const template = systemPromptFor(name, prompt, tools)
    const refined = await perhaps(context, {
      system:
        'Improve the system prompt of a software agent: sharpen the task, keep every rule and every tool with its price, add none. Answer with the prompt alone.',
      prompt: template,
      maxTokens: 1_500,
    })
    const systemPrompt = refined === null ? template : refined.text.trim()
    const baseUrl = (entries[0]?.call_endpoint ?? '').replace(/\/api\/refuel$/, '')
    const { files, mcp, onboard } = bundleOf({
      forgeId,
      name,
      prompt,
      framework,
      systemPrompt,
      baseUrl,
      tools,
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
      mcp_config: mcp,
      onboard,
      method: refined === null ? ('template' as const) : ('template+llm' as const),
      created_at: createdAt,
    }
  },
})
