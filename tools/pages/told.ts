import { sayPage } from './say.ts'
import type { PageReading } from './port.ts'
import { elementsOf, parsePage, rawText, type PageElement } from './tree.ts'

/** All that a reading tells besides its text. */
export type Told = Pick<PageReading, 'title' | 'headings' | 'links' | 'forms'>

/** Each of its texts once. */
export function toldTexts({ title, headings, links, forms }: Told): string[] {
  const fields = forms.flatMap((form) => form.fields)
  const texts = [
    title,
    ...headings.map(({ text }) => text),
    ...links.map(({ text }) => text),
    ...forms.map(({ submit }) => submit),
    ...fields.flatMap(({ name, label, options = [] }) => [name, label, ...options]),
  ]
  return [...new Set(texts)]
}

export interface Values {
  /** In fields that people see. */
  readonly shown: readonly string[]
  readonly unseen: readonly string[]
}

/** What the fields of a page hold; it is sent, and told to whoever asks for a field. */
export function valuesIn(root: PageElement): Values {
  const [shown, unseen] = [new Set<string>(), new Set<string>()]
  for (const element of elementsOf(root)) {
    const { name, attributes } = element
    if (name === 'textarea') shown.add(rawText(element))
    const value = attributes.get('value')
    if (value === undefined) continue
    // The value of an option is as little seen as that of a hidden field.
    const seen = name === 'input' && attributes.get('type')?.toLowerCase() !== 'hidden'
    ;(seen ? shown : unseen).add(value)
  }
  return { shown: [...shown], unseen: [...unseen] }
}

/** Pages that are written within a page: what they say, and all that stands in them. */
export function innerPages(root: PageElement): string[] {
  const texts: string[] = []
  for (const { name, attributes } of elementsOf(root)) {
    const inner = name === 'iframe' ? attributes.get('srcdoc') : undefined
    if (inner !== undefined) texts.push(sayPage(parsePage(inner).root, new Set()), inner)
  }
  return texts
}
