import { Script } from 'node:vm'
import type { TaskPlan } from '../planner/planner-port.ts'
import type { CatalogueEntry } from '../../tool-ports.ts'
import type { AgentFramework, AgentBundleFile } from './agent-blueprint.ts'
import { generateAgentSource } from './generate-agent-source.ts'

/** Assembles the files of a new agent. */

export interface AgentBundleSpec {
  readonly forgeId: string
  readonly name: string
  readonly prompt: string
  readonly framework: AgentFramework
  readonly systemPrompt: string
  readonly baseUrl: string
  readonly tools: readonly CatalogueEntry[]
  /** What its program does without another task. */
  readonly plan: TaskPlan
}

/** Creates all files of a new agent. Throws when one of them does not parse, so that it is not sold. */
export function createAgentBundle(spec: AgentBundleSpec) {
  const { forgeId, name, prompt, framework, systemPrompt, baseUrl, tools, plan } = spec
  const onboard = {
    method: 'POST',
    url: `${baseUrl}/api/onboard`,
    body: {
      name,
      framework,
      description: prompt.slice(0, 500),
      // Attributes the onboarded agent to this bundle.
      source: `genesis:${forgeId}`,
    },
  }
  const program = generateAgentSource({ name, framework, baseUrl })
  const { task, steps, note } = plan
  const files: AgentBundleFile[] = [
    { path: 'README.md', content: readme(spec, program.path) },
    { path: 'system-prompt.md', content: `${systemPrompt}\n` },
    program,
    { path: 'tools.json', content: json(tools.map(toolOf)) },
    { path: 'plan.json', content: json({ task, note, steps }) },
    { path: 'onboard.json', content: json(onboard.body) },
    { path: '.env.example', content: `GAS_URL=${baseUrl}\nGAS_API_KEY=\n` },
  ]
  files.forEach(assertParses)
  return { files, onboard }
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Returns a tool definition for models; `parameters` is the schema that validates calls. */
const toolOf = (entry: CatalogueEntry) => ({
  name: entry.slug,
  description: entry.description,
  price_usdc: entry.price_usdc,
  acts_on_others: entry.acts_on_others,
  parameters: entry.input_schema,
})

function assertParses({ path, content }: AgentBundleFile): void {
  if (path.endsWith('.json')) JSON.parse(content)
  // Compiled for its syntax, never run.
  if (path.endsWith('.cjs')) new Script(content, { filename: path })
}

function readme({ name, prompt, tools, baseUrl, plan }: AgentBundleSpec, program: string): string {
  const run = `${program.endsWith('.py') ? 'python3' : 'node'} ${program}`
  const steps = plan.steps.flatMap(({ step, tool, purpose, endpoint, example, fill_in }) => {
    if (example === null) return []
    const open = fill_in.length === 0 ? '' : ` Filled in when it runs: ${fill_in.join(', ')}.`
    return [`${step}. ${tool ?? endpoint.slice(baseUrl.length)}: ${purpose}.${open}`]
  })
  return `# ${name}

> ${prompt.replace(/\s+/g, ' ').trim()}

1. \`curl -s -X POST ${baseUrl}/api/onboard -H 'content-type: application/json' -d @onboard.json\`
   answers with an API key. It is shown once.
2. Put it into \`GAS_API_KEY\`.
3. Run \`${run}\`. It does the task above, by the steps of \`plan.json\`.

${steps.join('\n')}

\`${run} "another task"\` asks the station for the steps of another task and does those. Fields that the
task leaves open are asked for at the terminal, or given with \`--set TOOL.FIELD=VALUE\`.

What acts on others is never called by itself: the program shows the exact call and a person confirms it.
A tool that is not in \`tools.json\` is confirmed in the same way.
\`--allow TOOL\` confirms every call of a tool in advance.

| Tool | USDC a call | Acts on others | What it does |
|---|---|---|---|
${tools.map((one) => `| ${one.slug} | ${one.price_usdc} | ${one.acts_on_others ? 'yes' : 'no'} | ${one.description} |`).join('\n')}

\`tools.json\` has the JSON Schema of each tool, \`system-prompt.md\` the instructions for a model that works
with them.
`
}
