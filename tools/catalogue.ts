import { ServiceError } from '../core/errors.ts'
import type { Micros } from '../core/money.ts'
import { nearest } from '../core/near.ts'
import { toUsdc, ZERO } from '../core/money.ts'
import agentAct from './agent-act.ts'
import agentEvolve from './agent-evolve.ts'
import agentPing from './agent-ping.ts'
import agentReputation from './agent-reputation.ts'
import agentSee from './agent-see.ts'
import codeSandbox from './code-sandbox.ts'
import crew from './crew.ts'
import dataRetrieval from './data-retrieval.ts'
import deepSearch from './deep-search.ts'
import discoverNewTools from './discover-new-tools.ts'
import type { Tool } from './define.ts'
import emailSend from './email-send.ts'
import genesisForge from './genesis-forge.ts'
import getLatestGasStation from './get-latest-gas-station.ts'
import hallucinationPill from './hallucination-pill.ts'
import hiveConsensus from './hive-consensus.ts'
import hiveForecast from './hive-forecast.ts'
import hiveRead from './hive-read.ts'
import hiveFeature from './hive-feature.ts'
import hiveTrending from './hive-trending.ts'
import hiveWatch from './hive-watch.ts'
import hiveWrite from './hive-write.ts'
import llmRouting from './llm-routing.ts'
import onchainInsight from './onchain-insight.ts'
import pingForUpdates from './ping-for-updates.ts'
import type { Availability, CatalogueEntry, CatalogueView, Ports } from './ports.ts'
import priceFeed from './price-feed.ts'
import selfAudit from './self-audit.ts'
import socialOracle from './social-oracle.ts'
import strategyFork from './strategy-fork.ts'
import strategyPublish from './strategy-publish.ts'
import swarmBroadcast from './swarm-broadcast.ts'
import txBroadcast from './tx-broadcast.ts'
import txSimulate from './tx-simulate.ts'
import packInstall from './pack-install.ts'
import vaultCompress from './vault-compress.ts'
import vaultDream from './vault-dream.ts'
import vaultPromote from './vault-promote.ts'
import vaultQuery from './vault-query.ts'
import vaultShare from './vault-share.ts'
import vaultWrite from './vault-write.ts'
import type { Checker } from './validate.ts'
import { checker, demand, inputChecker } from './validate.ts'
import walletInvestigate from './wallet-investigate.ts'
import webSearch from './web-search.ts'
import x402Parse from './x402-parse.ts'

/** Every tool of the house, in the order they are listed. */
export const nativeTools: readonly Tool[] = [
  webSearch,
  deepSearch,
  priceFeed,
  dataRetrieval,
  agentSee,
  agentAct,
  hiveRead,
  hiveWrite,
  hiveTrending,
  hiveFeature,
  hiveWatch,
  agentPing,
  swarmBroadcast,
  strategyPublish,
  strategyFork,
  agentReputation,
  x402Parse,
  emailSend,
  socialOracle,
  llmRouting,
  codeSandbox,
  hiveConsensus,
  hiveForecast,
  selfAudit,
  agentEvolve,
  genesisForge,
  vaultWrite,
  vaultQuery,
  vaultCompress,
  vaultPromote,
  vaultShare,
  vaultDream,
  packInstall,
  txSimulate,
  txBroadcast,
  onchainInsight,
  walletInvestigate,
  hallucinationPill,
  crew,
  getLatestGasStation,
  discoverNewTools,
  pingForUpdates,
]

/** Names the reply adds beside a tool's own fields; no tool may use them. */
export const reservedOutputNames = ['echo_recycled', 'ghost_protocol', 'hive', '_meta'] as const

/** How a tool has done, measured from its calls. */
export interface ToolStats {
  readonly successRate: number
  readonly averageMs: number
}

export interface CatalogueSettings {
  readonly tools?: readonly Tool[]
  readonly baseUrl: string
  /** Asked each time an entry is shown; null when the tool has never been called. */
  readonly stats: (slug: string) => ToolStats | null
  /** Given late, because the ports hold the catalogue too. */
  readonly ports: () => Ports
}

export interface CatalogueEnvelope {
  readonly total: number
  readonly native_count: number
  readonly community_count: number
  readonly free_count: number
  readonly tools: readonly CatalogueEntry[]
}

