import { html, type Html } from '../html-template-tag.ts'
import { renderInlineCode } from './inline-code.ts'

/** The catalogue of tools with their prices, by category. */

export interface CatalogueTool {
  readonly slug: string
  readonly name: string
  readonly category: string
  readonly description: string
  readonly price_usdc: number
  readonly access: 'paid' | 'free' | 'free_with_key'
  readonly type: 'native' | 'community'
  readonly tags: readonly string[]
  readonly free_tier: {
    readonly calls_per_day: number | null
    readonly overage_price_usdc: number | null
  } | null
  readonly availability: { readonly available: boolean; readonly reason?: string }
}

const CATEGORY_TITLES: Readonly<Record<string, string>> = {
  web: 'Web',
  perception: 'Pages',
  finance: 'Prices and payments',
  memory: 'Memory',
  intelligence: 'Intelligence',
  compute: 'Compute and models',
  onchain: 'On-chain',
  comms: 'Messages',
}

/** What a call costs, in words. */
export function toPriceText({ price_usdc: usdc, access, free_tier: tier }: CatalogueTool): string {
  if (access === 'paid') return `${usdc} USDC`
  const free = access === 'free' ? 'free' : 'free with a key'
  const { calls_per_day: calls = null, overage_price_usdc: overage = null } = tier ?? {}
  if (calls === null || overage === null) return free
  return `${free}, ${calls} a day, then ${overage} USDC`
}

/** Renders the list with its search, which needs a script and is hidden without one. */
export function renderCatalogue(tools: readonly CatalogueTool[]): Html {
  const categories = [...new Set(tools.map(({ category }) => category))]
  return html`<section aria-labelledby="tools">
    <h2 id="tools">Tools</h2>
    <div class="search" hidden>
      <label for="search">Search ${tools.length} tools</label
      ><input type="search" id="search" autocomplete="off" />
    </div>
    <p id="none-found" class="dim small" role="status"></p>
    ${categories.map(
      (category) =>
        html`<div class="group">
          <h3>${CATEGORY_TITLES[category] ?? category}</h3>
          <ul class="list">
            ${tools.filter((tool) => tool.category === category).map(renderCatalogueTool)}
          </ul>
        </div> `,
    )}
  </section>`
}

const renderCatalogueTool = (tool: CatalogueTool): Html =>
  html`<li>
    <div class="spread">
      <a href="/tools/${tool.slug}"><b>${tool.slug}</b></a
      ><span class="price">${toPriceText(tool)}</span>
    </div>
    <p class="dim">
      ${renderInlineCode(tool.description)}${tool.type === 'community' && ' Offered by another agent.'}
    </p>
    ${tool.availability.reason !== undefined && html`<p class="small">${tool.availability.reason}</p>`}
  </li>`
