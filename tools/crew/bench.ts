import agentSee from '../agent-see.ts'
import dataRetrieval from '../data-retrieval.ts'
import deepSearch from '../deep-search.ts'
import type { Tool } from '../define.ts'
import hiveConsensus from '../hive-consensus.ts'
import hiveTrending from '../hive-trending.ts'
import onchainInsight from '../onchain-insight.ts'
import priceFeed from '../price-feed.ts'
import { symbolsIn } from '../planner/goal.ts'
import type { Source } from '../research/sources.ts'
import socialOracle from '../social-oracle.ts'
import walletInvestigate from '../wallet-investigate.ts'
import webSearch from '../web-search.ts'

type Fields = Record<string, unknown>

/** A tool that a crew may run for a goal: it reads, and what it is asked can be taken from words. */
export interface Bench {
  readonly tool: Tool
  /** What it is asked for a goal and its keywords; null where the goal does not say it. */
  readonly input: (goal: string, words: readonly string[]) => Fields | null
  /** What it is asked for a query; absent where it takes none. */
  readonly ask?: (query: string) => Fields
  /** What may be quoted of its output, and the output in words. */
  readonly read: (output: Fields) => { readonly sources: readonly Source[]; readonly says: string }
}

export interface Task {
  readonly bench: Bench
  readonly input: Fields
}

const ADDRESS = /\b0x[0-9a-fA-F]{40}\b/
const URL_IN_TEXT = /https?:\/\/[^\s"'<>]{3,500}/
const LONGEST_SAID = 2_000

const lines = (all: readonly string[]): string => all.map((one) => `- ${one}`).join('\n')
const list = (value: unknown): Fields[] => (Array.isArray(value) ? (value as Fields[]) : [])
const said = (value: unknown): string => (typeof value === 'string' ? value : '')
const asJson = (output: unknown): string => {
  const text = JSON.stringify(output)
  return text.length > LONGEST_SAID ? `${text.slice(0, LONGEST_SAID - 1)}…` : text
}
const source = (found: Fields, kind: Source['kind'], text: string, by: string): Source => ({
  title: said(found['title']),
  url: said(found['url']),
  source: by,
  text,
  kind,
})

const words = (keywords: readonly string[], most: number): string | null =>
  keywords.length === 0 ? null : keywords.slice(0, most).join(' ')
const query = (text: string | null): Fields | null => (text === null ? null : { query: text })

const all: readonly Bench[] = [
  {
    tool: deepSearch,
    input: (goal) => ({ query: goal.slice(0, 400) }),
    ask: (text) => ({ query: text }),
    read: (output) => ({
      sources: list(output['citations']).map((one) =>
        source(
          one,
          one['kind'] as Source['kind'],
          (one['supports'] as string[]).join(' '),
          'deep_search',
        ),
      ),
      says: said(output['answer']).replace(/ ?\[\d+\]/g, ''),
    }),
  },
  {
    tool: webSearch,
    input: (_, keywords) => query(words(keywords, 4)),
    ask: (text) => ({ query: text }),
    read: (output) => {
      const results = list(output['results'])
      return {
        sources: results.map((one) => source(one, 'snippet', said(one['snippet']), 'web_search')),
        says: lines(results.map(({ title, url }) => `${said(title)}: ${said(url)}`)),
      }
    },
  },
  {
    tool: socialOracle,
    input: (_, keywords) => query(words(keywords, 2)),
    ask: (text) => ({ query: text }),
    read: (output) => {
      const posts = list(output['posts'])
      const { label, score, n } = output['sentiment'] as Fields
      return {
        sources: posts.map((one) =>
          source(
            { ...one, title: `${said(one['author'])} on ${said(one['platform'])}` },
            'snippet',
            said(one['text']),
            'social_oracle',
          ),
        ),
        says: `${String(n)} posts; by a lexicon the feeling is ${String(label)} (${String(score)}).`,
      }
    },
  },
  {
    tool: priceFeed,
    input(goal) {
      const symbols = symbolsIn(goal)
      return symbols.length === 0 ? null : { symbols }
    },
    read: ({ prices }) => {
      const quotes = Object.entries(prices as Record<string, { usd: number } | null>)
      const shown = quotes.map(([symbol, quote]) =>
        quote === null ? `${symbol}: no price` : `${symbol}: ${quote.usd} USD`,
      )
      return { sources: [], says: lines(shown) }
    },
  },
  {
    tool: onchainInsight,
    input(goal) {
      const [token = symbolsIn(goal)[0]] = ADDRESS.exec(goal) ?? []
      return token === undefined ? null : { query: token }
    },
    read: ({ token, price_usd, liquidity_usd, risk_signals }) => ({
      sources: [],
      says: asJson({ token, price_usd, liquidity_usd, risk_signals }),
    }),
  },
  {
    tool: walletInvestigate,
    input(goal) {
      const [address] = ADDRESS.exec(goal) ?? []
      return address === undefined ? null : { address }
    },
    read: ({ ens_name, entity_label, usd_balance, risk_flags, chains_checked }) => ({
      sources: [],
      says: asJson({ ens_name, entity_label, usd_balance, risk_flags, chains_checked }),
    }),
  },
  {
    tool: agentSee,
    input(goal) {
      const [url] = URL_IN_TEXT.exec(goal) ?? []
      return url === undefined ? null : { url, extract: ['title', 'headings', 'prices'] }
    },
    read: ({ title, url, body_text, prices }) => ({
      sources: [source({ title, url }, 'page', said(body_text), 'agent_see')],
      says: `${said(title)}: ${said(url)}; prices on it: ${((prices ?? []) as number[]).join(', ') || 'none'}.`,
    }),
  },
  {
    tool: dataRetrieval,
    input(goal) {
      const [url] = URL_IN_TEXT.exec(goal) ?? []
      return url === undefined ? null : { url, format: 'text' }
    },
    read: ({ status_code, url, data }) => ({
      sources: [],
      says: `Status ${String(status_code)} of ${said(url)}:\n${said(data).slice(0, LONGEST_SAID)}`,
    }),
  },
  {
    tool: hiveConsensus,
    input: (goal) => ({ thesis: goal }),
    ask: (text) => ({ thesis: text.padEnd(5) }),
    read: ({ consensus, confidence, agent_count }) => ({
      sources: [],
      says: `${String(consensus)}, confidence ${String(confidence)}, by ${String(agent_count)} agents.`,
    }),
  },
  {
    tool: hiveTrending,
    input: () => ({}),
    read: ({ domains }) => ({
      sources: [],
      says: lines(list(domains).map((one) => said(one['namespace'] ?? one['domain']))),
    }),
  },
]

/** By slug. */
export const BENCH: ReadonlyMap<string, Bench> = new Map(all.map((one) => [one.tool.slug, one]))
