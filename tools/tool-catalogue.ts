import { ServiceError } from '../core/errors.ts'
import type { Micros } from '../core/money.ts'
import { findClosestWord } from '../core/validation/did-you-mean.ts'
import { toUsdc, ZERO_MICROS } from '../core/money.ts'
import agentAct from './perception/agent-act.ts'
import agentEvolve from './intelligence/agent-evolve.ts'
import agentPing from './comms/agent-ping.ts'
import agentReputation from './intelligence/agent-reputation.ts'
import agentSee from './perception/agent-see.ts'
import codeSandbox from './compute/code-sandbox.ts'
import crew from './intelligence/crew.ts'
import dataRetrieval from './web/data-retrieval.ts'
import deepSearch from './web/deep-search.ts'
import discoverNewTools from './intelligence/discover-new-tools.ts'
import { toPortableSchema } from '../core/validation/portable-schema.ts'
import { describedInputSchemaOf } from './default-tool-field-descriptions.ts'
import type { Tool } from './define-tool.ts'
import emailSend from './comms/email-send.ts'
import genesisForge from './intelligence/genesis-forge.ts'
import getLatestGasStation from './intelligence/get-latest-gas-station.ts'
import hallucinationPill from './intelligence/hallucination-pill.ts'
import hiveConsensus from './intelligence/hive-consensus.ts'
import hiveForecast from './intelligence/hive-forecast.ts'
import hiveRead from './memory/hive-read.ts'
import hiveFeature from './memory/hive-feature.ts'
import hiveTrending from './intelligence/hive-trending.ts'
import hiveWatch from './memory/hive-watch.ts'
import hiveWrite from './memory/hive-write.ts'
import llmRouting from './compute/llm-routing.ts'
import onchainInsight from './onchain/onchain-insight.ts'
import pingForUpdates from './intelligence/ping-for-updates.ts'
import {
  toCommunityCatalogueEntry,
  type CommunityToolWeeklyCallStats,
} from './community/community-catalogue-entry.ts'
import {
  cutCommunityTools,
  pickShortTools,
  type CommunityToolCut,
  type CommunityToolPage,
} from './community/page.ts'
import {
  toCommunityToolSlug,
  type CommunityToolRegistryReader,
} from './community/community-tool-registry.ts'
import type {
  ToolAvailability,
  CatalogueEntry,
  ToolCatalogueReader,
  ToolPorts,
} from './tool-ports.ts'
import priceFeed from './finance/price-feed.ts'
import selfAudit from './intelligence/self-audit.ts'
import socialOracle from './intelligence/social-oracle.ts'
import strategyFork from './intelligence/strategy-fork.ts'
import strategyPublish from './intelligence/strategy-publish.ts'
import swarmBroadcast from './comms/swarm-broadcast.ts'
import txBroadcast from './onchain/tx-broadcast.ts'
import txSimulate from './onchain/tx-simulate.ts'
import packInstall from './memory/pack-install.ts'
import vaultCompress from './memory/vault-compress.ts'
import vaultDream from './memory/vault-dream.ts'
import vaultPromote from './memory/vault-promote.ts'
import vaultQuery from './memory/vault-query.ts'
import vaultShare from './memory/vault-share.ts'
import vaultWrite from './memory/vault-write.ts'
import type { SchemaValidator } from './schema-validator.ts'
import { withReason } from './tool-availability.ts'
import {
  compileSchemaValidator,
  throwInvalidInputOnIssues,
  compileInputValidator,
} from './schema-validator.ts'
import walletInvestigate from './onchain/wallet-investigate.ts'
import webSearch from './web/web-search.ts'
import x402Parse from './finance/x402-parse.ts'

