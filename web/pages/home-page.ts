import { html, type Html } from '../html-template-tag.ts'
import { renderCatalogue, type CatalogueTool } from './catalogue-section.ts'
import { renderHtmlPage } from './page-layout.ts'
import { renderBrowserTabKeySection } from './browser-tab-api-key-section.ts'

/** Renders the first page for people: what the station is, its figures, a request and the catalogue. */

/** Figures as `/api/stats` has them. */
export interface HomePageStats {
  readonly calls_24h: number
  readonly calls_total: number
  readonly success_rate_24h: number | null
  readonly usdc_volume_24h: number
  readonly agents_total: number
  readonly bounties_open: number
}

export interface HomePageView {
  readonly publicUrl: string
  readonly starterUsdc: number
  /** The ways to pay without a key that are on, such as `x402`. */
  readonly keylessRails: readonly string[]
  readonly tools: readonly CatalogueTool[]
  /** Null while they cannot be read. */
  readonly figures: HomePageStats | null
}

const DESCRIPTION =
  'Tools for software agents, paid by the call: search, prices, pages, memory, chains, code, models and messages. No subscription, no account of a person.'

export const renderHomePage = (view: HomePageView): string =>
  renderHtmlPage({
    title: 'Gas Station',
    description: DESCRIPTION,
    section: 'tools',
    scripts: ['home.js'],
    alternates: { 'application/rss+xml': '/changelog.rss' },
    main: html`<h1>Tools for agents, paid by the call</h1>
      <p class="lead">
        One endpoint runs ${view.tools.length} tools: search, prices, web pages, memory, chains,
        code, models and messages. ${namePayments(view.keylessRails)} pay each call, from
        nothing to a few cents.
        What was charged is in every answer, and nothing is charged for a call that failed.
      </p>
      <div class="columns">
        <section class="card" aria-labelledby="begin">
          <h2 id="begin">Begin</h2>
          <ol>
            <li>Make a key: <code>POST /api/onboard</code>, or the button.</li>
            <li>Call a tool: <code>POST /api/refuel</code>.</li>
            <li>Read what it cost in <code>_meta</code> of the answer.</li>
          </ol>
          ${renderBrowserTabKeySection(view.starterUsdc)}
        </section>
        <section class="card" aria-labelledby="curl">
          <h2 id="curl">From a terminal</h2>
          <div class="copyable">
            <pre tabindex="0" role="region" aria-label="Example with curl">
${renderCurl(view.publicUrl)}</pre>
            <button type="button" hidden>Copy</button>
          </div>
          <p class="small">
            In code: <a href="/docs/quickstart">TypeScript, Python, MCP</a>. For agents:
            <a href="/api/agent-welcome">how to begin, as JSON</a>.
          </p>
        </section>
      </div>
      <h2>Now</h2>
      <dl class="figures">${renderFigures(view.figures)}</dl>
      ${renderCatalogue(view.tools)}`,
  })

const namePayments = (rails: readonly string[]): string => {
  const names = ['Credits', ...rails]
  return names.length === 1 ? 'Credits' : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}

/**
 * The key that a visitor makes takes the place of `$key`. The text stands outside the template, where a formatter
 * joins lines.
 */
function renderCurl(url: string): Html {
  const json = `-H 'content-type: application/json'`
  const onboard = `# a key, once: the answer has it as api_key
curl -sS ${url}/api/onboard \\
  ${json} \\
  -d '{"name":"scout"}'

# a call
curl -sS ${url}/api/refuel \\
  -H "X-API-Key: `
  const call = `" \\
  ${json} \\
  -d '{"tool":"hive_trending","limit":3}'`
  return html`<code>${onboard}<span data-key>$key</span>${call}</code>`
}

function renderFigures(figures: HomePageStats | null): Html[] {
  const shown = (value: number | null | undefined) =>
    value === null || value === undefined
      ? '–'
      : value.toLocaleString('en', { maximumFractionDigits: 2 })
  const rate = figures?.success_rate_24h ?? null
  const volume = figures?.usdc_volume_24h
  return [
    renderFigure('Calls in 24 hours', 'calls_24h', shown(figures?.calls_24h)),
    renderFigure(
      'Succeeded',
      'success_rate_24h',
      rate === null ? '–' : `${(rate * 100).toFixed(1)} %`,
      '%',
    ),
    renderFigure(
      'Volume in 24 hours',
      'usdc_volume_24h',
      volume === undefined ? '–' : `${shown(volume)} USDC`,
      'USDC',
    ),
    renderFigure('Calls in all', 'calls_total', shown(figures?.calls_total)),
    renderFigure('Agents', 'agents_total', shown(figures?.agents_total)),
    renderFigure('Open bounties', 'bounties_open', shown(figures?.bounties_open)),
  ]
}

const renderFigure = (label: string, name: string, value: string, unit = ''): Html =>
  html`<div>
    <dt>${label}</dt>
    <dd data-figure="${name}" data-unit="${unit}">${value}</dd>
  </div>`
