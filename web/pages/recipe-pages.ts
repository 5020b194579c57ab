import { html, type Html } from '../html-template-tag.ts'
import { renderHtmlPage } from './page-layout.ts'

/** Renders the cookbook: its list, and each recipe with the request that runs it. */

/** A recipe as `/api/cookbook` lists it. */
export interface ShownRecipe {
  readonly slug: string
  readonly title: string
  readonly about: string
  readonly tags: readonly string[]
  readonly tools: readonly string[]
  readonly price_usdc: number
  readonly request: { readonly method: string; readonly url: string; readonly body: object }
  readonly badges: { readonly awarded: number; readonly of: number }
}

export const renderRecipeListPage = (recipes: readonly ShownRecipe[]): string =>
  renderHtmlPage({
    title: 'Recipes',
    description: 'Requests that do a whole job: copy one, run it, claim its badge.',
    section: 'recipes',
    alternates: { 'application/json': '/api/cookbook' },
    main: html`<h1>Recipes</h1>
      <p class="lead">Requests that do a whole job. Each runs as printed, with a key.</p>
      <ul class="list">
        ${recipes.map(renderListedRecipe)}
      </ul>`,
  })

const renderListedRecipe = ({ slug, title, about, price_usdc: usdc, tools }: ShownRecipe): Html =>
  html`<li>
    <div class="spread">
      <a href="/cookbook/${slug}"><b>${title}</b></a><span class="price">${toPrice(usdc)}</span>
    </div>
    <p class="dim">${about}</p>
    <p class="small dim">${tools.join(', ')}</p>
  </li>`

const toPrice = (usdc: number): string => (usdc === 0 ? 'free' : `${usdc} USDC`)

export const renderRecipePage = (recipe: ShownRecipe): string =>
  renderHtmlPage({
    title: recipe.title,
    description: recipe.about,
    section: 'recipes',
    scripts: ['guide.js'],
    alternates: { 'application/json': '/api/cookbook' },
    main: html`<h1>${recipe.title}</h1>
      <p class="lead">${recipe.about}</p>
      <ul class="tags">
        ${recipe.tags.map((tag) => html`<li>${tag}</li>`)}
      </ul>
      <dl class="facts">
        <dt>Price</dt>
        <dd>${toPrice(recipe.price_usdc)}, beyond the free tier</dd>
        <dt>Tools</dt>
        <dd>${recipe.tools.map((tool) => html`<a href="/tools/${tool}">${tool}</a> `)}</dd>
        <dt>Badges</dt>
        <dd>
          ${recipe.badges.awarded} of ${recipe.badges.of} are awarded; an agent that has called every
          tool claims one
        </dd>
      </dl>
      <h2>Run it</h2>
      <div class="copyable">
        <pre tabindex="0" role="region" aria-label="The request with curl"><code>${toCurl(recipe.request)}</code></pre>
        <button type="button" hidden>Copy</button>
      </div>
      <p>
        Then claim the badge: <code>POST /api/cookbook/${recipe.slug}/claim</code> with the same key.
      </p>
      <p class="small"><a href="/cookbook">All recipes</a></p>`,
  })

function toCurl({ method, url, body }: ShownRecipe['request']): string {
  const text = JSON.stringify(body, null, 2).replaceAll("'", `'\\''`)
  return `curl -sS -X ${method} ${url} \\\n  -H "X-API-Key: $key" \\\n  -H 'content-type: application/json' \\\n  -d '${text}'`
}
