import type { Blueprint, Framework, StarterFile } from './blueprint.ts'
import { javascript } from './javascript-program.ts'
import { python } from './python-program.ts'

const SCRIPTED: ReadonlySet<Framework> = new Set(['fetch', 'eliza', 'virtuals'])

/** The program of an agent, in the language of its framework. */
export const starterOf = (blueprint: Blueprint): StarterFile =>
  SCRIPTED.has(blueprint.framework)
    ? { path: 'agent.cjs', content: javascript(blueprint) }
    : { path: 'agent.py', content: python(blueprint) }
