import { detectEncodedPayloads } from '../../providers/pages/anomalies/detect-encoded-payloads.ts'
import {
  detectInvisibleCharacters,
  escapeInvisibleCharacters,
} from '../../providers/pages/anomalies/invisible-characters.ts'
import { detectPromptInjectionPhrases } from '../../providers/pages/anomalies/prompt-injection-phrases.ts'
import type { CatalogueEntry } from '../tool-ports.ts'

/** Texts of builders as language models may read them: checked, short, and marked with their builder. */

/** The longest text of a builder that a model reads. */
const MAX_FOREIGN_TEXT_CHARS = 500
const MAX_NAME_CHARS = 64

/** Whether a text breaks the rules that find anomalies on web pages, applied to a text that people see. */
export const isPossiblePromptInjection = (text: string): boolean =>
  detectPromptInjectionPhrases(text).some(({ intent }) => intent !== 'imperative') ||
  [...detectInvisibleCharacters(text), ...detectEncodedPayloads(text)].length > 0

/** Whether the words of an identifier, such as `ignoreAll_previous-instructions`, break the rules. */
export const isIdentifierPossiblePromptInjection = (name: string): boolean =>
  isPossiblePromptInjection(name.replace(/([a-z])([A-Z])/g, '$1 $2').replace(/[\s_$@.:-]+/g, ' '))

/** A name of at most 64 characters on one line; null for one that may instruct a model. */
export function toModelSafeName(name: string): string | null {
  const shown = escapeInvisibleCharacters(name, MAX_NAME_CHARS).replace(/[[\]]/g, '')
  return [name, shown].some(
    (one) => isPossiblePromptInjection(one) || isIdentifierPossiblePromptInjection(one),
  )
    ? null
    : shown
}

/** A text of at most 500 characters on one line; null for one that may instruct a model, as written or as shown. */
export function toModelSafeText(text: string): string | null {
  const shown = escapeInvisibleCharacters(text, MAX_FOREIGN_TEXT_CHARS)
  return isPossiblePromptInjection(text) || isPossiblePromptInjection(shown) ? null : shown
}

/** Who built a tool and whether the station has verified it: `ann, not verified`. */
export function describeToolBuilder({ builder }: Pick<CatalogueEntry, 'builder'>): string {
  const name = builder === undefined ? null : toModelSafeName(builder.name)
  const review = builder?.verified === true ? 'verified by this station' : 'not verified'
  return `${name ?? 'a builder whose name is withheld'}, ${review}`
}