export interface Catalogue extends CatalogueView {
  readonly tools: readonly Tool[]
  /** Takes a slug with underscores or dashes. */
  find(slug: string): Tool | undefined
  /** The listed slug that is spelt nearly like one that is not known. */
  meant(slug: string): string | null
  /** The tool, or `unknown_tool`. */
  get(slug: string): Tool
  entry(tool: Tool): CatalogueEntry
  /** The list that `GET /api/tools` answers, of one category if given; the totals count what is listed. */
  list(category?: string): CatalogueEnvelope
  /** Refuses a body that does not fit with `invalid_input` and the pointer of every misfit. */
  validateInput(tool: Tool, body: Record<string, unknown>): void
  /** Refuses an output that does not fit with `tool_output_invalid`: it is never charged. */
  validateOutput(tool: Tool, output: unknown): void
  /** Before free slots: what this input costs this caller. */
  priceOf(tool: Tool, input: unknown, hasKey: boolean): Micros
}

export function createCatalogue(settings: CatalogueSettings): Catalogue {
  const tools = settings.tools ?? nativeTools
  const bySlug = new Map(tools.map((tool) => [tool.slug, tool]))
  if (bySlug.size !== tools.length) throw new Error('two tools share a slug')
  const inputs = new Map(tools.map((tool) => [tool, inputChecker(tool.input)]))
  const outputs = new Map(tools.map((tool) => [tool, checker(tool.output)]))
  const find = (slug: string) => bySlug.get(slug.replaceAll('-', '_'))
  const listed = tools.filter((tool) => tool.unlisted !== true)
  const slugs = listed.map(({ slug }) => slug)
  const meant = (slug: string) => nearest(slug.replaceAll('-', '_'), slugs)
  const entry = (tool: Tool) => present(tool, settings)
  return {
    tools,
    find,
    meant,
    get(slug) {
      const tool = find(slug)
      if (tool === undefined) throw unknownTool(slug, meant(slug))
      return tool
    },
    entry,
    entries: () => listed.map(entry),
    list: (category) =>
      envelope(
        listed.filter((tool) => category === undefined || tool.category === category).map(entry),
      ),
    validateInput: (tool, body) => demand(checkerOf(inputs, tool)(body)),
    validateOutput(tool, output) {
      const errors = checkerOf(outputs, tool)(output)
      if (errors.length > 0)
        throw new ServiceError('tool_output_invalid', { tool: tool.slug, errors })
    },
    priceOf,
  }
}

function unknownTool(tool: string, meant: string | null): ServiceError {
  const hint = { detail: `There is no such tool: did you mean ${meant}?`, did_you_mean: meant }
  return new ServiceError('unknown_tool', { tool, ...(meant === null ? {} : hint) })
}

function checkerOf(checkers: ReadonlyMap<Tool, Checker>, tool: Tool): Checker {
  const check = checkers.get(tool)
  if (check === undefined) throw new Error(`${tool.slug} is not in this catalogue`)
  return check
}

function priceOf(tool: Tool, input: unknown, hasKey: boolean): Micros {
  if (!hasKey && tool.access === 'free_with_key' && tool.keyless !== undefined) return tool.keyless
  return typeof tool.price === 'function' ? tool.price(input) : tool.price
}

function envelope(tools: readonly CatalogueEntry[]): CatalogueEnvelope {
  const native = tools.filter((tool) => tool.type === 'native').length
  return {
    total: tools.length,
    native_count: native,
    community_count: tools.length - native,
    free_count: tools.filter((tool) => tool.access !== 'paid').length,
    tools,
  }
}

const NATIVE: Availability = { available: true, mode: 'native', requires: [], providers: [] }

function present(tool: Tool, { baseUrl, stats, ports }: CatalogueSettings): CatalogueEntry {
  const measured = stats(tool.slug)
  const price = listPrice(tool)
  const overage = tool.free?.overage ?? tool.keyless ?? null
  return {
    slug: tool.slug,
    name: tool.name,
    category: tool.category,
    price_usdc: toUsdc(price),
    description: tool.description,
    type: 'native',
    access: tool.access,
    key_required: tool.keyRequired === true,
    acts_on_others: tool.actsOnOthers === true,
    x402_compatible: price > ZERO || overage !== null,
    free_tier:
      tool.access === 'paid'
        ? null
        : {
            calls_per_day: tool.free?.perDay ?? null,
            overage_price_usdc: overage === null ? null : toUsdc(overage),
          },
    call_endpoint: `${baseUrl}/api/refuel`,
    docs_url: `${baseUrl}/api/tools/${tool.slug}`,
    tags: tool.tags,
    success_rate: measured?.successRate ?? null,
    avg_latency_ms: measured?.averageMs ?? null,
    input_schema: tool.input,
    output_schema: tool.output,
    example_calls: tool.examples.map((body) => ({ tool: tool.slug, ...(body as object) })),
    use_cases: tool.useCases,
    availability: tool.availability?.(ports()) ?? NATIVE,
  }
}

/** What the list shows: the price of the first example where the price depends on the input. */
const listPrice = (tool: Tool): Micros =>
  typeof tool.price === 'function' ? tool.price(tool.examples[0]) : tool.price
