import { Html, html } from '../html-template-tag.ts'
import type { Guide } from './guide-files.ts'
import { findLinkedGuideSlug } from './guide-files.ts'

/** Renders a guide from its Markdown. Raw HTML in it is text, except anchors; comments are left out. */

export interface RenderedGuide {
  readonly body: Html
  readonly sections: readonly { readonly id: string; readonly title: string }[]
}

/** What examples in the documents call the station. */
const EXAMPLE_URL = /http:\/\/(?:127\.0\.0\.1|localhost):8402/g
const COMMENT = /^<!--[^]*-->$/
const ANCHOR = /^<\/?a( id="[\w-]+")?>$/

/** The text of a guide with the address of this station, so that its examples run as printed. */
const withStationUrl = (markdown: string, publicUrl: string): string =>
  markdown.replace(EXAMPLE_URL, publicUrl)

/** The Markdown twin: links lead to twins, or to nothing where the file is not served. */
export const renderGuideMarkdown = ({ markdown }: Guide, publicUrl: string): string =>
  withStationUrl(markdown, publicUrl).replace(
    /(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)/g,
    (whole, image: string, text: string, target: string, hash = '') => {
      if (image === '!' || isElsewhere(target)) return whole
      const slug = findLinkedGuideSlug(target)
      return slug === null ? text : `[${text}](/docs/${slug}.md${hash})`
    },
  )

const isElsewhere = (target: string): boolean => /^([a-z]+:|\/|#)/.test(target)

export async function renderGuide(guide: Guide, publicUrl: string): Promise<RenderedGuide> {
  const { Marked } = await import('marked')
  const sections: { id: string; title: string }[] = []
  const ids = new Set<string>()
  const marked = new Marked({
    renderer: {
      html({ text }) {
        if (COMMENT.test(text.trim())) return ''
        return ANCHOR.test(text.trim()) ? text : html`${text}`.text
      },
      heading({ tokens, depth, text }) {
        const id = uniqueId(ids, text)
        if (depth === 2) sections.push({ id, title: text.replace(/[`*]/g, '') })
        return `<h${depth} id="${id}">${this.parser.parseInline(tokens)}</h${depth}>\n`
      },
      code: ({ text, lang }) => renderCode(text, lang ?? ''),
      table(token) {
        const row = (cells: typeof token.header, tag: string) =>
          `<tr>${cells.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag.slice(0, 2)}>`).join('')}</tr>`
        const body = token.rows.map((cells) => row(cells, 'td')).join('\n')
        return `<div class="scroll" tabindex="0"><table><thead>${row(token.header, 'th scope="col"')}</thead><tbody>${body}</tbody></table></div>\n`
      },
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens)
        const to = toPageLink(href)
        return to === null ? inner : html`<a href="${to}">${new Html(inner)}</a>`.text
      },
      image: ({ href, text }) =>
        html`<img src="/docs/${href}" alt="${text}" loading="lazy" />`.text,
    },
  })
  const text = await marked.parse(withStationUrl(guide.markdown, publicUrl))
  return { body: new Html(text), sections }
}

/** A diagram is shown as its text: no page loads a program to draw it. */
function renderCode(text: string, language: string): string {
  if (language === 'mermaid')
    return html`<details>
      <summary>Diagram, as Mermaid text</summary>
      <pre tabindex="0"><code>${text}</code></pre>
    </details> `.text
  return html`<div class="copyable">
    <pre tabindex="0"><code>${text}
</code></pre>
    <button type="button" hidden>Copy</button>
  </div> `.text
}

/** Null for files of the repository that are not served. */
function toPageLink(href: string): string | null {
  if (isElsewhere(href)) return href
  const [target = '', hash] = href.split('#')
  const slug = findLinkedGuideSlug(target)
  return slug === null ? null : `/docs/${slug}${hash === undefined ? '' : `#${hash}`}`
}

/** The ids that renderers of Markdown give headings, which links between documents use. */
function uniqueId(ids: Set<string>, text: string): string {
  const base = text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-')
  let id = base
  for (let at = 1; ids.has(id); at += 1) id = `${base}-${at}`
  ids.add(id)
  return id
}
