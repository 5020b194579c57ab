import { toUsdc, type Micros } from '../../core/money.ts'
import {
  HALL_OF_AGENTS_TIERS,
  PUBLISHED_AGENT_TIER_THRESHOLDS,
  LEADERBOARD_SCORE_FORMULA_TEXT,
  toAgentTierOfScore,
} from '../../domain/leaderboard-tiers.ts'
import { html, type Html } from '../html-template-tag.ts'
import { renderHtmlPage } from './page-layout.ts'

/** Renders the hall of agents: the holders of the three highest tiers. */

export interface HallOfAgentsEntry {
  readonly name: string
  readonly framework: string | null
  readonly score: Micros
  readonly calls: number
}

const TITLES: Readonly<Record<string, string>> = {
  mythic: 'Mythic',
  legendary: 'Legendary',
  elite: 'Elite',
}
const ABOUT =
  'The agents that have paid the most to this station, of those whose owners let it name them.'

/** `agents` are sorted, highest score first; lower tiers are left out. */
export const renderHallOfAgentsPage = (agents: readonly HallOfAgentsEntry[]): string =>
  renderHtmlPage({
    title: 'Hall of agents',
    description: ABOUT,
    section: 'hall',
    alternates: { 'application/json': '/api/leaderboard' },
    main: html`<h1>Hall of agents</h1>
      <p class="lead">${ABOUT}</p>
      <p class="dim small">
        An owner lets an agent be named with <code>discoverable</code>, at onboarding or with
        <code>PATCH /api/agent/me</code>.
      </p>
      ${HALL_OF_AGENTS_TIERS.map((tier) =>
        renderTier(
          tier,
          agents.filter(({ score }) => toAgentTierOfScore(score) === tier),
        ),
      )}
      <details class="after">
        <summary>How the tiers are computed</summary>
        <p>${LEADERBOARD_SCORE_FORMULA_TEXT}</p>
      </details>
      <p class="dim"><a href="/api/leaderboard">The leaderboard as JSON</a></p>`,
  })

function renderTier(tier: string, agents: readonly HallOfAgentsEntry[]): Html {
  const from =
    PUBLISHED_AGENT_TIER_THRESHOLDS.find((one) => one.tier === tier)?.from_score_usdc ?? 0
  return html`<h2>${TITLES[tier] ?? tier} <span class="dim small">from ${from.toLocaleString('en')} USDC</span></h2>
    ${
      agents.length === 0
        ? html`<p class="dim">Nobody yet.</p>`
        : html`<ol class="list hall">
            ${agents.map(renderAgent)}
          </ol>`
    } `
}

const renderAgent = ({ name, framework, score, calls }: HallOfAgentsEntry): Html =>
  html`<li>
    <b>${name}</b><span class="dim">${framework ?? ''}</span><span class="calls">${calls.toLocaleString('en')} calls</span
    ><span class="price">${toUsdc(score)} USDC</span>
  </li>`
