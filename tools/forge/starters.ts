import { javascript } from './javascript-program.ts'
import { python } from './python-program.ts'

/** What a starter is made of. Texts of callers stand in files beside it, never in its code. */
export interface Blueprint {
  readonly name: string
  readonly framework: Framework
  readonly baseUrl: string
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

const SCRIPTED: ReadonlySet<Framework> = new Set(['fetch', 'eliza', 'virtuals'])

/** The program of an agent, in the language of its framework. */
export const starterOf = (blueprint: Blueprint): StarterFile =>
  SCRIPTED.has(blueprint.framework)
    ? { path: 'agent.cjs', content: javascript(blueprint) }
    : { path: 'agent.py', content: python(blueprint) }
