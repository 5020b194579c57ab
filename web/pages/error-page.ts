import { html } from '../html-template-tag.ts'
import { renderHtmlPage } from './page-layout.ts'

/** Renders an error for a browser: the words of the problem, and ways on. */

export interface ErrorPageView {
  readonly status: number
  readonly code: string
  readonly title: string
  readonly detail: string
  /** The id of the request, which the log of the station has too. */
  readonly requestId: string
}

export const renderErrorPage = ({
  status,
  code,
  title,
  detail,
  requestId,
}: ErrorPageView): string =>
  renderHtmlPage({
    title: `${status}`,
    main: html`<h1>${title}</h1>
      ${detail !== title && html`<p class="lead">${detail}</p>`}
      <p>
        <a href="/">The first page</a> has all tools, and <a href="/docs">the guides</a> explain
        them.
      </p>
      <p class="dim small">
        ${status} <a href="/problems/${code}"><code>${code}</code></a
        >, request <code>${requestId}</code>
      </p>`,
  })
