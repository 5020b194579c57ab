import {
  isUrlWithSchemeOrSitePath,
  EXTRACTABLE_PAGE_PARTS,
  MAX_BROWSER_WAIT_STEP_MS,
  type BrowserPageStep,
} from './page-step-types.ts'

/** Parses instructions for `agent-act`. */

interface Word {
  readonly text: string
  readonly quoted: boolean
}

interface Clause {
  readonly words: Word[]
  /** Only `and` separates it from the word before. */
  readonly byAnd: boolean
}

export type PageInstructionParseResult =
  | { readonly steps: readonly BrowserPageStep[] }
  /** The first clause that was not understood, and why. */
  | { readonly unknown: string; readonly why: string }

const QUOTES: Readonly<Record<string, string>> = {
  '"': '"',
  '“': '”',
  '„': '“',
  '«': '»',
  '`': '`',
  "'": "'",
}
const CONJUNCTIONS = new Set(['and', 'then'])
const ARTICLES = new Set(['the', 'a', 'an', 'my', 'your'])
/** Words after a name that say only its kind. */
const KINDS = new Set(
  'field input box checkbox button link option dropdown list menu tab form'.split(' '),
)
/** Words that are names only when quoted. */
const PRONOUNS = new Set('it this that them these those here there'.split(' '))
const KEYS = new Set('enter return escape esc tab space backspace delete'.split(' '))
/** Particles that change the meaning of a verb: `check out`, `fill up`, `check whether`. */
const PARTICLES = new Set('out up off in over if whether that for'.split(' '))
const VERBS: Readonly<Record<string, BrowserPageStep['op'] | 'type'>> = {
  go: 'goto',
  goto: 'goto',
  open: 'goto',
  visit: 'goto',
  navigate: 'goto',
  fill: 'fill',
  set: 'fill',
  type: 'type',
  enter: 'type',
  write: 'type',
  select: 'select',
  choose: 'select',
  pick: 'select',
  check: 'check',
  tick: 'check',
  click: 'click',
  press: 'click',
  tap: 'click',
  submit: 'submit',
  extract: 'extract',
  get: 'extract',
  read: 'extract',
  scrape: 'extract',
  wait: 'wait',
}

/**
 * Parses clauses joined by comma, semicolon, full stop, `and` or `then`; quotes protect their content. A
 * clause of `fill` or `extract` may omit the verb after one with it. An ambiguous instruction is not
 * understood, since a guess would be executed.
 */
export function parsePageInstruction(text: string): PageInstructionParseResult {
  const steps: BrowserPageStep[] = []
  const clauses = splitClauses(text)
  if ('unknown' in clauses) return clauses
  for (const [place, { words, byAnd }] of clauses.entries()) {
    const doubt = findAmbiguity(words)
    if (doubt !== null) return { unknown: spelled(words), why: doubt }
    const step = parseStep(words) ?? parseContinuation(words, steps.at(-1))
    if (step === null) {
      const why = 'this is none of go to, fill, type, select, check, click, submit, extract, wait'
      return { unknown: spelled(words), why }
    }
    if (step.op === 'wait' && step.ms > MAX_BROWSER_WAIT_STEP_MS)
      return {
        unknown: `wait ${step.ms} ms`,
        why: `at most ${MAX_BROWSER_WAIT_STEP_MS / 1000} seconds`,
      }
    const before = clauses[place - 1]?.words
    if (byAnd && before !== undefined && mayBeOneName(before, steps.at(-1), step)) {
      const why = 'this may be one name or two steps; quote the name'
      return { unknown: `${spelled(before)} and ${spelled(words)}`, why }
    }
    steps.push(step)
  }
  return steps.length > 0 ? { steps } : { unknown: text.trim(), why: 'it contains no step' }
}

const spelled = (words: readonly Word[]): string =>
  words.map(({ text, quoted }) => (quoted ? `"${text}"` : text)).join(' ')

const lower = (word: Word | undefined): string =>
  word === undefined || word.quoted ? '' : word.text.toLowerCase()

