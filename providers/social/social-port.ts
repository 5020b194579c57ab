/** Searches public posts on social platforms. */
export interface SocialSearch {
  readonly platforms: readonly string[]
  /**
   * Queries all platforms at once; failed ones are skipped. `onStatus` is called as each answers. Rejects with
   * the signal's reason.
   */
  search(
    wanted: SocialSearchQuery,
    signal: AbortSignal,
    onStatus?: (status: SocialPlatformQueryOutcome) => void,
  ): Promise<SocialSearchAnswer>
}

/** The status of a queried platform: its number of posts, or its failure. */
export interface SocialPlatformQueryOutcome {
  readonly platform: string
  readonly outcome: string
}

export interface SocialSearchQuery {
  readonly query: string
  /** Maximum posts per platform. */
  readonly limit: number
  /** Capacity of a platform is shared by owner. */
  readonly owner: string
}

export interface SocialSearchAnswer {
  /** Newest first. */
  readonly posts: readonly SocialPost[]
  readonly checked: readonly string[]
  readonly skipped: readonly { readonly name: string; readonly reason: string }[]
  readonly mode: 'live' | 'fixture'
}

export interface SocialPost {
  readonly platform: string
  readonly author: string
  /** Plain text. */
  readonly text: string
  readonly url: string
  /** ISO 8601. */
  readonly at: string
  /** Likes, points or other approval on the platform. */
  readonly likes: number
}
