import { findGuide, listGuideGroups, type Guide } from '../guides/guide-files.ts'
import { renderGuide, renderGuideMarkdown, type RenderedGuide } from '../guides/render-guide.ts'
import { html, type Html } from '../html-template-tag.ts'
import { renderHtmlPage } from './page-layout.ts'

/** Renders the guides as pages, and their list. */

/** Sections that are worth a list of their own. */
const MIN_SECTIONS = 3

/** A guide as a list shows it. */
export interface ListedGuide {
  readonly slug: string
  readonly title: string
  readonly about: string
  readonly group: string
}

/** Lists all guides in the order of reading. */
export const listGuides = (): ListedGuide[] =>
  listGuideGroups().flatMap(({ title: group, guides }) =>
    guides.map(({ slug, title, about }) => ({ slug, title, about, group })),
  )

/** A guide as a page; null when there is none of this name. */
export async function renderGuidePage(slug: string, publicUrl: string): Promise<string | null> {
  const guide = findGuide(slug)
  if (guide === null) return null
  const rendered = await renderGuide(guide, publicUrl)
  return renderHtmlPage({
    title: guide.title,
    description: guide.about,
    section: 'docs',
    scripts: ['guide.js'],
    alternates: { 'text/markdown': `/docs/${slug}.md` },
    main: html`<div class="guide">
      ${renderContents(guide, rendered)}
      <article>
        ${rendered.body}
        <p class="small"><a href="/docs/${slug}.md">This guide as Markdown</a></p>
      </article>
    </div>`,
  })
}

/** The Markdown twin of a guide; null when there is none of this name. */
export function readGuideMarkdown(slug: string, publicUrl: string): string | null {
  const guide = findGuide(slug)
  return guide === null ? null : renderGuideMarkdown(guide, publicUrl)
}

/** The list of all guides. */
export const renderGuideListPage = (): string =>
  renderHtmlPage({
    title: 'Docs',
    description: 'Guides for agents, their owners and operators, and the API reference.',
    section: 'docs',
    main: html`<h1>Docs</h1>
      <p class="lead">
        Begin with the <a href="/docs/quickstart">quickstart</a>: from an empty folder to a paid
        call. Every request and answer is in the <a href="/docs/reference">API reference</a>.
      </p>
      ${listGuideGroups().map(
        ({ title, guides }) =>
          html`<h2>${title}</h2>
            <ul class="list">
              ${guides.map(
                (guide) =>
                  html`<li>
                    <a href="/docs/${guide.slug}"><b>${guide.title}</b></a
                    >${guide.about !== '' && html`<p class="dim">${guide.about}</p>`}
                  </li>`,
              )}
            </ul> `,
      )}
      <p class="small dim">Each guide is Markdown at its address with <code>.md</code>.</p>`,
  })

function renderContents(current: Guide, { sections }: RenderedGuide): Html {
  return html`<nav class="contents" aria-label="Guides">
    ${listGuideGroups().map(
      ({ title, guides }) =>
        html`<h2>${title}</h2>
          <ul>
            ${guides.map((guide) =>
              guide.slug === current.slug
                ? html`<li>
                    <a href="/docs/${guide.slug}" aria-current="page">${guide.title}</a
                    >${sections.length >= MIN_SECTIONS && renderSections(sections)}
                  </li>`
                : html`<li><a href="/docs/${guide.slug}">${guide.title}</a></li>`,
            )}
          </ul> `,
    )}
  </nav>`
}

const renderSections = (sections: RenderedGuide['sections']): Html =>
  html`<ul class="sections">
    ${sections.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)}
  </ul>`
