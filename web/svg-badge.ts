import { escapeMarkup } from './escape-markup.ts'

/** Renders badges: two labelled halves, as pages embed them. */

const HEIGHT = 20
const PADDING = 12
/** Average width of a character of the badge's font. */
const CHAR_WIDTH = 6.6
const COLOURS = { label: '#3a424c', neutral: '#5a6672', good: '#14804f', gold: '#a86200' } as const

export interface SvgBadge {
  readonly label: string
  readonly value: string
  readonly colour: Exclude<keyof typeof COLOURS, 'label'>
}

/** Returns an SVG image that loads nothing and names itself to screen readers. */
export function renderSvgBadge({ label, value, colour }: SvgBadge): string {
  const [left, right] = [widthOf(label), widthOf(value)]
  const title = escapeMarkup(`${label}: ${value}`)
  const text = (content: string, x: number) =>
    `<text x="${x}" y="14" textLength="${(content.length * CHAR_WIDTH).toFixed(1)}" lengthAdjust="spacingAndGlyphs">${escapeMarkup(content)}</text>`
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="${HEIGHT}" viewBox="0 0 ${left + right} ${HEIGHT}" role="img" aria-label="${title}"><title>${title}</title><clipPath id="r"><rect width="${left + right}" height="${HEIGHT}" rx="4"/></clipPath><g clip-path="url(#r)"><rect width="${left}" height="${HEIGHT}" fill="${COLOURS.label}"/><rect x="${left}" width="${right}" height="${HEIGHT}" fill="${COLOURS[colour]}"/></g><g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">${text(label, PADDING / 2)}${text(value, left + PADDING / 2)}</g></svg>`
}

const widthOf = (text: string): number => Math.round(text.length * CHAR_WIDTH) + PADDING
