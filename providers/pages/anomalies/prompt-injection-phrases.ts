import { foldLookAlikes, toLetterSkeleton, toReadText } from '../../../core/comparable-text.ts'

/** What an instruction to a machine intends. */
export type PromptInjectionIntent =
  | 'override_phrase'
  | 'secret_request'
  | 'transfer_request'
  | 'imperative'

export interface PromptInjectionPhrase {
  readonly intent: PromptInjectionIntent
  /** The match with a few words around it. */
  readonly excerpt: string
}

interface InjectionPattern {
  readonly demand: PromptInjectionIntent
  readonly pattern: RegExp
  /** Skipped when negated: "never share your seed phrase" is a warning. */
  readonly unlessNegated?: true
}

const INSTRUCTION_NOUNS =
  'instructions?|prompts?|rules|directions|directives|guidelines|guardrails|programming|safety|training'
const SECRET_NOUNS =
  'private keys?|seed phrases?|secret phrases?|recovery phrases?|mnemonics?|api[ _-]?keys?|secret keys?|access tokens?|keystore|wallet file|credentials|session cookies?|environment variables|system prompt'
const ASSET_NOUNS =
  'eth|btc|usdc|usdt|dai|sol|bnb|matic|tokens?|coins?|crypto|usd|eur|dollars|euros|funds|balance|assets|money'
const DISCLOSURE_VERBS =
  'send|share|paste|enter|provide|reveal|give|post|submit|e[ -]?mail|upload|type|tell|output|print|include|export|forward|reply with|copy|disclose|leak|exfiltrate|append'

/**
 * Every gap is bounded, so that no text makes the patterns slow. They match plain wording only, no
 * paraphrases.
 */
const INJECTION_PATTERNS: readonly InjectionPattern[] = [
  toInjectionPattern(
    'override_phrase',
    `\\b(?:ignore|disregard|forget|override|bypass|overlook|discard)\\b[^.!?]{0,40}?\\b(?:previous|prior|above|earlier|preceding|existing|original|all|any|your|system|other)\\b[^.!?]{0,30}?\\b(?:${INSTRUCTION_NOUNS})\\b`,
  ),
  toInjectionPattern(
    'override_phrase',
    `\\b(?:reveal|print|repeat|output|show|leak|disclose|display)\\b[^.!?]{0,30}?\\b(?:system|initial|hidden|secret|original|developer)\\s(?:prompt|instructions?|message)\\b`,
  ),
  toInjectionPattern(
    'override_phrase',
    `\\byou are (?:now|no longer)\\b[^.!?]{0,40}?\\b(?:assistant|agent|ai|bot|model|mode|dan|jailbroken|unrestricted|bound)\\b`,
  ),
  toInjectionPattern(
    'override_phrase',
    `\\b(?:new|updated|important|system|admin|developer|secret|special|hidden)\\s(?:system\\s)?(?:instructions?|prompt|directives?|override)\\s?(?::|for (?:ai|llms?|agents?|assistants?|the (?:ai|assistant|agent|model)))`,
  ),
  toInjectionPattern(
    'override_phrase',
    `<\\|(?:im[_ ]start|im[_ ]end|system|user|assistant|endoftext)\\|>|\\[/?INST\\]|<</?SYS>>|#{2,3} ?(?:system|instructions?):`,
  ),
  toInjectionPattern(
    'override_phrase',
    `\\b(?:attention|note|message|instructions?|notice|important|dear|hey|hello)\\b[,:]?\\s(?:to |for )?(?:all |any |the |every )?(?:ai|llm|large language model|language model|chatgpt|claude|gpt|gemini|copilot)\\b`,
  ),
  toInjectionPattern(
    'override_phrase',
    `\\bif you(?:'re| are) (?:an? |the |any )?(?:ai|llm|large language model|language model|automated|autonomous|chatbot|ai agent|assistant)\\b`,
  ),
  toInjectionPattern(
    'override_phrase',
    `\\b(?:do not|don't|never|without)\\s(?:tell|mention|inform|reveal|alert|notify|disclose|telling|mentioning|informing|alerting|notifying|asking)\\b[^.!?]{0,30}?\\b(?:user|users|human|owner|operator|principal)\\b`,
  ),
  {
    ...toInjectionPattern(
      'secret_request',
      `\\b(?:${DISCLOSURE_VERBS})\\b[^.!?]{0,60}?\\b(?:${SECRET_NOUNS})\\b`,
    ),
    unlessNegated: true,
  },
  {
    ...toInjectionPattern(
      'transfer_request',
      `\\b(?:send|transfer|pay|wire|deposit|bridge|donate|move|forward)\\b[^.!?]{0,60}?(?:\\b(?:${ASSET_NOUNS})\\b|[$€£]\\s?\\d)[^!?]{0,60}?(?:\\b(?:0x)[0-9a-f]{40}\\b|\\b(?:bc[1]|[13])[a-z0-9]{25,59}\\b|\\b(?:to|into) (?:this|the following|our|my) (?:address|wallet|account)\\b)`,
    ),
    unlessNegated: true,
  },
  {
    ...toInjectionPattern(
      'transfer_request',
      `\\b(?:send|transfer|move|drain|sweep|approve)\\b[^.!?]{0,20}?\\b(?:all|your entire|your whole|unlimited)\\b[^.!?]{0,20}?\\b(?:${ASSET_NOUNS}|allowance|spending)\\b`,
    ),
    unlessNegated: true,
  },
  toInjectionPattern(
    'imperative',
    `(?:^|[.!?:;\\n]\\s?)(?:please\\s)?(?:always|never|do not|don't|you must|you should|you have to|you will now|must|recommend|rate|rank|say|tell|respond|reply|answer|output|write|include|add|summari[sz]e|pretend|act as|assume|treat|consider|describe|mention|visit|open|navigate|click|download|execute|run|call|fetch|install|buy|purchase|approve|choose|prefer|rewrite|translate)\\b[^.!?]{0,80}?\\b(?:the user|your (?:response|answer|reply|summary|output|owner|operator|tools?|wallet|task|report|review|recommendations?|user|instructions?|next)|this (?:product|item|page|site|website|store|shop|vendor|seller|company|service) (?:as|is|to|first|over|above))\\b`,
  ),
  toInjectionPattern(
    'imperative',
    `\\byou (?:must|should|have to|are required to|will now) (?:now |immediately |always |first )?(?:buy|purchase|send|transfer|visit|recommend|rate|call|execute|run|download|install|approve|pay|reply|respond|answer|output|write|ignore|obey|comply|choose|prefer)\\b`,
  ),
]

