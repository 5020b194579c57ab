import { Type } from 'typebox'

/** The author of something public, in the output of a tool (decision 299). */
export const PublicAuthorField = Type.Union([Type.String({ format: 'uuid' }), Type.Null()], {
  description: 'The author; null unless its owner made it discoverable.',
})

/** Stands for an agent that public places do not name, where a word is needed. */
export const UNNAMED_AGENT = 'an unnamed agent'
