import { html } from '../html-template-tag.ts'
import { renderHtmlPage } from './page-layout.ts'

/** Renders the API reference: OpenAPI Explorer draws the document of this station. */

export const renderApiReferencePage = (): string =>
  renderHtmlPage({
    title: 'API reference',
    description: 'Every request and answer of the station, with a form that sends each request.',
    section: 'reference',
    scripts: ['reference.js'],
    wide: true,
    main: html`<section aria-label="API reference"><h1 class="unseen">API reference</h1></section>
      <noscript
        ><p class="note">
          The reference needs a script. The same in tables:
          <a href="/docs/tables">endpoints, tools and errors</a>; for programs:
          <a href="/api/openapi.json">OpenAPI</a>.
        </p></noscript
      >
      <div id="reference">
        <p class="dim loading">
          The reference is loading. In tables:
          <a href="/docs/tables">endpoints, tools and errors</a>.
        </p>
      </div>`,
  })