/** The built-in tools, in listing order. */
export const NATIVE_TOOLS: readonly Tool[] = [
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

/** Fields that the reply adds beside a tool's output; no tool may use them. */
export const RESERVED_OUTPUT_FIELDS = ['echo_recycled', 'ghost_protocol', 'hive', '_meta'] as const

/** Statistics of a tool, measured from its calls. */
export interface CatalogueToolStats {
  readonly successRate: number
  readonly averageMs: number
}

export interface ToolCatalogueSettings {
  readonly tools?: readonly Tool[]
  readonly baseUrl: string
  /** Called each time an entry is shown; returns null for a tool without calls. */
  readonly stats: (slug: string) => CatalogueToolStats | null
  /** Tools that agents sell; none by default. */
  readonly community?: CommunityToolRegistryReader
  /** Measured quality of community tools; null for a tool without counted calls. */
  readonly figures?: (slug: string) => CommunityToolWeeklyCallStats | null
  /** Resolved late, because the ports include the catalogue. */
  readonly ports: () => ToolPorts
}

export interface CatalogueTotals {
  readonly total: number
  readonly native_count: number
  readonly community_count: number
  readonly free_count: number
}

export interface ToolCatalogue extends ToolCatalogueReader {
  /** The native tools. */
  readonly tools: readonly Tool[]
  /** Finds a tool by its slug, with underscores or dashes. */
  find(slug: string): Tool | undefined
  /** Reads a tool that this node does not know yet; null if there is nothing to wait for. */
  load(slug: string): Promise<void> | null
  /** Returns the listed slug closest to an unknown one, or null. */
  suggestSlug(slug: string): string | null
  /** Returns the tool; throws `unknown_tool`. */
  get(slug: string): Tool
  toEntry(tool: Tool): CatalogueEntry
  /** Counts what is listed, optionally of one category. */
  totals(category?: string): CatalogueTotals
  /** Returns a page of what is listed and shown: native tools, then those of strangers. */
  page(shown: (tool: Tool) => boolean, page: CommunityToolPage): CommunityToolCut
  /** Returns what a document without pages lists: native tools, and a bounded number of short ones of strangers. */
  short(shown?: (tool: Tool) => boolean): readonly CatalogueEntry[]
  /**
   * Throws `invalid_input` with a pointer to every issue. Schemas of strangers are checked elsewhere, which takes
   * until the promise resolves; `owner` is whose work that is.
   */
  validateInput(tool: Tool, body: Record<string, unknown>, owner: string): Promise<void> | undefined
  /** Throws `tool_output_invalid` for an invalid output, which is never charged. */
  validateOutput(tool: Tool, output: unknown): void
  /** Returns the price of an input for a caller, before free calls. */
  priceOf(tool: Tool, input: unknown, hasKey: boolean): Micros
}

export function createToolCatalogue(settings: ToolCatalogueSettings): ToolCatalogue {
  const tools = settings.tools ?? NATIVE_TOOLS
  const bySlug = new Map(tools.map((tool) => [tool.slug, tool]))
  if (bySlug.size !== tools.length) throw new Error('two tools share a slug')
  const inputs = new Map(tools.map((tool) => [tool, compileInputValidator(tool.input)]))
  const outputs = new Map(tools.map((tool) => [tool, compileSchemaValidator(tool.output)]))
  const { community } = settings
  const find = (slug: string) => bySlug.get(slug.replaceAll('-', '_')) ?? community?.find(slug)
  const native = tools.filter((tool) => tool.unlisted !== true)
  const listed = () => [...native, ...(community?.list() ?? [])]
  const slugs = native.map(({ slug }) => slug)
  const suggestSlug = (slug: string) =>
    findClosestWord(slug.replaceAll('-', '_'), slugs) ??
    findClosestWord(
      toCommunityToolSlug(slug),
      (community?.list() ?? []).map((tool) => tool.slug),
    )
  const toEntry = (tool: Tool) => toCatalogueEntry(tool, settings)
  return {
    tools,
    find,
    suggestSlug,
    get(slug) {
      const tool = find(slug)
      if (tool === undefined) throw unknownTool(slug, suggestSlug(slug))
      return tool
    },
    load: (slug) => (find(slug) === undefined ? (community?.load(slug) ?? null) : null),
    toEntry,
    entries: () => listed().map(toEntry),
    page(shown, page) {
      const cut = cutCommunityTools((community?.list() ?? []).filter(shown), page)
      const first = page.after === null ? native.filter(shown) : []
      return { tools: [...first, ...cut.tools], next: cut.next }
    },
    short(shown = () => true) {
      const others = (community?.list() ?? []).filter(shown)
      return [...native.filter(shown), ...pickShortTools(others, isVerifiedTool)].map(toEntry)
    },
    totals: (category) =>
      countTools(listed().filter((tool) => category === undefined || tool.category === category)),
    validateInput(tool, body, owner) {
      if (tool.community !== undefined)
        return tool.community.validateInput(body, owner).then(throwInvalidInputOnIssues)
      throwInvalidInputOnIssues(validatorOf(inputs, tool)(body))
      return undefined
    },
    validateOutput(tool, output) {
      // The answer of a builder is validated when it arrives.
      if (tool.community !== undefined) return
      const errors = validatorOf(outputs, tool)(output)
      if (errors.length > 0)
        throw new ServiceError('tool_output_invalid', { tool: tool.slug, errors })
    },
    priceOf,
  }
}

/** Whether the station answers for a tool: a native one, or one that its operator has reviewed. */
export const isVerifiedTool = ({ community }: Tool): boolean =>
  community === undefined || community.record.review === 'verified'

function unknownTool(tool: string, suggestSlug: string | null): ServiceError {
  const hint = {
    detail: `There is no such tool: did you mean ${suggestSlug}?`,
    did_you_mean: suggestSlug,
  }
  return new ServiceError('unknown_tool', { tool, ...(suggestSlug === null ? {} : hint) })
}

function validatorOf(checkers: ReadonlyMap<Tool, SchemaValidator>, tool: Tool): SchemaValidator {
  const check = checkers.get(tool)
  if (check === undefined) throw new Error(`${tool.slug} is not in this catalogue`)
  return check
}

function priceOf(tool: Tool, input: unknown, hasKey: boolean): Micros {
  if (!hasKey && tool.access === 'free_with_key' && tool.keyless !== undefined) return tool.keyless
  return typeof tool.price === 'function' ? tool.price(input) : tool.price
}

function countTools(tools: readonly Tool[]): CatalogueTotals {
  const native = tools.filter(({ community }) => community === undefined).length
  return {
    total: tools.length,
    native_count: native,
    community_count: tools.length - native,
    free_count: tools.filter((tool) => tool.access !== 'paid').length,
  }
}

const NATIVE_AVAILABILITY: ToolAvailability = {
  available: true,
  mode: 'native',
  requires: [],
  providers: [],
}

function toCatalogueEntry(
  tool: Tool,
  { baseUrl, stats, figures, ports }: ToolCatalogueSettings,
): CatalogueEntry {
  if (tool.community !== undefined)
    return toCommunityCatalogueEntry(tool.community, figures?.(tool.slug) ?? null, baseUrl)
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
    x402_compatible: price > ZERO_MICROS || overage !== null,
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
    input_schema: toPortableSchema(describedInputSchemaOf(tool)),
    output_schema: toPortableSchema(tool.output),
    example_calls: tool.examples.map((body) => ({ tool: tool.slug, ...(body as object) })),
    use_cases: tool.useCases,
    availability: withReason(tool.availability?.(ports()) ?? NATIVE_AVAILABILITY),
  }
}

/** Returns the listed price: that of the first example where the price depends on the input. */
const listPrice = (tool: Tool): Micros =>
  typeof tool.price === 'function' ? tool.price(tool.examples[0]) : tool.price
