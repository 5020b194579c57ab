import { toExactJson } from '../../../core/json/exact.ts'
import agentSee from '../../perception/agent-see.ts'
import dataRetrieval from '../../web/data-retrieval.ts'
import deepSearch from '../../web/deep-search.ts'
import type { Tool } from '../../define-tool.ts'
import hiveConsensus from '../hive-consensus.ts'
import hiveTrending from '../hive-trending.ts'
import onchainInsight from '../../onchain/onchain-insight.ts'
import priceFeed from '../../finance/price-feed.ts'
import { findTokenSymbols } from '../planner/parse-goal.ts'
import type { ResearchSource } from '../../web/research/gather-web-sources.ts'
import socialOracle from '../social-oracle.ts'
import walletInvestigate from '../../onchain/wallet-investigate.ts'
import webSearch from '../../web/web-search.ts'

/** The tools that crews may run, and their input. */

type Fields = Record<string, unknown>

/** A read-only tool whose input can be derived from words. */
export interface CrewRunnableTool {
  readonly tool: Tool
  /** Returns its input for a goal and its keywords; null where the goal leaves it open. */
  readonly inputForGoal: (goal: string, words: readonly string[]) => Fields | null
  /** Returns its input for a query; absent for tools without one. */
  readonly inputForQuery?: (query: string) => Fields
  /** Returns the quotable sources of its output, and the output in words. */
  readonly quoteOutput: (output: Fields) => {
    readonly sources: readonly ResearchSource[]
    readonly says: string
  }
}

export interface PlannedCrewToolCall {
  readonly bench: CrewRunnableTool
  readonly input: Fields
}

const ADDRESS = /\b0x[0-9a-fA-F]{40}\b/
const URL_IN_TEXT = /https?:\/\/[^\s"'<>]{3,500}/
const MAX_OUTPUT_CHARS = 2_000

const lines = (all: readonly string[]): string => all.map((one) => `- ${one}`).join('\n')
const list = (value: unknown): Fields[] => (Array.isArray(value) ? (value as Fields[]) : [])
const toText = (value: unknown): string => (typeof value === 'string' ? value : '')
const asJson = (output: unknown): string => {
  const text = toExactJson(output)
  return text.length > MAX_OUTPUT_CHARS ? `${text.slice(0, MAX_OUTPUT_CHARS - 1)}…` : text
}
const source = (
  found: Fields,
  kind: ResearchSource['kind'],
  text: string,
  by: string,
): ResearchSource => ({
  title: toText(found['title']),
  url: toText(found['url']),
  source: by,
  text,
  kind,
})

const words = (keywords: readonly string[], limit: number): string | null =>
  keywords.length === 0 ? null : keywords.slice(0, limit).join(' ')
const query = (text: string | null): Fields | null => (text === null ? null : { query: text })

const all: readonly CrewRunnableTool[] = [
  {
    tool: deepSearch,
    inputForGoal: (goal) => ({ query: goal.slice(0, 400) }),
    inputForQuery: (text) => ({ query: text }),
    quoteOutput: (output) => ({
      sources: list(output['citations']).map((one) =>
        source(
          one,
          one['kind'] as ResearchSource['kind'],
          (one['supports'] as string[]).join(' '),
          'deep_search',
        ),
      ),
      says: toText(output['answer']).replace(/ ?\[\d+\]/g, ''),
    }),
  },
  {
    tool: webSearch,
    inputForGoal: (_, keywords) => query(words(keywords, 4)),
    inputForQuery: (text) => ({ query: text }),
    quoteOutput: (output) => {
      const results = list(output['results'])
      return {
        sources: results.map((one) => source(one, 'snippet', toText(one['snippet']), 'web_search')),
        says: lines(results.map(({ title, url }) => `${toText(title)}: ${toText(url)}`)),
      }
    },
  },
  {
    tool: socialOracle,
    inputForGoal: (_, keywords) => query(words(keywords, 2)),
    inputForQuery: (text) => ({ query: text }),
    quoteOutput: (output) => {
      const posts = list(output['posts'])
      const { label, score, n } = output['sentiment'] as Fields
      return {
        sources: posts.map((one) =>
          source(
            { ...one, title: `${toText(one['author'])} on ${toText(one['platform'])}` },
            'snippet',
            toText(one['text']),
            'social_oracle',
          ),
        ),
        says: `${String(n)} posts; by a lexicon the feeling is ${String(label)} (${String(score)}).`,
      }
    },
  },
  {
    tool: priceFeed,
    inputForGoal(goal) {
      const symbols = findTokenSymbols(goal)
      return symbols.length === 0 ? null : { symbols }
    },
    quoteOutput: ({ prices }) => {
      const quotes = Object.entries(prices as Record<string, { usd: number } | null>)
      const shown = quotes.map(([symbol, quote]) =>
        quote === null ? `${symbol}: no price` : `${symbol}: ${quote.usd} USD`,
      )
      return { sources: [], says: lines(shown) }
    },
  },
  {
    tool: onchainInsight,
    inputForGoal(goal) {
      const [token = findTokenSymbols(goal)[0]] = ADDRESS.exec(goal) ?? []
      return token === undefined ? null : { query: token }
    },
    quoteOutput: ({ token, price_usd, liquidity_usd, risk_signals }) => ({
      sources: [],
      says: asJson({ token, price_usd, liquidity_usd, risk_signals }),
    }),
  },
  {
    tool: walletInvestigate,
    inputForGoal(goal) {
      const [address] = ADDRESS.exec(goal) ?? []
      return address === undefined ? null : { address }
    },
    quoteOutput: ({ ens_name, entity_label, usd_balance, risk_flags, chains_checked }) => ({
      sources: [],
      says: asJson({ ens_name, entity_label, usd_balance, risk_flags, chains_checked }),
    }),
  },
  {
    tool: agentSee,
    inputForGoal(goal) {
      const [url] = URL_IN_TEXT.exec(goal) ?? []
      return url === undefined ? null : { url, extract: ['title', 'headings', 'prices'] }
    },
    quoteOutput: ({ title, url, body_text, prices }) => ({
      sources: [source({ title, url }, 'page', toText(body_text), 'agent_see')],
      says: `${toText(title)}: ${toText(url)}; prices on it: ${((prices ?? []) as number[]).join(', ') || 'none'}.`,
    }),
  },
  {
    tool: dataRetrieval,
    inputForGoal(goal) {
      const [url] = URL_IN_TEXT.exec(goal) ?? []
      return url === undefined ? null : { url, format: 'text' }
    },
    quoteOutput: ({ status_code, url, data }) => ({
      sources: [],
      says: `Status ${String(status_code)} of ${toText(url)}:\n${toText(data).slice(0, MAX_OUTPUT_CHARS)}`,
    }),
  },
  {
    tool: hiveConsensus,
    inputForGoal: (goal) => ({ thesis: goal }),
    inputForQuery: (text) => ({ thesis: text.padEnd(5) }),
    quoteOutput: ({ consensus, confidence, agent_count }) => ({
      sources: [],
      says: `${String(consensus)}, confidence ${String(confidence)}, by ${String(agent_count)} agents.`,
    }),
  },
  {
    tool: hiveTrending,
    inputForGoal: () => ({}),
    quoteOutput: ({ domains }) => ({
      sources: [],
      says: lines(list(domains).map((one) => toText(one['namespace'] ?? one['domain']))),
    }),
  },
]

/** Runnable tools by slug. */
export const CREW_RUNNABLE_TOOLS: ReadonlyMap<string, CrewRunnableTool> = new Map(
  all.map((one) => [one.tool.slug, one]),
)
