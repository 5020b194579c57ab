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
