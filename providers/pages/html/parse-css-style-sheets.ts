import type { HtmlElement } from './html-parser.ts'

/** Properties and values in lower case. */
export type CssDeclarations = ReadonlyMap<string, string>

/** Declarations of the page's style sheets by plain selectors: `p`, `.x`, `#x`, `p.x`. */
export type StyleRules = ReadonlyMap<string, CssDeclarations>

const MAX_CSS_CHARS = 200_000
const MAX_CSS_RULES = 2_000
const MAX_DECLARATIONS_CHARS = 2_000
const MAX_ELEMENT_CLASSES = 20
const MAX_SELECTOR_CHARS = 200
const SIMPLE_SELECTOR = /^(?:[a-z][\w-]*)?(?:[.#][\w-]+)?$/i
const NO_DECLARATIONS: CssDeclarations = new Map()
/** Properties that decide visibility; all others are ignored. */
const RELEVANT_PROPERTIES = new Set(
  'display visibility opacity font-size text-indent position left top right bottom clip clip-path transform overflow width height max-height color background background-color'.split(
    ' ',
  ),
)

/** Parses the relevant properties of `a: b; c: d`. */
function parseCssDeclarations(text: string): CssDeclarations {
  const found = new Map<string, string>()
  for (const part of text.slice(0, MAX_DECLARATIONS_CHARS).split(';')) {
    const colon = part.indexOf(':')
    const property = part.slice(0, Math.max(0, colon)).trim().toLowerCase()
    if (!RELEVANT_PROPERTIES.has(property)) continue
    const value = part.slice(colon + 1).toLowerCase()
    const important = value.indexOf('!')
    const bare = important < 0 ? value : value.slice(0, important)
    found.set(property, bare.trim())
  }
  return found
}

/**
 * Parses style sheets with plain selectors. A name that another rule may make visible, by a longer selector
 * or a media query, is left out, since it is not certainly hidden.
 */
export function parseStyleSheets(sheets: readonly string[]): StyleRules {
  const styles = new Map<string, CssDeclarations>()
  const doubtful = new Set<string>()
  let rules = 0
  for (const { selectors, declarations, nested } of parseCssRules(
    sheets.join('\n').slice(0, MAX_CSS_CHARS),
  )) {
    rules += 1
    if (rules > MAX_CSS_RULES) break
    for (const selector of selectors) {
      if (!nested && SIMPLE_SELECTOR.test(selector)) {
        const earlier = styles.get(selector) ?? NO_DECLARATIONS
        styles.set(selector, new Map([...earlier, ...declarations]))
      } else if (affectsVisibility(declarations)) {
        for (const [name] of lastCompoundSelector(selector).matchAll(/[.#][\w-]+/g))
          doubtful.add(name)
      }
    }
  }
  for (const selector of styles.keys())
    if (doubtful.has(selector.replace(/^[^.#]+/, ''))) styles.delete(selector)
  return styles
}

/** Returns the declarations of an element: those of the style sheets, then its inline style. */
export function computeElementStyle(
  { name, attributes }: HtmlElement,
  styles: StyleRules,
): CssDeclarations {
  const own = attributes.get('style')
  if (styles.size === 0) return own === undefined ? NO_DECLARATIONS : parseCssDeclarations(own)
  const classes = attributes.get('class')?.trim().split(/\s+/, MAX_ELEMENT_CLASSES) ?? []
  const id = attributes.get('id')
  const matching: CssDeclarations[] = []
  const take = (selector: string) => {
    const declarations = styles.get(selector)
    if (declarations !== undefined) matching.push(declarations)
  }
  take(name)
  for (const one of classes) {
    take(`.${one}`)
    take(`${name}.${one}`)
  }
  if (id !== undefined) {
    take(`#${id}`)
    take(`${name}#${id}`)
  }
  if (own !== undefined) matching.push(parseCssDeclarations(own))
  if (matching.length <= 1) return matching[0] ?? NO_DECLARATIONS
  return new Map(matching.flatMap((declarations) => [...declarations]))
}

const VISIBILITY_PROPERTIES = [
  'display',
  'visibility',
  'opacity',
  'font-size',
  'left',
  'top',
  'clip',
]
const affectsVisibility = (declarations: CssDeclarations): boolean =>
  VISIBILITY_PROPERTIES.some((property) => declarations.has(property))

/** Returns the part of a selector that matches the element itself. */
const lastCompoundSelector = (selector: string): string =>
  selector
    .slice(-MAX_SELECTOR_CHARS)
    .split(/[\s>+~]+/)
    .at(-1) ?? ''

interface CssRule {
  readonly selectors: readonly string[]
  readonly declarations: CssDeclarations
  /** Within `@media` or a similar rule. */
  readonly nested: boolean
}

function* parseCssRules(css: string): Generator<CssRule> {
  const text = withoutComments(css)
  let [at, depth] = [0, 0]
  for (;;) {
    const brace = /[{}]/g
    brace.lastIndex = at
    const found = brace.exec(text)
    if (found === null) return
    if (found[0] === '}') depth = Math.max(0, depth - 1)
    else {
      const prelude = text.slice(at, found.index).split(/[;}]/).at(-1)?.trim() ?? ''
      if (prelude.startsWith('@')) depth += 1
      else {
        const end = text.indexOf('}', found.index)
        const body = text.slice(found.index + 1, end < 0 ? undefined : end)
        const selectors = prelude.split(',', 50).map((one) => one.trim())
        yield { selectors, declarations: parseCssDeclarations(body), nested: depth > 0 }
        at = end < 0 ? text.length : end + 1
        continue
      }
    }
    at = found.index + 1
  }
}

function withoutComments(css: string): string {
  const pieces: string[] = []
  for (let at = 0; at < css.length;) {
    const begin = css.indexOf('/*', at)
    if (begin < 0) return [...pieces, css.slice(at)].join('')
    pieces.push(css.slice(at, begin))
    const end = css.indexOf('*/', begin + 2)
    at = end < 0 ? css.length : end + 2
  }
  return pieces.join('')
}
