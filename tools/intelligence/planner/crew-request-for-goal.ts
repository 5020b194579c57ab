import { CREW_PRICES } from '../../../domain/pricing.ts'
import { toUsdc } from '../../../core/money.ts'
import type { CrewKind } from '../crew/crew-definitions.ts'

/** The route that runs crews. */
export const CREW_ROUTE = '/api/agent/crew'

/** A crew named in a goal, and the rest of the goal. */
export interface CrewNamedInGoal {
  readonly kind: CrewKind
  /** The goal without the words that name the crew. */
  readonly remainingGoal: string
}

const KIND = '(competitor|newsletter|cold[- ]?e-?mail|custom|research)s?\\s+'
const REQUEST_VERBS =
  '\\b(?:run|use|start|hire|launch|send|let|have|get|ask|put|set|deploy|order|want|need|with|through)\\s+'
const ARTICLES = '(?:(?:me|us|the|a|an|your|our|my|some)\\s+)*'
/** Excludes crews of ships and the like. */
const CREW_WORD = 'crews?\\b(?:\\s+of\\s+agents)?(?!\\s+(?:of|members?)\\b)'
const NAMES = [
  new RegExp(`${REQUEST_VERBS}${ARTICLES}(?:${KIND})?${CREW_WORD}`, 'i'),
  new RegExp(`${ARTICLES}\\b${KIND}${CREW_WORD}`, 'i'),
  /\b(cold[- ]?e-?mail)s?\b/i,
]

/** Returns the crew that a text names; null for none. */
export function findRequestedCrew(text: string): CrewNamedInGoal | null {
  for (const name of NAMES) {
    const found = name.exec(text)
    if (found === null) continue
    const remainingGoal = text.replace(found[0], ' ').replace(/\s+/g, ' ').trim()
    return { kind: kindOf(found[1] ?? remainingGoal), remainingGoal }
  }
  return null
}

function kindOf(words: string): CrewKind {
  if (/\bcompetit|\brivals?\b/i.test(words)) return 'competitor'
  if (/\bnewsletters?\b/i.test(words)) return 'newsletter'
  return /\bcold\b/i.test(words) ? 'cold_email' : 'custom'
}

export const crewPriceUsdc = (kind: CrewKind): number => toUsdc(CREW_PRICES[kind])

const OFFERING =
  /^.*?\b(?:to|on|at|for)\s+(.+?)(?:[,;]?\s+(?:offering|pitching|selling|about|and offer)\s+(.+))?$/i
const ABOUT = /\b(?:about|on)\s+(.+?)(?:\s+for\s+(.+))?$/i

/** Returns an example request; `<…>` marks what the first clause of the goal leaves open. */
export function crewRequestTemplateForGoal(
  kind: CrewKind,
  clause: string,
  urls: readonly string[],
): Record<string, unknown> {
  const stated = clause.replace(/[\s.,;:!?]+$/, '')
  if (kind === 'competitor') return { type: kind, domain: domainOf(urls) }
  if (kind === 'custom')
    return {
      type: kind,
      goal: filled(stated.replace(/^(?:(?:i|we|please|to)\s+)+/i, ''), 'what is to be found out'),
    }
  if (kind === 'newsletter') {
    const [, topic, audience] = ABOUT.exec(stated) ?? []
    return {
      type: kind,
      topic: filled(topic, 'the topic', [3, 200]),
      targetAudience: filled(audience, 'who reads it', [3, 300]),
    }
  }
  const [, customer, offer] = OFFERING.exec(stated) ?? []
  return {
    type: kind,
    icpDescription: filled(customer, 'who the ideal customer is'),
    offerDescription: filled(offer, 'what is offered'),
  }
}

/** Returns the words, or a placeholder where they are too few for the field. */
function filled(stated = '', what: string, [min, max]: readonly [number, number] = [10, 500]) {
  const text = stated.trim()
  if (text.length >= min) return text.slice(0, max)
  return text === '' ? `<${what}>` : `<${what}: ${text}>`
}

function domainOf([url]: readonly string[]): string {
  if (url === undefined) return '<domain of the competitor>'
  const { host, pathname } = new URL(url)
  return pathname === '/' ? host : url
}