/** Folds the words of a pattern; the digits of addresses stand apart from letters, so they stay. */
function toInjectionPattern(demand: PromptInjectionIntent, source: string): InjectionPattern {
  return { demand, pattern: new RegExp(foldLookAlikes(source), 'gi') }
}

const NEGATED =
  /\b(?:never|not|don't|doesn't|won't|cannot|can't|nobody|no one|avoid|without)\b[^.!?]{0,40}$/i
const MAX_PHRASES_PER_PATTERN = 5

/** Of letters alone: what a separator inside words, or none between them, hides from the patterns. */
const SQUEEZED = new RegExp(
  [
    '(?:ignore|disregard|forget|override|bypass|overlook|discard)(?:all|any|the|your|of|my|these|every|other)*(?:previous|prior|above|earlier|preceding|existing|original|system)(?:instructions|prompts?|rules|directions|directives|guidelines|guardrails|programming)',
    '(?:reveal|print|repeat|output|leak|disclose)(?:me|us)?(?:all|the|your|its)*(?:system|initial|hidden|secret|original|developer)(?:prompt|instructions)',
  ]
    .join('|')
    .replaceAll('l', 'i'),
)

/** Returns a few matches per pattern, in the text as it is read or else in one without separators in words. */
export function detectPromptInjectionPhrases(text: string): PromptInjectionPhrase[] {
  const bare = normalizeForMatching(text)
  const readings = new Set([bare, bare.replace(INSIDE_WORDS, ' '), bare.replace(INSIDE_WORDS, '')])
  const folded = [...readings].map((read) => ({ read, folded: foldLookAlikes(read) }))
  const found = INJECTION_PATTERNS.flatMap((pattern) => {
    for (const reading of folded) {
      const phrases = matchPhrases(reading, pattern)
      if (phrases.length > 0) return phrases
    }
    return []
  })
  if (found.some(({ intent }) => intent === 'override_phrase')) return found
  const squeezed = SQUEEZED.exec(toLetterSkeleton(bare))
  return squeezed === null ? found : [...found, { intent: 'override_phrase', excerpt: squeezed[0] }]
}

/** Signs between letters, without blanks: they neither part words nor join sentences. */
const INSIDE_WORDS = /(?<=\p{L})[^\p{L}\p{N}\s']+(?=\p{L})/gu

/** The folded text is as long as the one that is shown. */
function matchPhrases(
  { read, folded }: { readonly read: string; readonly folded: string },
  { demand: intent, pattern, unlessNegated }: InjectionPattern,
): PromptInjectionPhrase[] {
  const found: PromptInjectionPhrase[] = []
  for (const { index, 0: match } of folded.matchAll(pattern)) {
    const before = read.slice(Math.max(0, index - 60), index)
    if (unlessNegated === true && NEGATED.test(before)) continue
    found.push({ intent, excerpt: excerptAround(read, index, match.length) })
    if (found.length === MAX_PHRASES_PER_PATTERN) break
  }
  return found
}

/** Returns a match with the text around it in its line. */
function excerptAround(text: string, at: number, length: number): string {
  const before = text.slice(Math.max(0, at - 40), at).replace(/^\S*(?=\s)/, '')
  const behind = text.slice(at + length, at + Math.max(length, 160))
  const [rest = ''] = behind.split('\n', 1)
  const line = before.slice(before.lastIndexOf('\n') + 1) + text.slice(at, at + length) + rest
  return line.replace(/^[\s.:;!?]+/, '')
}

/** As a reader takes it, with ordinary quotes and blanks. */
const normalizeForMatching = (text: string): string =>
  toReadText(text)
    .replace(/[’‘]/g, "'")
    .replace(/[^\S\n]+/g, ' ')
