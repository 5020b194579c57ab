/** What a starter bundle is generated from. Text of callers goes into data files, never into code. */
export interface AgentBlueprint {
  readonly name: string
  readonly framework: AgentFramework
  readonly baseUrl: string
}

export const AGENT_FRAMEWORKS = [
  'langchain',
  'autogen',
  'crewai',
  'openai',
  'http',
  'fetch',
  'eliza',
  'virtuals',
] as const
export type AgentFramework = (typeof AGENT_FRAMEWORKS)[number]

export interface AgentBundleFile {
  readonly path: string
  readonly content: string
}
