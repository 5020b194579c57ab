import { html, type Html } from '../html-template-tag.ts'
import { renderHtmlPage } from './page-layout.ts'

/** Renders the error codes: their list, and each at the address that problem documents have as `type`. */

/** An error code as `/problems` lists it. */
export interface ExplainedProblem {
  readonly code: string
  readonly status: number
  readonly title: string
  readonly remedy: {
    readonly action: string
    readonly method?: string
    readonly url?: string
  } | null
}

/** What a class of statuses means for the caller. */
const STATUS_ADVICE: Readonly<Record<string, string>> = {
  '400':
    'The request is at fault. Change it as `errors` says; sent again unchanged, it fails again.',
  '401': 'Send a key that works, as `X-API-Key`.',
  '402': 'Something has to be paid or raised first. Nothing was charged.',
  '403': 'This key, or a limit of its owner, does not allow it. Nothing was charged.',
  '404': 'Check the address or the id.',
  '409': 'The state does not allow it now: read it again before the next try.',
  '422': 'What was sent is well-formed, but does not meet the conditions.',
  '429': 'Wait `retry_after` seconds; the header `RateLimit` says what is left.',
}
const SERVER_ADVICE =
  'The station or a source behind it is at fault. Nothing was charged; try again, later.'

export const renderProblemPage = (problem: ExplainedProblem, publicUrl: string): string =>
  renderHtmlPage({
    title: problem.code,
    description: problem.title,
    alternates: { 'application/json': `/problems/${problem.code}` },
    main: html`<h1><code>${problem.code}</code></h1>
      <p class="lead">${problem.title}</p>
      <dl class="facts">
        <dt>HTTP status</dt>
        <dd>${problem.status}</dd>
        <dt>What it means</dt>
        <dd>${adviceOf(problem.status)}</dd>
        ${problem.remedy !== null && renderRemedy(problem.remedy)}
      </dl>
      <h2>Example</h2>
      <pre tabindex="0" role="region" aria-label="Example"><code>${toExample(problem, publicUrl)}</code></pre>
      <p class="small">
        Programs read <code>code</code> and <code>remedy</code>; people read <code>detail</code>.
        <code>instance</code> names the request. More: <a href="/docs/conventions">the conventions</a>,
        <a href="/problems">all codes</a>.
      </p>`,
  })

/** All codes by status. */
export function renderProblemListPage(problems: readonly ExplainedProblem[]): string {
  const statuses = [...new Set(problems.map(({ status }) => status))].sort((a, b) => a - b)
  return renderHtmlPage({
    title: 'Errors',
    description: 'Every error code of the station, with its status and what to do.',
    alternates: { 'application/json': '/problems' },
    main: html`<h1>Errors</h1>
      <p class="lead">Every error is a problem document with one of these codes.</p>
      ${statuses.map(
        (status) => html`<h2>${status}</h2>
          <p class="dim">${adviceOf(status)}</p>
          <ul class="list">
            ${problems.filter((one) => one.status === status).map(renderListed)}
          </ul>`,
      )}`,
  })
}

const adviceOf = (status: number): string =>
  (
    STATUS_ADVICE[String(status)] ?? (status >= 500 ? SERVER_ADVICE : 'The request is refused.')
  ).replaceAll('`', '')

const renderListed = ({ code, title }: ExplainedProblem): Html =>
  html`<li><a href="/problems/${code}"><code>${code}</code></a><p class="dim">${title}</p></li>`

function renderRemedy({ action, method, url }: NonNullable<ExplainedProblem['remedy']>): Html {
  const request = [method, url].filter((part) => part !== undefined).join(' ')
  return html`<dt>What to do</dt>
    <dd>${toWords(action)}${request !== '' && html`: <code>${request}</code>`}</dd>`
}

/** `raise_budget` as "Raise budget". */
const toWords = (action: string): string =>
  `${action.charAt(0).toUpperCase()}${action.slice(1).replaceAll('_', ' ')}`

function toExample({ code, status, title, remedy }: ExplainedProblem, publicUrl: string): string {
  const document = {
    type: `${publicUrl}/problems/${code}`,
    title,
    status,
    detail: 'What happened in this request, in a sentence.',
    instance: 'urn:request:4f0e6a38-6c2b-4f5d-9f5e-0d9f3c1b2a77',
    code,
    ...(remedy === null ? {} : { remedy }),
  }
  return JSON.stringify(document, null, 2)
}
