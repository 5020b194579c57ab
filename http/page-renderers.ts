import type {
  FundingPageData,
  PublicAgentFundingInfo,
} from '../domain/agent-funding-info-and-instructions.ts'
import type { ScoredAgent } from '../persistence/statistics/public-statistics-store.ts'
import type { CatalogueEntry } from '../tools/tool-ports.ts'

/** Pages, badges and feeds as `web/` renders them; the HTTP layer decides who gets which. */

export interface RenderedWebFile {
  readonly type: string
  readonly body: Buffer
  readonly etag: string
}

interface ExplainedProblem {
  readonly code: string
  readonly status: number
  readonly title: string
  readonly remedy: {
    readonly action: string
    readonly method?: string
    readonly url?: string
  } | null
}

interface ShownRecipe {
  readonly slug: string
  readonly title: string
  readonly about: string
  readonly tags: readonly string[]
  readonly tools: readonly string[]
  readonly price_usdc: number
  readonly request: { readonly method: string; readonly url: string; readonly body: object }
  readonly badges: { readonly awarded: number; readonly of: number }
}

interface ShownBounty {
  readonly bounty_id: string
  readonly status: 'open' | 'claimed' | 'expired'
  readonly title: string
  readonly description: string
  readonly domain: string
  readonly required_keywords: readonly string[]
  readonly min_quality_score: number
  readonly reward_usdc: number
  readonly expires_at: string
  readonly closed_reason: string | null
}

interface ShownListing {
  readonly pack_id: string
  readonly status: 'open' | 'withdrawn'
  readonly name: string
  readonly description: string
  readonly price_usdc: number
  readonly accepts_promo: boolean
  readonly entry_count: number
  readonly types: readonly string[]
  readonly tags: readonly string[]
  readonly previews: readonly string[]
  readonly seller_reputation: { readonly score: number; readonly tier: string }
  readonly rating: { readonly average: number | null; readonly count: number }
  readonly sold_count: number
}

export interface PageRenderers {
  /** The first page; figures as `/api/stats` has them, null while they cannot be read. */
  home(view: {
    readonly publicUrl: string
    readonly starterUsdc: number
    readonly keylessRails: readonly string[]
    readonly tools: readonly CatalogueEntry[]
    readonly figures: {
      readonly calls_24h: number
      readonly calls_total: number
      readonly success_rate_24h: number | null
      readonly usdc_volume_24h: number
      readonly agents_total: number
      readonly bounties_open: number
    } | null
  }): string
  /** A tool with a form that runs it. */
  tool(view: {
    readonly publicUrl: string
    readonly starterUsdc: number
    readonly keylessRails: readonly string[]
    readonly tool: CatalogueEntry
  }): string
  /** All guides in the order of reading. */
  guides(): readonly {
    readonly slug: string
    readonly title: string
    readonly about: string
    readonly group: string
  }[]
  /** The list of guides as a page. */
  guideList(): string
  /** A guide as a page; null when there is none of this name. */
  guide(slug: string, publicUrl: string): Promise<string | null>
  /** A guide as Markdown. */
  guideMarkdown(slug: string, publicUrl: string): string | null
  /** An image of a guide by its path. */
  guideImage(path: string): RenderedWebFile | null
  /** The API reference. */
  reference(): string
  /** The page of an owner; its script reads all data. */
  owner(): string
  /** Where the link of a weekly digest leads. */
  digest(view: {
    readonly email: string
    readonly isSubscribed: boolean
    readonly isChanged: boolean
  }): string
  /** Every error code. */
  problemList(problems: readonly ExplainedProblem[]): string
  problem(problem: ExplainedProblem, publicUrl: string): string
  recipeList(recipes: readonly ShownRecipe[]): string
  recipe(recipe: ShownRecipe): string
  bountyList(bounties: readonly ShownBounty[]): string
  bounty(bounty: ShownBounty, publicUrl: string): string
  listingList(listings: readonly ShownListing[]): string
  listing(listing: ShownListing, publicUrl: string): string
  /** An error, for a browser. */
  error(view: {
    readonly status: number
    readonly code: string
    readonly title: string
    readonly detail: string
    readonly requestId: string
  }): string
  /** `typed`: an amount as a visitor typed it, beside the suggested ones. */
  fund(view: FundingPageData, typed: string | null): Promise<string>
  /** Texts of the funding page that change while it is open. */
  fundTexts(status: PublicAgentFundingInfo): { balance: string; deposits: string }
  /** Holders of the three highest tiers, highest score first. */
  hall(agents: readonly ScoredAgent[]): string
  /** An SVG image with two labelled halves. */
  badge(badge: {
    readonly label: string
    readonly value: string
    readonly colour: 'neutral' | 'good' | 'gold'
  }): string
  /** An RSS 2.0 document. */
  rss(feed: {
    readonly title: string
    readonly link: string
    readonly self: string
    readonly description: string
    readonly items: readonly {
      readonly title: string
      readonly link: string
      readonly description: string
      readonly guid: string
      readonly at: Date
      readonly categories?: readonly string[]
    }[]
  }): string
  /** A stylesheet or script of the pages by its name; null when there is none. */
  asset(name: string): RenderedWebFile | null
  /** The version of all assets together, which pages name in their addresses. */
  assetsVersion(): string
  /** A file of the inspector's page by its path; null when there is none. */
  inspectorFile(path: string): RenderedWebFile | null
}
