import { colourIn, same, WHITE, type Colour } from './colours.ts'
import { styleOf, stylesOf, type Declarations, type Styles } from './styles.ts'
import { elementsOf, lineOf, rawText, type PageElement } from './tree.ts'

/** Elements that are not shown, each where it begins. */
export type Hidden = ReadonlySet<PageElement>

/** Nobody reads these, hidden or not. */
export const UNREAD: ReadonlySet<string> = new Set(
  'script style iframe noembed noframes title object svg math datalist'.split(' '),
)

interface Surroundings {
  readonly ink: Colour | null
  /** Null where it is not known. */
  readonly paper: Colour | null
}

/** Finds what a page does not show, by its attributes, its styles and the sheets within it. */
export function hiddenOf(root: PageElement): Hidden {
  const hidden = new Set<PageElement>()
  const sheets: string[] = []
  let linked = false
  for (const element of elementsOf(root)) {
    if (element.name === 'style') sheets.push(rawText(element))
    const rel = element.name === 'link' ? element.attributes.get('rel') : undefined
    if (rel !== undefined && /stylesheet/i.test(rel)) linked = true
  }
  const styles = stylesOf(sheets)
  // Sheets that were not fetched may have painted anything.
  look(root, { ink: null, paper: linked ? null : WHITE }, { styles, hidden })
  return hidden
}

interface Looking {
  readonly styles: Styles
  readonly hidden: Set<PageElement>
}

function look(element: PageElement, around: Surroundings, looking: Looking): void {
  for (const child of element.children) {
    if (typeof child === 'string' || UNREAD.has(child.name)) continue
    const style = styleOf(child, looking.styles)
    const here = painted(around, style)
    if (byAttribute(child) || byStyle(style) || byColour(here, style)) looking.hidden.add(child)
    else look(child, here, looking)
  }
}

function byAttribute({ name, attributes }: PageElement): boolean {
  if (name === 'template' || name === 'noscript' || attributes.has('hidden')) return true
  if (name === 'dialog' && !attributes.has('open')) return true
  return attributes.get('aria-hidden')?.toLowerCase() === 'true'
}

const FAR = -400
const SMALLEST_FONT = 2

function byStyle(style: Declarations): boolean {
  if (style.size === 0) return false
  const value = (property: string) => style.get(property) ?? ''
  if (value('display') === 'none') return true
  if (/^(?:hidden|collapse)$/.test(value('visibility'))) return true
  if (amount(value('opacity')) <= 0.05) return true
  const size = value('font-size')
  if (amount(size) <= SMALLEST_FONT && /^[\d.]+(?:px|pt)?$/.test(size)) return true
  if (amount(size) <= 0.1 && /^[\d.]+(?:r?em|%)$/.test(size)) return true
  if (amount(value('text-indent')) < FAR) return true
  if (/^(?:absolute|fixed)$/.test(value('position'))) {
    if (['left', 'top', 'right', 'bottom'].some((edge) => amount(value(edge)) < FAR)) return true
  }
  if (/^rect\((?:0(?:px)?|1px)[\s,]/.test(value('clip'))) return true
  if (/^inset\((?:50|100)%/.test(value('clip-path'))) return true
  if (/scale\(0(?:\.0\d*)?\)|translate[xy]?\(-\d{4,}px/.test(value('transform'))) return true
  const clipped = value('overflow').startsWith('hidden')
  return (
    clipped && ['width', 'height', 'max-height'].some((side) => /^[01](?:px)?$/.test(value(side)))
  )
}

/** NaN, which is less than nothing, where a value is none. */
const amount = (value: string): number => Number.parseFloat(value)

function painted(around: Surroundings, style: Declarations): Surroundings {
  const ink = style.get('color')
  const paper = style.get('background-color') ?? style.get('background')
  if (ink === undefined && paper === undefined) return around
  const see = (value: string, before: Colour | null) =>
    /transparent|inherit|none/.test(value) ? before : colourIn(value)
  return {
    ink: ink === undefined ? around.ink : colourIn(ink),
    paper: paper === undefined ? around.paper : see(paper, around.paper),
  }
}

function byColour({ ink, paper }: Surroundings, style: Declarations): boolean {
  if (style.get('color') === 'transparent') return true
  if (!style.has('color') && !style.has('background') && !style.has('background-color'))
    return false
  return ink !== null && paper !== null && same(ink, paper)
}

const MOST_HIDDEN_TEXT = 200_000
const LONGEST_HIDDEN = 20_000

/** What is written where nobody sees it. */
export function hiddenTexts(hidden: Hidden): string[] {
  const texts: string[] = []
  let left = MOST_HIDDEN_TEXT
  for (const element of hidden) {
    const text = left <= 0 ? '' : lineOf(element, Math.min(left, LONGEST_HIDDEN))
    if (text === '') continue
    left -= text.length
    texts.push(text)
  }
  return texts
}

/** Elements that are shown, in the order of the page. */
export function shownElements(element: PageElement, hidden: Hidden): PageElement[] {
  const found: PageElement[] = []
  const collect = ({ children }: PageElement): void => {
    for (const child of children) {
      if (typeof child === 'string' || hidden.has(child)) continue
      found.push(child)
      collect(child)
    }
  }
  collect(element)
  return found
}
