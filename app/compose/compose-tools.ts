import { summarizeX402Message } from '../../chain/x402/summarize-x402-message.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import { createReputationService } from '../../memory/agents/reputation.ts'
import { createRuleBasedTextAnalysis } from '../../memory/text/text-analysis.ts'
import type { CallLogStore } from '../../persistence/calls/call-log-store.ts'
import { createAgentExistenceAndActivityLookup } from '../../persistence/agents/agent-lookup.ts'
import { createMailSuppressionStore } from '../../persistence/notifications/mail-suppression-store.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { createReputationStore } from '../../persistence/agents/reputation-store.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import { createToolCatalogue, NATIVE_TOOLS } from '../../tools/tool-catalogue.ts'
import { selectToolsForModels } from '../../tools/tools-shown-to-models.ts'
import { parseIpAddressAllowlist } from '../../providers/egress/public-ip-address.ts'
import { createEgressClient } from '../../providers/egress/guarded-egress-client.ts'
import { defaultMailFrom, toAgentSender } from '../../providers/mail/agent-mail.ts'
import { createAtMostOnceMailer } from '../../providers/mail/at-most-once-mailer.ts'
import { createPageParserPool } from '../../providers/pages/page-parser-pool.ts'
import type { ToolPorts } from '../../tools/tool-ports.ts'
import { createCryptoMarketOverviewReader } from '../../providers/prices/market-overview.ts'
import { createLiquidityPoolFinder } from '../../providers/liquidity-pools/liquidity-pool-finder.ts'
import { createSandbox } from '../../providers/sandbox/sandbox.ts'
import { createUpstreamClient } from '../../providers/upstream/upstream-client.ts'
import { composeBrowser } from './compose-browser.ts'
import { composeChainReads } from './compose-chain-reads.ts'
import { composePlanner } from './compose-planner.ts'
import { composeLlm } from './compose-llm.ts'
import { composeReleaseNotesService } from './compose-changelog-and-catalogue-history.ts'
import { composeCoinPriceService } from './compose-coin-price-service.ts'
import { composeSearch } from './compose-search.ts'
import type { composeCommunityTools } from './market/compose-community-tools.ts'
import { composeVaultAndMemoryPacks } from './compose-vault-and-memory-packs.ts'
import type { Config } from '../config.ts'

/** Composes the tools and their ports. */

export interface ComposeToolsDeps {
  readonly config: Config
  readonly clock: Clock
  readonly sql: Sql
  readonly publicUrl: string
  readonly userAgent: string
  readonly callLog: Pick<CallLogStore, 'toolStats'>
  readonly log: (message: string, error: unknown) => void
  readonly community: Pick<ReturnType<typeof composeCommunityTools>, 'registry' | 'callStore'>
  readonly hive: Pick<ToolPorts, 'embeddings' | 'hive' | 'hiveBoard' | 'hiveTexts' | 'strategies'>
}

/** Creates the tool catalogue and the ports that tools use. */
export function composeTools(parts: ComposeToolsDeps) {
  const { config, clock, sql, publicUrl, userAgent, callLog, log, hive, community } = parts
  const egress = createEgressClient({ allow: parseIpAddressAllowlist(config.ssrfAllow), userAgent })
  const upstream = createUpstreamClient({ clock, userAgent })
  const chain = composeChainReads(config.reads)
  const { prices, welcome } = composeCoinPriceService({ config, clock, upstream, chain })
  const { searchPath, sandboxMinIsolation: minIsolation } = config
  const sandboxes = createSandbox({ clock, searchPath, minIsolation, log })
  const browsing = composeBrowser({ config, clock, userAgent, log })
  const pages = createPageParserPool()
  const models = composeLlm({ config: config.llm, clock, sql, userAgent, log })
  const catalogue = createToolCatalogue({
    tools: NATIVE_TOOLS.map((tool) => withFreeTier(tool, config.freeTierPerDay)),
    baseUrl: publicUrl,
    stats: createBackgroundRefreshedMap(
      async () => toCatalogueStats(await callLog.toolStats()),
      clock,
    ),
    community: community.registry,
    figures: createBackgroundRefreshedMap(() => community.callStore.figures(), clock),
    ports: () => ({ ...ports, secrets: NO_SECRETS }),
  })
  // What planners and beacons say is read by models.
  const shown: ToolPorts['catalogue'] = {
    entries: () => selectToolsForModels(catalogue.entries(), { community: false }),
  }
  const intelligence = composePlanner({ sql, clock, catalogue: shown, publicUrl })
  const memories = composeVaultAndMemoryPacks(sql)
  const { news, record } = composeReleaseNotesService({ sql, clock, publicUrl })
  const directory = createAgentExistenceAndActivityLookup(sql)
  const usage = createReputationService(createReputationStore(sql), clock)
  // Database reads of tools have a timeout, so that a hanging database fails the call.
  const ports: Omit<ToolPorts, 'secrets'> = {
    egress,
    upstream,
    prices,
    ...composeSearch({ config, upstream, hive: hive.hive, clock, publicUrl }),
    mail: composeMail(parts),
    browser: browsing.browser,
    pages,
    sandbox: sandboxes.sandbox,
    chain,
    pools: createLiquidityPoolFinder(upstream, config.pools),
    text: createRuleBasedTextAnalysis(),
    llm: models.llm,
    ...intelligence.ports,
    ...hive,
    hive: withTrendOfTools(hive.hive, (slug) => catalogue.find(slug) !== undefined),
    ...memories.ports,
    news,
    directory: {
      has: (agentId) => withDatabaseAnswerTimeout(directory.has(agentId)),
      activeSince: (at, limit, except) =>
        withDatabaseAnswerTimeout(directory.activeSince(at, limit, except)),
    },
    usage: { reputation: (agentId) => withDatabaseAnswerTimeout(usage.reputation(agentId)) },
    x402: { parse: summarizeX402Message },
    catalogue: shown,
  }
  return {
    catalogue,
    ports,
    /** Services for the routes. */
    served: {
      catalogue,
      planning: intelligence.planning,
      ...memories.served,
      sandboxHealth: sandboxes.health,
      news,
      market: createCryptoMarketOverviewReader({ prices, chain, clock }),
      prices: welcome,
    },
    recordCatalogue: () => record(catalogue),
    close: async (): Promise<void> => {
      await Promise.allSettled([
        egress.close(),
        upstream.close(),
        models.close(),
        sandboxes.close(),
        browsing.close(),
        pages.close(),
      ])
    },
  }
}

