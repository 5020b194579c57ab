import {
  parseCssColor,
  areIndistinguishableColors,
  WHITE_RGB,
  type RgbColor,
} from './css-colors.ts'
import {
  computeElementStyle,
  parseStyleSheets,
  type CssDeclarations,
  type StyleRules,
} from './parse-css-style-sheets.ts'
import {
  descendantElements,
  elementTextLine,
  directElementText,
  type HtmlElement,
} from './html-parser.ts'

/** The outermost elements that are not visible. */
export type HiddenElements = ReadonlySet<HtmlElement>

/** Elements whose text is never rendered. */
export const UNRENDERED_TEXT_ELEMENTS: ReadonlySet<string> = new Set(
  'script style iframe noembed noframes title object svg math datalist'.split(' '),
)

interface InheritedColors {
  readonly ink: RgbColor | null
  /** Null where it is unknown. */
  readonly paper: RgbColor | null
}

/** Finds invisible elements by attributes, styles and the style sheets in the page. */
export function findHiddenElements(root: HtmlElement): HiddenElements {
  const hidden = new Set<HtmlElement>()
  const sheets: string[] = []
  let linked = false
  for (const element of descendantElements(root)) {
    if (element.name === 'style') sheets.push(directElementText(element))
    const rel = element.name === 'link' ? element.attributes.get('rel') : undefined
    if (rel !== undefined && /stylesheet/i.test(rel)) linked = true
  }
  const styles = parseStyleSheets(sheets)
  // A linked style sheet is not fetched and may set any background.
  scanHiddenChildren(root, { ink: null, paper: linked ? null : WHITE_RGB }, { styles, hidden })
  return hidden
}

interface HiddenScan {
  readonly styles: StyleRules
  readonly hidden: Set<HtmlElement>
}

function scanHiddenChildren(
  element: HtmlElement,
  around: InheritedColors,
  looking: HiddenScan,
): void {
  for (const child of element.children) {
    if (typeof child === 'string' || UNRENDERED_TEXT_ELEMENTS.has(child.name)) continue
    const style = computeElementStyle(child, looking.styles)
    const here = inheritColors(around, style)
    if (isHiddenByAttribute(child) || isHiddenByStyle(style) || isHiddenByColor(here, style))
      looking.hidden.add(child)
    else scanHiddenChildren(child, here, looking)
  }
}

function isHiddenByAttribute({ name, attributes }: HtmlElement): boolean {
  if (name === 'template' || name === 'noscript' || attributes.has('hidden')) return true
  if (name === 'dialog' && !attributes.has('open')) return true
  return attributes.get('aria-hidden')?.toLowerCase() === 'true'
}

const OFFSCREEN_PX = -400
const MIN_FONT_PX = 2

function isHiddenByStyle(style: CssDeclarations): boolean {
  if (style.size === 0) return false
  const value = (property: string) => style.get(property) ?? ''
  if (value('display') === 'none') return true
  if (/^(?:hidden|collapse)$/.test(value('visibility'))) return true
  if (parseCssNumber(value('opacity')) <= 0.05) return true
  const size = value('font-size')
  if (parseCssNumber(size) <= MIN_FONT_PX && /^[\d.]+(?:px|pt)?$/.test(size)) return true
  if (parseCssNumber(size) <= 0.1 && /^[\d.]+(?:r?em|%)$/.test(size)) return true
  if (parseCssNumber(value('text-indent')) < OFFSCREEN_PX) return true
  if (/^(?:absolute|fixed)$/.test(value('position'))) {
    if (
      ['left', 'top', 'right', 'bottom'].some((edge) => parseCssNumber(value(edge)) < OFFSCREEN_PX)
    )
      return true
  }
  if (/^rect\((?:0(?:px)?|1px)[\s,]/.test(value('clip'))) return true
  if (/^inset\((?:50|100)%/.test(value('clip-path'))) return true
  if (/scale\(0(?:\.0\d*)?\)|translate[xy]?\(-\d{4,}px/.test(value('transform'))) return true
  const clipped = value('overflow').startsWith('hidden')
  return (
    clipped && ['width', 'height', 'max-height'].some((side) => /^[01](?:px)?$/.test(value(side)))
  )
}

/** NaN for an invalid value; it compares false with any limit. */
const parseCssNumber = (value: string): number => Number.parseFloat(value)

function inheritColors(around: InheritedColors, style: CssDeclarations): InheritedColors {
  const ink = style.get('color')
  const paper = style.get('background-color') ?? style.get('background')
  if (ink === undefined && paper === undefined) return around
  const see = (value: string, before: RgbColor | null) =>
    /transparent|inherit|none/.test(value) ? before : parseCssColor(value)
  return {
    ink: ink === undefined ? around.ink : parseCssColor(ink),
    paper: paper === undefined ? around.paper : see(paper, around.paper),
  }
}

function isHiddenByColor({ ink, paper }: InheritedColors, style: CssDeclarations): boolean {
  if (style.get('color') === 'transparent') return true
  if (!style.has('color') && !style.has('background') && !style.has('background-color'))
    return false
  return ink !== null && paper !== null && areIndistinguishableColors(ink, paper)
}

const MAX_HIDDEN_TEXTS_CHARS = 200_000
const MAX_HIDDEN_TEXT_CHARS = 20_000
const UNLIMITED = { left: Infinity }

/** Returns the hidden texts. */
export function collectHiddenTexts(hidden: HiddenElements): string[] {
  const texts: string[] = []
  let left = MAX_HIDDEN_TEXTS_CHARS
  for (const element of hidden) {
    // They do not nest, and must be found on any page.
    const text =
      left <= 0 ? '' : elementTextLine(element, Math.min(left, MAX_HIDDEN_TEXT_CHARS), UNLIMITED)
    if (text === '') continue
    left -= text.length
    texts.push(text)
  }
  return texts
}

/** Returns the visible elements in document order. */
export function collectVisibleElements(
  element: HtmlElement,
  hidden: HiddenElements,
): HtmlElement[] {
  const found: HtmlElement[] = []
  const collect = ({ children }: HtmlElement): void => {
    for (const child of children) {
      if (typeof child === 'string' || hidden.has(child)) continue
      found.push(child)
      collect(child)
    }
  }
  collect(element)
  return found
}