/** Returns why a clause is ambiguous, or null. */
function findAmbiguity([verb, ...rest]: readonly Word[]): string | null {
  const op = VERBS[lower(verb)]
  if (op === undefined) return null
  if (op === 'goto') {
    const [url] = dropLeadingWord(rest, 'to')
    return url === undefined || rest.length > 2 || isUrlWithSchemeOrSitePath(url.text)
      ? null
      : 'an address begins with https://, or on the same site with /, ./, ? or #'
  }
  const named = (op === 'fill' ? dropLeadingWord(rest, 'in') : rest).filter(
    (word) => !ARTICLES.has(lower(word)),
  )
  const [first, second] = named
  if (['fill', 'check', 'select', 'click'].includes(op) && PARTICLES.has(lower(first)))
    return `"${lower(verb)} ${lower(first)}" is none of its steps; quote a name`
  if (op === 'click' && lower(verb) !== 'click' && KEYS.has(lower(first)))
    if (named.length === 1 || lower(second) === 'key') return 'keys cannot be pressed'
  if (PRONOUNS.has(lower(first)) && (named.length === 1 || op === 'fill'))
    return `what "${lower(first)}" is cannot be told`
  return null
}

/** Returns whether the clauses may be one name: a button may be called `Read and submit`. */
function mayBeOneName(
  words: readonly Word[],
  before: BrowserPageStep | undefined,
  step: BrowserPageStep,
): boolean {
  if (before === undefined || words.at(-1)?.quoted === true) return false
  if (!['click', 'check', 'submit'].includes(before.op) || words.length < 2) return false
  if (step.op === 'extract')
    return !EXTRACTABLE_PAGE_PARTS.some((known) => known === step.what.toLowerCase())
  return ['click', 'check', 'submit'].includes(step.op)
}

