/** The categories of tools in the catalogue. */
export const TOOL_CATEGORIES = [
  'perception',
  'web',
  'finance',
  'memory',
  'intelligence',
  'onchain',
  'compute',
  'comms',
] as const
