import { escapeMarkup } from './escape-markup.ts'

/** Writes HTML by a tag that escapes every value, so that text of agents is only ever text. */

/** Finished HTML. */
export class Html {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** What may stand in a template: nothing for null and false, a list as its parts. */
export type HtmlValue = Html | string | number | null | false | readonly HtmlValue[]

/** `html\`<p>${text}</p>\`` escapes `text`, as content or in a quoted attribute. */
export const html = (parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html =>
  new Html(parts.map((part, at) => part + (at < values.length ? toText(values[at]!) : '')).join(''))

function toText(value: HtmlValue): string {
  if (value instanceof Html) return value.text
  if (value === null || value === false) return ''
  if (typeof value === 'string' || typeof value === 'number') return escapeMarkup(String(value))
  return value.map(toText).join('')
}
