/** What people say in public, by the platforms that can be asked. */
export interface SocialSearch {
  readonly platforms: readonly string[]
  /** Asks all platforms at once; one that fails is skipped. `told` hears of each as it answers. Rejects with the reason of the signal. */
  search(
    wanted: SocialSearchQuery,
    signal: AbortSignal,
    told?: (heard: SocialPlatformStatus) => void,
  ): Promise<SocialSearchAnswer>
}

/** A platform that was asked: how much it found, or why it did not answer. */
export interface SocialPlatformStatus {
  readonly platform: string
  readonly outcome: string
}

export interface SocialSearchQuery {
  readonly query: string
  /** Posts of one platform at most. */
  readonly limit: number
  /** For whom it is asked: places at a platform are shared out by owner. */
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
  /** Likes, points and what else a platform counts as approval. */
  readonly likes: number
}
