import { renderPageText } from '../html/page-text-renderer.ts'
import type { PageContent } from '../page-parser-port.ts'
import {
  descendantElements,
  parseHtmlTree,
  directElementText,
  type HtmlElement,
} from '../html/html-parser.ts'

/** What a page contains besides its text. */
export type PageOutline = Pick<PageContent, 'title' | 'headings' | 'links' | 'forms'>

/** Returns the distinct texts of an outline. */
export function titleHeadingLinkAndFormTexts({
  title,
  headings,
  links,
  forms,
}: PageOutline): string[] {
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

export interface VisibleAndHiddenFieldValues {
  /** Values of visible fields. */
  readonly visible: readonly string[]
  readonly hidden: readonly string[]
}

/** Returns field values, which are submitted and can be extracted. */
export function extractPageFormFieldValues(root: HtmlElement): VisibleAndHiddenFieldValues {
  const [shown, unseen] = [new Set<string>(), new Set<string>()]
  for (const element of descendantElements(root)) {
    const { name, attributes } = element
    if (name === 'textarea') shown.add(directElementText(element))
    const value = attributes.get('value')
    if (value === undefined) continue
    // The value of an option is as invisible as that of a hidden field.
    const seen = name === 'input' && attributes.get('type')?.toLowerCase() !== 'hidden'
    ;(seen ? shown : unseen).add(value)
  }
  return { visible: [...shown], hidden: [...unseen] }
}

/** Returns the visible text and all texts of `srcdoc` pages. */
export function renderSrcdocTexts(root: HtmlElement): string[] {
  const texts: string[] = []
  for (const { name, attributes } of descendantElements(root)) {
    const inner = name === 'iframe' ? attributes.get('srcdoc') : undefined
    if (inner !== undefined) texts.push(renderPageText(parseHtmlTree(inner).root, new Set()), inner)
  }
  return texts
}
