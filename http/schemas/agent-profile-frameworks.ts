/** Frameworks that an agent can name. */
export const AGENT_PROFILE_FRAMEWORKS = [
  'langchain',
  'autogen',
  'crewai',
  'openai',
  'http',
  'fetch',
  'eliza',
  'virtuals',
] as const
