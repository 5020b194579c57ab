import type { AgentBlueprint, AgentFramework, AgentBundleFile } from './agent-blueprint.ts'
import { generateJavascriptAgentSource } from './generate-javascript-agent-source.ts'
import { generatePythonAgentSource } from './generate-python-agent-source.ts'

/** Chooses the program of a new agent by its framework. */

const JAVASCRIPT_FRAMEWORKS: ReadonlySet<AgentFramework> = new Set(['fetch', 'eliza', 'virtuals'])

/** Generates the program in the language of its framework. */
export const generateAgentSource = (blueprint: AgentBlueprint): AgentBundleFile =>
  JAVASCRIPT_FRAMEWORKS.has(blueprint.framework)
    ? { path: 'agent.cjs', content: generateJavascriptAgentSource(blueprint) }
    : { path: 'agent.py', content: generatePythonAgentSource(blueprint) }
