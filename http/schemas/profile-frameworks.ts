/** Frameworks that an agent can name. */
export const PROFILE_FRAMEWORKS = [
  'langchain',
  'autogen',
  'crewai',
  'openai',
  'http',
  'fetch',
  'eliza',
  'virtuals',
] as const
