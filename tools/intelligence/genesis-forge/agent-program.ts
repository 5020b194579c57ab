import type { AgentBlueprint, AgentFramework, AgentBundleFile } from './agent-blueprint.ts'
import { generateJavascriptProgram } from './javascript-program.ts'
import { generatePythonProgram } from './python-program.ts'

/** Chooses the program of a new agent by its framework. */

const JAVASCRIPT_FRAMEWORKS: ReadonlySet<AgentFramework> = new Set(['fetch', 'eliza', 'virtuals'])

/** Generates the program in the language of its framework. */
export const generateAgentProgram = (blueprint: AgentBlueprint): AgentBundleFile =>
  JAVASCRIPT_FRAMEWORKS.has(blueprint.framework)
    ? { path: 'agent.cjs', content: generateJavascriptProgram(blueprint) }
    : { path: 'agent.py', content: generatePythonProgram(blueprint) }
