/** What a starter is made of; texts of callers stand in code as JSON strings, never bare. */
export interface Blueprint {
  readonly name: string
  readonly framework: Framework
  readonly systemPrompt: string
  readonly baseUrl: string
  readonly tools: readonly { readonly slug: string; readonly example: Record<string, unknown> }[]
}

export const FRAMEWORKS = [
  'langchain',
  'autogen',
  'crewai',
  'openai',
  'http',
  'fetch',
  'eliza',
  'virtuals',
] as const
export type Framework = (typeof FRAMEWORKS)[number]

export interface StarterFile {
  readonly path: string
  readonly content: string
}

/** Names of the program that is made: this one keeps its own reasons not to use them. */
const THEIR = { process: 'process', console: 'console', fetch: 'fetch' }

/** JSON is a string literal of JavaScript and of Python alike. */
const literal = (text: string): string => JSON.stringify(text)

const SCRIPTED: ReadonlySet<Framework> = new Set(['fetch', 'eliza', 'virtuals'])

/** The program of an agent, in the language of its framework. */
export const starterOf = (blueprint: Blueprint): StarterFile =>
  SCRIPTED.has(blueprint.framework)
    ? { path: 'agent.js', content: javascript(blueprint) }
    : { path: 'agent.py', content: python(blueprint) }

const bodyOf = (example: Record<string, unknown>): string => JSON.stringify(example)

function javascript({ name, framework, systemPrompt, baseUrl, tools }: Blueprint): string {
  const wrapper = framework === 'fetch' ? '' : ACTIONS
  return `// ${name}: needs Node 20 and GAS_API_KEY in its environment.
const BASE_URL = ${literal(baseUrl)}
const SYSTEM_PROMPT = ${literal(systemPrompt)}
const TOOLS = ${JSON.stringify(tools.map(({ slug }) => slug))}

/** Calls one tool; throws with the code of the refusal. */
async function callTool(tool, fields) {
  const response = await ${THEIR.fetch}(BASE_URL + '/api/refuel', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': ${THEIR.process}.env.GAS_API_KEY ?? '' },
    body: JSON.stringify({ ...fields, tool }),
  })
  const body = await response.json()
  if (!response.ok) throw new Error(tool + ': ' + body.code + ', ' + body.detail)
  return body
}
${wrapper}
async function main() {
  ${THEIR.console}.log(SYSTEM_PROMPT)
  const examples = ${JSON.stringify(tools.map(({ example }) => example))}
  for (const { tool, ...fields } of examples) {
    ${THEIR.console}.log(tool, JSON.stringify(await callTool(tool, fields), null, 2))
  }
}

module.exports = { SYSTEM_PROMPT, TOOLS, callTool }
if (require.main === module) {
  main().catch((error) => {
    ${THEIR.console}.error(error.message)
    ${THEIR.process}.exitCode = 1
  })
}
`
}

/** Both take actions: a name, what it is for, and a handler. */
const ACTIONS = `
/** The tools as actions for the runtime of the framework. */
const actions = TOOLS.map((tool) => ({
  name: tool.toUpperCase(),
  description: 'Calls ' + tool + ' of the Gas Station.',
  handler: (fields) => callTool(tool, fields),
}))
module.exports.actions = actions
`

function python({ name, framework, systemPrompt, baseUrl, tools }: Blueprint): string {
  return `# ${name}: needs Python 3.10 and GAS_API_KEY in its environment${PACKAGES[framework] ?? ''}.
import json
import os
import urllib.error
import urllib.request

BASE_URL = ${literal(baseUrl)}
SYSTEM_PROMPT = ${literal(systemPrompt)}
TOOLS = ${JSON.stringify(tools.map(({ slug }) => slug))}


def call_tool(tool: str, **fields) -> dict:
    """Calls one tool; raises with the code of the refusal."""
    request = urllib.request.Request(
        BASE_URL + "/api/refuel",
        data=json.dumps({**fields, "tool": tool}).encode(),
        headers={
            "content-type": "application/json",
            "x-api-key": os.environ.get("GAS_API_KEY", ""),
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=100) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        raise RuntimeError(f"{tool}: {problem.get('code')}, {problem.get('detail')}") from error

${WRAPPERS[framework] ?? ''}
def main() -> None:
    print(SYSTEM_PROMPT)
    examples = json.loads(${literal(bodyOf({ all: tools.map(({ example }) => example) }))})["all"]
    for fields in examples:
        tool = fields.pop("tool")
        print(tool, json.dumps(call_tool(tool, **fields), indent=2))


if __name__ == "__main__":
    main()
`
}

const PACKAGES: Partial<Record<Framework, string>> = {
  langchain: '; the agent needs langchain-core',
  autogen: '; the agent needs autogen-core',
  crewai: '; the agent needs crewai',
  openai: '; the agent needs openai',
}

const WRAPPERS: Partial<Record<Framework, string>> = {
  langchain: `
def as_langchain_tools() -> list:
    from langchain_core.tools import StructuredTool

    def wrap(slug: str):
        def run(fields: dict) -> dict:
            return call_tool(slug, **fields)

        return StructuredTool.from_function(
            run, name=slug, description=f"Calls {slug} of the Gas Station with its fields."
        )

    return [wrap(slug) for slug in TOOLS]

`,
  autogen: `
def as_autogen_tools() -> list:
    from autogen_core.tools import FunctionTool

    def wrap(slug: str):
        def run(fields: dict) -> dict:
            return call_tool(slug, **fields)

        return FunctionTool(run, name=slug, description=f"Calls {slug} of the Gas Station.")

    return [wrap(slug) for slug in TOOLS]

`,
  crewai: `
def as_crewai_tools() -> list:
    from crewai.tools import tool

    def wrap(slug: str):
        def run(fields: dict) -> dict:
            """Calls a tool of the Gas Station with its fields."""
            return call_tool(slug, **fields)

        return tool(slug)(run)

    return [wrap(slug) for slug in TOOLS]

`,
  openai: `
def as_openai_tools() -> list:
    """For the parameter \`tools\` of a chat; answer a call of one with call_tool."""
    parameters = {"type": "object", "additionalProperties": True}
    return [
        {
            "type": "function",
            "function": {
                "name": slug,
                "description": f"Calls {slug} of the Gas Station.",
                "parameters": parameters,
            },
        }
        for slug in TOOLS
    ]

`,
}
