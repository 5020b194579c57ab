import { html, type Html } from '../html-template-tag.ts'
import { toPriceText, type CatalogueTool } from './catalogue-section.ts'
import { renderInlineCode } from './inline-code.ts'
import { renderHtmlPage } from './page-layout.ts'
import { renderBrowserTabKeySection } from './browser-tab-api-key-section.ts'
import { renderFormFields, toSampleToolInput, type ToolInputJsonSchema } from './tool-form.ts'

/** Renders the page of a tool: what it does, what it costs, and a form that runs it. */

/** A tool as `GET /api/tools/{slug}` shows it. */
export interface ShownTool extends CatalogueTool {
  readonly key_required: boolean
  readonly acts_on_others: boolean
  readonly success_rate: number | null
  readonly avg_latency_ms: number | null
  readonly input_schema: unknown
  readonly output_schema: unknown
  readonly example_calls: readonly Readonly<Record<string, unknown>>[]
  readonly use_cases: readonly string[]
  readonly builder?: { readonly name: string; readonly verified: boolean }
}

export interface ToolPageView {
  readonly publicUrl: string
  readonly starterUsdc: number
  /** The ways to pay without a key that are on, such as `x402`. */
  readonly keylessRails: readonly string[]
  readonly tool: ShownTool
}

export function renderToolPage({
  publicUrl,
  starterUsdc,
  keylessRails,
  tool,
}: ToolPageView): string {
  const schema = tool.input_schema as ToolInputJsonSchema
  const { tool: _slug, ...example } = tool.example_calls[0] ?? {}
  const sent = tool.example_calls.length > 0 ? example : toSampleToolInput(schema)
  return renderHtmlPage({
    title: tool.slug,
    description: `${tool.description} ${toPriceText(tool)} a call.`,
    section: 'tools',
    scripts: ['tool.js'],
    alternates: { 'application/json': `/api/tools/${tool.slug}` },
    main: html`<h1>${tool.slug}</h1>
      <p class="lead">${renderInlineCode(tool.description)}</p>
      ${renderNotices(tool)}
      <ul class="tags">
        ${tool.tags.map((tag) => html`<li>${tag}</li>`)}
      </ul>
      <div class="columns">
        <section class="card" aria-labelledby="run-it">
          <h2 id="run-it">Run it</h2>
          <form id="call" data-tool="${tool.slug}">
            ${renderFormFields(schema, example)}
            <p><b>Price</b> <span id="price" role="status">${toPriceText(tool)}</span></p>
            <p><button type="submit" id="run" disabled>Run</button></p>
          </form>
          <noscript
            ><p class="note">
              The form needs a script. The request beside it does the same.
            </p></noscript
          >
          <div id="answer" aria-live="polite"></div>
        </section>
        <div>
          <section class="card" aria-labelledby="your-key">
            <h2 id="your-key">Key</h2>
            ${renderBrowserTabKeySection(starterUsdc)}
          </section>
          ${renderFacts(tool, keylessRails)}
        </div>
      </div>
      <h2>From a terminal</h2>
      <div class="copyable">
        <pre
          tabindex="0"
          role="region"
          aria-label="Example with curl"
        ><code>${toCurl(publicUrl, tool, sent)}</code></pre>
        <button type="button" hidden>Copy</button>
      </div>
      ${renderUseCases(tool)}
      <h2>Fields</h2>
      ${renderFieldTable('Input', 'required', schema)}
      ${renderFieldTable('Answer', 'always', tool.output_schema as ToolInputJsonSchema)}
      <p class="small">
        As JSON, with both schemas: <a href="/api/tools/${tool.slug}">/api/tools/${tool.slug}</a>
      </p>`,
  })
}

function renderNotices({ acts_on_others: acts, availability, builder }: ShownTool): Html[] {
  const notices: Html[] = []
  if (builder !== undefined)
    notices.push(
      html`<p class="note">
        Offered by ${builder.name},
        ${builder.verified ? 'verified by the operator' : 'not verified by the operator'}. Its
        fields go to a server of this builder.
      </p>`,
    )
  if (acts)
    notices.push(
      html`<p class="note">
        A call acts on others: on agents, people, sites or chains. It cannot be undone.
      </p>`,
    )
  if (availability.reason !== undefined)
    notices.push(html`<p class="note">${availability.reason}</p>`)
  return notices
}

/** Whether a call needs a key on this station, where payments without one may be off. */
function describeKey(
  { key_required: always, access }: ShownTool,
  rails: readonly string[],
): string {
  if (always) return 'needed'
  if (access === 'free') return 'not needed'
  return rails.length === 0
    ? 'needed: credits pay here'
    : `not needed with a payment by ${rails.join(' or ')}`
}

function renderFacts(tool: ShownTool, rails: readonly string[]): Html {
  const rate =
    tool.success_rate === null
      ? 'no call in seven days'
      : `${(tool.success_rate * 100).toFixed(1)} %, over seven days`
  const took = tool.avg_latency_ms === null ? '–' : `${Math.round(tool.avg_latency_ms)} ms`
  return html`<section class="card" aria-labelledby="facts">
    <h2 id="facts">Facts</h2>
    <dl class="facts">
      <dt>Price</dt>
      <dd>${toPriceText(tool)}</dd>
      <dt>Key</dt>
      <dd>${describeKey(tool, rails)}</dd>
      <dt>Succeeded</dt>
      <dd>${rate}</dd>
      <dt>Takes</dt>
      <dd>${took}</dd>
    </dl>
  </section>`
}

/** A key where the tool needs one or is paid with credits. */
function toCurl(url: string, tool: ShownTool, example: Readonly<Record<string, unknown>>): string {
  const body = JSON.stringify({ tool: tool.slug, ...example }).replaceAll("'", `'\\''`)
  const key = tool.access === 'free' ? '' : `  -H "X-API-Key: $key" \\\n`
  return `curl -sS ${url}/api/refuel \\\n${key}  -H 'content-type: application/json' \\\n  -d '${body}'`
}

const renderUseCases = ({ use_cases: uses }: ShownTool): Html | null =>
  uses.length === 0
    ? null
    : html`<h2>Uses</h2>
        <ul>
          ${uses.map((use) => html`<li>${use}</li>`)}
        </ul>`

/** `mark` is what a field is that the schema requires. */
function renderFieldTable(
  title: string,
  mark: string,
  { properties = {}, required = [] }: ToolInputJsonSchema,
): Html | null {
  const rows = Object.entries(properties)
  if (rows.length === 0) return html`<p class="dim">${title}: no fields.</p>`
  return html`<h3>${title}</h3>
    <div class="scroll" tabindex="0" role="region" aria-label="${title}">
      <table>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Type</th>
            <th scope="col">About</th>
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            ([name, schema]) =>
              html`<tr>
                <td>
                  <code>${name}</code
                  >${required.includes(name) && html` <span class="dim small">${mark}</span>`}
                </td>
                <td>${describeType(schema)}</td>
                <td>${renderInlineCode(schema.description ?? '')}</td>
              </tr> `,
          )}
        </tbody>
      </table>
    </div>`
}

function describeType({ type, enum: values, items }: ToolInputJsonSchema): string {
  if (values !== undefined) return values.map(String).join(' | ')
  if (type === 'array') return items?.type === undefined ? 'list' : `list of ${String(items.type)}`
  return type === undefined ? 'any' : [type].flat().join(' or ')
}
