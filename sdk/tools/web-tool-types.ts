/** Generated from the catalogue by `npm run docs:sdk`. */
export interface WebToolTypes {
  /** Searches the web with the first source that answers; if none does, the public Hive is searched, and the answer is marked as degraded and free. */
  web_search: {
    input: { readonly query: string; readonly max_results?: number }
    output: {
      readonly results: readonly {
        readonly title: string
        readonly url: string
        readonly snippet: string
        /** The provider that found it. */
        readonly source: string
      }[]
      readonly query: string
      readonly count: number
      /** No web engine answered: these are Hive entries. */
      readonly degraded?: boolean
      /** Engines that failed before. */
      readonly sources_failed?: readonly { readonly source: string; readonly code: string }[]
    }
  }
  /** Runs three searches at once, reads up to six pages, and answers with statements that each cite the source they were checked against. */
  deep_search: {
    input: { readonly query: string }
    output: {
      readonly query: string
      /** Each statement ends with its citations: [1]. */
      readonly answer: string
      readonly citations: readonly {
        readonly n: number
        readonly title: string
        readonly url: string
        /** The provider that found it. */
        readonly source: string
        /** `snippet`: the page itself could not be read. */
        readonly kind: 'page' | 'snippet' | 'hive'
        /** The statements that cite it. */
        readonly supports: readonly string[]
      }[]
      /** `extractive`: the statements are sentences of the sources, word for word. */
      readonly method: 'extractive' | 'llm'
      /** A model's statements that its sources do not support. */
      readonly statements_dropped?: number
      readonly sources_considered: number
      readonly searches: readonly { readonly kind: string; readonly count: number }[]
      readonly pages_unread: readonly { readonly url: string; readonly code: string }[]
      /** No web engine answered: the answer is from the Hive. */
      readonly degraded?: boolean
      /** Engines that failed. */
      readonly sources_failed?: readonly { readonly source: string; readonly code: string }[]
    }
  }
  /** Fetches a public URL as JSON, text or CSV. Header values may name {{keyring.NAME}}; an answer of any status is a result. */
  data_retrieval: {
    input: {
      readonly url: string
      readonly headers?: Readonly<Record<string, string>>
      readonly format?: 'json' | 'text' | 'csv'
    }
    output: {
      /** Parsed JSON, text, or an array of CSV records. */
      readonly data: unknown
      readonly status_code: number
      readonly content_type: string | null
      readonly fetched_at: string
      /** The address after redirects. */
      readonly url: string
      /** Why the body is text instead of the requested format. */
      readonly parse_error?: string
    }
  }
}