function splitClauses(
  text: string,
): Clause[] | Extract<PageInstructionParseResult, { unknown: string }> {
  const clauses: Clause[] = [{ words: [], byAnd: false }]
  const last = () => clauses.at(-1)?.words ?? []
  const next = (byAnd = false) => {
    if (last().length > 0) clauses.push({ words: [], byAnd })
    // A comma next to `and` makes it a separator.
    else if (!byAnd) clauses.splice(-1, 1, { words: [], byAnd: false })
  }
  for (let at = 0; at < text.length;) {
    const char = text[at] ?? ''
    if (/\s/.test(char)) {
      if (char === '\n') next()
      at += 1
    } else if (QUOTES[char] !== undefined) {
      const close = closeOf(text, at)
      const unknown = text.slice(at, at + 100)
      if (close < 0) return { unknown, why: 'the quote is not closed' }
      if (!endsWord(text, close + 1))
        return { unknown, why: 'a quote and a word are not separated' }
      const quoted = text.slice(at + 1, close).replace(/\\(["'`\\])/g, '$1')
      last().push({ text: quoted, quoted: true })
      at = close + 1
    } else if (isStop(text, at)) {
      next()
      at += 1
    } else {
      const from = at
      do at += 1
      while (!endsWord(text, at))
      const word = text.slice(from, at)
      if (/["“”„«»`]/.test(word.replace(/\[[^\]]*\]/g, '')))
        return { unknown: word.slice(0, 100), why: 'a quote and a word are not separated' }
      if (CONJUNCTIONS.has(word.toLowerCase())) next(word.toLowerCase() === 'and')
      else last().push({ text: word, quoted: false })
    }
  }
  return clauses.filter(({ words }) => words.length > 0)
}

const endsWord = (text: string, at: number): boolean =>
  at >= text.length || /\s/.test(text[at] ?? '') || isStop(text, at)

/** Returns the end of a quote; an apostrophe within a word does not end it. */
function closeOf(text: string, open: number): number {
  const mark = QUOTES[text[open] ?? ''] ?? ''
  for (let at = open + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === mark && !(mark === "'" && /[\p{L}\p{N}]/u.test(text[at + 1] ?? '')))
      return at
  }
  return -1
}

/** Returns whether a comma, semicolon or full stop ends a clause, and not merely part of a word. */
const isStop = (text: string, at: number): boolean =>
  /[,;.]/.test(text[at] ?? '') && (at + 1 === text.length || /\s/.test(text[at + 1] ?? ''))

function parseStep([verb, ...rest]: readonly Word[]): BrowserPageStep | null {
  const op = verb === undefined || verb.quoted ? undefined : VERBS[verb.text.toLowerCase()]
  if (op === undefined) return null
  switch (op) {
    case 'goto': {
      const [url, ...more] = dropLeadingWord(rest, 'to')
      return url === undefined || more.length > 0 ? null : { op, url: url.text }
    }
    case 'fill':
      return parseFill(dropLeadingWord(rest, 'in'))
    case 'type':
      return parseType(rest) ?? parseFill(rest)
    case 'select': {
      const [option, field] = splitAtWord(rest, ['from', 'in'], 'last')
      return option === null || field === null ? null : { op, option, field }
    }
    case 'check':
    case 'click': {
      const name = nameOf(dropLeadingWord(rest, 'on'))
      if (name === null) return null
      return op === 'check' ? { op, field: name } : { op, target: name }
    }
    case 'submit':
      return { op, form: nameOf(rest) }
    case 'extract': {
      const what = nameOf(rest, false)
      return what === null ? null : { op, what }
    }
    case 'wait':
      return parseWait(dropLeadingWord(rest, 'for'))
  }
}

function parseFill(words: readonly Word[]): BrowserPageStep | null {
  const [field, value] = splitAtWord(words, ['with', 'to', 'as', '='], 'first')
  return field === null || value === null ? null : { op: 'fill', field, value }
}

function parseType(words: readonly Word[]): BrowserPageStep | null {
  const [value, field] = splitAtWord(words, ['into', 'in', 'to'], 'last')
  return field === null || value === null ? null : { op: 'fill', field, value }
}

function parseWait([amount, unit, ...more]: readonly Word[]): BrowserPageStep | null {
  const [, number, stuck] = /^(\d{1,6}(?:\.\d{1,3})?)(ms|s)?$/i.exec(amount?.text ?? '') ?? []
  const name = (stuck ?? unit?.text ?? 's').toLowerCase()
  if (
    number === undefined ||
    more.length > 0 ||
    !/^(ms|milliseconds?|s|secs?|seconds?)$/.test(name)
  )
    return null
  return { op: 'wait', ms: Math.round(Number(number) * (name.startsWith('m') ? 1 : 1000)) }
}

/** Parses `fill a with "x" and b with "y"`, and `extract title and prices`. */
function parseContinuation(
  clause: readonly Word[],
  before: BrowserPageStep | undefined,
): BrowserPageStep | null {
  if (before?.op === 'fill') return parseFill(clause)
  if (before?.op !== 'extract') return null
  const what = nameOf(clause, false)
  const known: readonly string[] = EXTRACTABLE_PAGE_PARTS
  const quoted = clause.length === 1 && clause[0]?.quoted === true
  return what !== null && (quoted || known.includes(what.toLowerCase()))
    ? { op: 'extract', what }
    : null
}

/** Splits at an unquoted word; names lose their articles, quoted text stays. */
function splitAtWord(
  words: readonly Word[],
  marks: readonly string[],
  which: 'first' | 'last',
): [left: string | null, right: string | null] {
  const isMark = ({ text, quoted }: Word) => !quoted && marks.includes(text.toLowerCase())
  const at = which === 'first' ? words.findIndex(isMark) : words.findLastIndex(isMark)
  if (at < 1) return [null, null]
  const [left, right] = [words.slice(0, at), words.slice(at + 1)]
  return which === 'first' ? [nameOf(left), valueOf(right)] : [valueOf(left), nameOf(right)]
}

const valueOf = (words: readonly Word[]): string | null =>
  words.length === 0 ? null : words.map(({ text }) => text).join(' ')

/** Returns a name without its article and kind; null for an empty name. */
function nameOf(words: readonly Word[], dropKind = true): string | null {
  const is = (set: ReadonlySet<string>, word: Word | undefined) =>
    word !== undefined && !word.quoted && set.has(word.text.toLowerCase())
  let left = words
  while (left.length > 1 && is(ARTICLES, left[0])) left = left.slice(1)
  if (dropKind && is(KINDS, left.at(-1))) left = left.slice(0, -1)
  const name = left
    .map(({ text }) => text)
    .join(' ')
    .trim()
  return name === '' ? null : name
}

function dropLeadingWord(words: readonly Word[], word: string): readonly Word[] {
  const [first] = words
  return first !== undefined && !first.quoted && first.text.toLowerCase() === word
    ? words.slice(1)
    : words
}
