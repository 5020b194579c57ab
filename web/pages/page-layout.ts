import { html, type Html, type HtmlValue } from '../html-template-tag.ts'
import { toPageAssetPath } from '../page-assets.ts'

/** The frame of every page: head, navigation and footer. Nothing in it is inlined or from elsewhere. */

export interface PageFrameContent {
  readonly title: string
  /** For search engines and link previews; a page without one is not indexed. */
  readonly description?: string
  readonly main: Html
  /** The entry of the navigation that the page belongs to. */
  readonly section?: NavigationSection
  /** Names of scripts among the assets. */
  readonly scripts?: readonly string[]
  /** Other forms of the same content: type -> address. */
  readonly alternates?: Readonly<Record<string, string>>
  /** Without margins and landmark, for content that has its own. */
  readonly wide?: boolean
  /** Attributes of `<main>`. */
  readonly mainData?: Readonly<Record<string, string>>
}

const NAVIGATION = {
  tools: { path: '/#tools', label: 'Tools' },
  docs: { path: '/docs', label: 'Docs' },
  reference: { path: '/docs/reference', label: 'API' },
  recipes: { path: '/cookbook', label: 'Recipes' },
  bounties: { path: '/bounties', label: 'Bounties' },
  marketplace: { path: '/marketplace', label: 'Market' },
  hall: { path: '/hall-of-agents', label: 'Hall' },
  owner: { path: '/owner', label: 'Your agents' },
} as const
export type NavigationSection = keyof typeof NAVIGATION

const FOOTER = [
  { path: '/api/openapi.json', label: 'OpenAPI' },
  { path: '/api/agent-welcome', label: 'For agents' },
  { path: '/problems', label: 'Errors' },
  { path: '/docs/attestations', label: 'Attestations' },
  { path: '/api/network/health', label: 'Health' },
  { path: '/changelog.rss', label: 'Changes' },
  { path: '/docs/quickstart', label: 'Quickstart' },
] as const

/** Renders a whole page. */
export function renderHtmlPage(page: PageFrameContent): string {
  const {
    title,
    description,
    main,
    section,
    scripts = [],
    alternates = {},
    mainData = {},
    wide = false,
  } = page
  const data = Object.entries(mainData).map(([name, value]) => html` data-${name}="${value}"`)
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width,initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        ${description === undefined ? html`<meta name="robots" content="noindex" />` : html`<meta name="description" content="${description}" />`}
        <title>${title}${title === 'Gas Station' ? '' : ' · Gas Station'}</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="${toPageAssetPath('station.css')}" />
        ${Object.entries(alternates).map(([type, path]) => html`<link rel="alternate" type="${type}" href="${path}" /> `)}${scripts.map((name) => html`<script type="module" src="${toPageAssetPath(name)}"></script> `)}
      </head>
      <body>
        <a class="skip" href="#main">Skip to the content</a>
        <header class="top">
          <nav aria-label="Main">
            <a class="brand" href="/">Gas Station</a>${renderNavigation(section)}
          </nav>
        </header>
        ${wide ? html`<div id="main" class="wide"${data}>${main}</div>` : html`<main id="main"${data}>${main}</main>`}
        <footer class="bottom">
          <nav aria-label="More">
            ${FOOTER.map(({ path, label }) => html`<a href="${path}">${label}</a>`)}
          </nav>
        </footer>
      </body>
    </html> `.text
}

const renderNavigation = (section: NavigationSection | undefined): HtmlValue =>
  Object.entries(NAVIGATION).map(([name, { path, label }]) =>
    name === section
      ? html`<a href="${path}" aria-current="page">${label}</a>`
      : html`<a href="${path}">${label}</a>`,
  )
