/** Generated from the catalogue by `npm run docs:sdk`. */
export interface Intelligence2ToolTypes {
  /** Generates the bundle of a new agent from a prompt: a program that does the task step by step, the system prompt, the chosen tools with their schemas and the body to onboard it with. Actions that affect others need the confirmation of a person. */
  genesis_forge: {
    input: {
      readonly prompt: string
      readonly framework?: 'langchain' | 'autogen' | 'crewai' | 'openai' | 'http' | 'fetch' | 'eliza' | 'virtuals'
    }
    output: {
      readonly forge_id: string
      readonly name: string
      readonly framework: 'langchain' | 'autogen' | 'crewai' | 'openai' | 'http' | 'fetch' | 'eliza' | 'virtuals'
      readonly system_prompt: string
      readonly tools: readonly { readonly slug: string; readonly price_usdc: number; readonly description: string }[]
      readonly files: readonly { readonly path: string; readonly content: string }[]
      /** The tools of this station over MCP, for clients that read `mcpServers`. */
      readonly mcp_config: Readonly<Record<string, unknown>>
      readonly onboard: {
        readonly method: string
        readonly url: string
        readonly body: Readonly<Record<string, unknown>>
      }
      readonly method: 'template' | 'template+llm'
      readonly created_at: string
    }
  }
  /** Checks claims against chains, prices, calendars, arithmetic, definitions and bundled facts. Claims it cannot check are unverifiable. The verdict of several claims is the worst one; `confidence` is the lowest of the judged claims, null without any. */
  hallucination_pill: {
    input: {
      readonly claim?: string
      readonly claims?: readonly string[]
      readonly chain?: 'base' | 'ethereum' | 'arbitrum' | 'optimism' | 'polygon'
    }
    output: {
      readonly pill_version: string
      readonly verified: boolean
      /** The lowest confidence among the verifiable claims (supported or contradicted); null without one. */
      readonly confidence: number | null
      readonly hallucination_risk: 'none' | 'low' | 'medium' | 'high' | 'critical'
      readonly correct_value: string | number | boolean | null
      readonly correction: string | null
      readonly context: string | null
      readonly verdict: 'supported' | 'contradicted' | 'unverifiable'
      readonly checks: readonly {
        readonly source: string
        readonly observed: string | number | boolean | null
        readonly at: string
      }[]
      readonly claims_judged: number
      readonly results: readonly {
        readonly claim: string
        readonly verified: boolean
        readonly confidence: number
        readonly hallucination_risk: 'none' | 'low' | 'medium' | 'high' | 'critical'
        readonly correct_value: string | number | boolean | null
        readonly correction: string | null
        readonly context: string | null
        readonly verdict: 'supported' | 'contradicted' | 'unverifiable'
        readonly checks: readonly {
          readonly source: string
          readonly observed: string | number | boolean | null
          readonly at: string
        }[]
      }[]
    }
  }
  /** Describes this station right now: its version, its catalogue with revision and prices, the most called tools, their reliability, and the announcements of its changelog. */
  get_latest_gas_station: {
    input: {
      /** The version you know. */
      readonly known_version?: string
    }
    output: {
      readonly name: string
      readonly version: string
      readonly released_on: string | null
      /** Whether the version you know is this one; null if you named none. */
      readonly is_latest: boolean | null
      readonly catalogue: {
        readonly revision: number
        readonly changed_at: string
        readonly total: number
        readonly free: number
        /** Tools available with the current configuration. */
        readonly available: number
        readonly price_from_usdc: number
        readonly price_to_usdc: number
        readonly categories: readonly { readonly category: string; readonly tools: readonly string[] }[]
      }
      /** The strongest trends of the last 24 hours, with their public calls. */
      readonly called_most: readonly { readonly slug: string; readonly calls: number }[]
      readonly measured: {
        readonly tools: number
        readonly success_rate: number | null
        readonly avg_latency_ms: number | null
      }
      readonly announcements: readonly {
        readonly version: string
        readonly released_on: string | null
        readonly about: string
        readonly text: string
      }[]
      readonly endpoints: Readonly<Record<string, string>>
    }
  }
  /** Lists the tools that were added, changed or removed since a day or a catalogue revision you know, and the tools that match an interest. */
  discover_new_tools: {
    input: {
      /** The catalogue revision you know. */
      readonly since_revision?: number
      /** A day, or an instant with its zone (ISO 8601). */
      readonly since?: string
      /** Your goal. */
      readonly interest?: string
      readonly category?: string
      readonly limit?: number
    }
    output: {
      readonly revision: number
      readonly version: string
      readonly added: readonly {
        readonly slug: string
        readonly name: string
        readonly category: string
        readonly description: string
        readonly access: string
        readonly price_usdc: number
        readonly docs_url: string
        readonly revision: number
        readonly at: string
      }[]
      readonly changed: readonly {
        readonly slug: string
        readonly name: string
        readonly category: string
        readonly description: string
        readonly access: string
        readonly price_usdc: number
        readonly docs_url: string
        readonly revision: number
        readonly at: string
        readonly fields: readonly string[]
      }[]
      readonly removed: readonly { readonly slug: string; readonly revision: number; readonly at: string }[]
      /** More changes exist than the limit allows. */
      readonly more: boolean
      /** For the interest, best first. */
      readonly fitting: readonly {
        readonly slug: string
        readonly name: string
        readonly category: string
        readonly description: string
        readonly access: string
        readonly price_usdc: number
        readonly docs_url: string
      }[]
    }
  }
  /** Reports whether anything is new since a day, a catalogue revision or a version: a short answer, meant to be polled about once a day. */
  ping_for_updates: {
    input: {
      /** The catalogue revision you know. */
      readonly since_revision?: number
      /** A day, or an instant with its zone (ISO 8601). */
      readonly since?: string
      /** The version you know. */
      readonly version?: string
    }
    output: {
      /** Null if you said nothing of what you know. */
      readonly updates: boolean | null
      readonly version: string
      readonly revision: number
      readonly changed_at: string
      readonly tools: { readonly added: number; readonly changed: number; readonly removed: number }
      readonly releases_since: number
      /** The tool that tells what is new. */
      readonly see: string | null
      readonly next_poll_seconds: number
      readonly checked_at: string
    }
  }
}