/** The call log also has paid writes: only tools belong in trending. */
const withTrendOfTools = (
  hive: ToolPorts['hive'],
  isTool: (slug: string) => boolean,
): ToolPorts['hive'] => ({
  ...hive,
  async trending(limit) {
    const { domains, tools, generatedAt } = await hive.trending(Number.MAX_SAFE_INTEGER)
    const callable = tools.filter(({ slug }) => isTool(slug))
    return { domains: domains.slice(0, limit), tools: callable.slice(0, limit), generatedAt }
  },
})

/** Sends e-mail for callers; null without a mail server. */
function composeMail({ config: { mail }, sql, publicUrl, log }: ComposeToolsDeps) {
  if (mail.url === null) return null
  const { of, bounced } = createMailSuppressionStore(sql)
  const suppressions = {
    of: (address: string) => withDatabaseAnswerTimeout(of(address)),
    bounced: (address: string, status: number) =>
      withDatabaseAnswerTimeout(bounced(address, status)),
  }
  return createAtMostOnceMailer(mailSettings(mail, publicUrl), suppressions, log)
}

const mailSettings = ({ url, from, agentsFrom }: Config['mail'], publicUrl: string) => ({
  url: url?.reveal() ?? '',
  from: agentsFrom ?? toAgentSender(from ?? defaultMailFrom(publicUrl)),
  publicUrl,
})

const NO_SECRETS = { resolve: async () => null }
const STANDARD_FREE_CALLS = 10

/** `FREE_TIER_PER_DAY` replaces the default number of free calls. */
function withFreeTier(tool: (typeof NATIVE_TOOLS)[number], perDay: number) {
  if (tool.free?.perDay !== STANDARD_FREE_CALLS) return tool
  return { ...tool, free: { ...tool.free, perDay } }
}

/** Figures by tool. A read refreshes them in the background; null for a tool without any. */
function createBackgroundRefreshedMap<Figures>(
  read: () => Promise<Map<string, Figures>>,
  clock: Clock,
): (slug: string) => Figures | null {
  let known = new Map<string, Figures>()
  let nextAt = -Infinity
  const refresh = async () => {
    const startedAt = clock.mono()
    known = await read().finally(() => {
      // Reads a week of calls: never concurrently, and at most a tenth of the time.
      nextAt = clock.mono() + Math.max(10 * SECOND, 10 * (clock.mono() - startedAt))
    })
  }
  return (slug) => {
    if (clock.mono() > nextAt) {
      nextAt = Infinity
      // The catalogue works without fresh figures.
      refresh().catch(() => {})
    }
    return known.get(slug) ?? null
  }
}

const toCatalogueStats = (
  rows: ReadonlyMap<string, { readonly successRate: number; readonly avgLatencyMs: number }>,
) =>
  new Map(
    [...rows].map(([slug, { successRate, avgLatencyMs }]) => [
      slug,
      { successRate, averageMs: Math.round(avgLatencyMs) },
    ]),
  )
