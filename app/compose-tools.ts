import { parseX402 } from '../chain/x402/codec.ts'
import { SECOND, type Clock } from '../core/clock.ts'
import { createUsage } from '../memory/reputation.ts'
import { createText } from '../memory/text/text.ts'
import type { CallLog } from '../persistence/call-log.ts'
import { directoryStore } from '../persistence/directory.ts'
import { suppressionStore } from '../persistence/mail-suppressions.ts'
import type { Sql } from '../persistence/plane.ts'
import { reputationStore } from '../persistence/reputation.ts'
import { answered } from '../persistence/within.ts'
import { createCatalogue, nativeTools, type ToolStats } from '../tools/catalogue.ts'
import { parseAllow } from '../tools/egress/address.ts'
import { createEgress } from '../tools/egress/guard.ts'
import { mailOnce } from '../tools/mail/once.ts'
import { createPages } from '../tools/pages/pages.ts'
import type { Ports } from '../tools/ports.ts'
import { createPools } from '../tools/pools/pools.ts'
import { createSandbox } from '../tools/sandbox/sandbox.ts'
import { createUpstream } from '../tools/upstream/client.ts'
import { composeBrowser } from './compose-browser.ts'
import { composeChainReads } from './compose-chain-reads.ts'
import { composeIntelligence } from './compose-intelligence.ts'
import { composeLlm } from './compose-llm.ts'
import { composeNews } from './compose-news.ts'
import { composePrices } from './compose-prices.ts'
import { composeSearch } from './compose-search.ts'
import { composeVault } from './compose-vault.ts'
import type { Config } from './config.ts'

export interface ToolsParts {
  readonly config: Config
  readonly clock: Clock
  readonly sql: Sql
  readonly publicUrl: string
  readonly userAgent: string
  readonly callLog: Pick<CallLog, 'toolStats'>
  readonly log: (message: string, error: unknown) => void
  readonly hive: Pick<Ports, 'embeddings' | 'hive' | 'hiveBoard' | 'hiveTexts' | 'strategies'>
}

/** Every tool, and what tools may see of the world. */
export function composeTools(parts: ToolsParts) {
  const { config, clock, sql, publicUrl, userAgent, callLog, log, hive } = parts
  const egress = createEgress({ allow: parseAllow(config.ssrfAllow), userAgent })
  const upstream = createUpstream({ clock, userAgent })
  const chain = composeChainReads(config.reads)
  const { prices, welcome } = composePrices({ config, clock, upstream, chain })
  const { searchPath, sandboxMinIsolation: minIsolation } = config
  const sandboxes = createSandbox({ clock, searchPath, minIsolation, log })
  const browsing = composeBrowser({ config, clock, userAgent, log })
  const pages = createPages()
  const models = composeLlm({ config: config.llm, clock, sql, userAgent, log })
  const catalogue = createCatalogue({
    tools: nativeTools.map((tool) => withFreeTier(tool, config.freeTierPerDay)),
    baseUrl: publicUrl,
    stats: measurements(() => callLog.toolStats(), clock),
    ports: () => ({ ...ports, secrets: NO_SECRETS }),
  })
  const intelligence = composeIntelligence({ sql, clock, catalogue, publicUrl })
  const memories = composeVault(sql)
  const { news, record } = composeNews({ sql, clock, publicUrl })
  const directory = directoryStore(sql)
  const usage = createUsage(reputationStore(sql), clock)
  // A database that hangs refuses nothing: what a call reads outside its aggregate is bounded here.
  const ports: Omit<Ports, 'secrets'> = {
    egress,
    upstream,
    prices,
    ...composeSearch({ config, upstream, hive: hive.hive, clock, publicUrl }),
    mail: composeMail(parts),
    browser: browsing.browser,
    pages,
    sandbox: sandboxes.sandbox,
    chain,
    pools: createPools(upstream, config.pools),
    text: createText(),
    llm: models.llm,
    ...intelligence.ports,
    ...hive,
    hive: withTrendOfTools(hive.hive, (slug) => catalogue.find(slug) !== undefined),
    ...memories.ports,
    news,
    directory: {
      has: (agentId) => answered(directory.has(agentId)),
      activeSince: (at, limit, except) => answered(directory.activeSince(at, limit, except)),
    },
    usage: { reputation: (agentId) => answered(usage.reputation(agentId)) },
    x402: { parse: parseX402 },
    catalogue,
  }
  return {
    catalogue,
    ports,
    /** What the routes reach of it. */
    served: {
      catalogue,
      planning: intelligence.planning,
      ...memories.served,
      sandboxHealth: sandboxes.health,
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

/** The log of calls has paid writes beside tools: only what can be called has a trend. */
const withTrendOfTools = (
  hive: Ports['hive'],
  isTool: (slug: string) => boolean,
): Ports['hive'] => ({
  ...hive,
  async trending(limit) {
    const { domains, tools, generatedAt } = await hive.trending(Number.MAX_SAFE_INTEGER)
    const callable = tools.filter(({ slug }) => isTool(slug))
    return { domains: domains.slice(0, limit), tools: callable.slice(0, limit), generatedAt }
  },
})

/** Letters of callers; null without a mail server. */
function composeMail({ config: { mail }, sql, publicUrl, log }: ToolsParts) {
  if (mail.url === null) return null
  const { of, bounced } = suppressionStore(sql)
  const suppressions = {
    of: (address: string) => answered(of(address)),
    bounced: (address: string, status: number) => answered(bounced(address, status)),
  }
  return mailOnce(lettersOf(mail, publicUrl), suppressions, log)
}

const lettersOf = ({ url, from }: Config['mail'], publicUrl: string) => ({
  url: url?.reveal() ?? '',
  from: from ?? `gas-station@${new URL(publicUrl).hostname}`,
})

const NO_SECRETS = { resolve: async () => null }
const STANDARD_FREE_CALLS = 10

/** The operator's `FREE_TIER_PER_DAY` replaces the standard number of free calls. */
function withFreeTier(tool: (typeof nativeTools)[number], perDay: number) {
  if (tool.free?.perDay !== STANDARD_FREE_CALLS) return tool
  return { ...tool, free: { ...tool.free, perDay } }
}

/** The latest measurements, refreshed in the background while somebody looks. */
function measurements(
  read: () => Promise<Map<string, { successRate: number; avgLatencyMs: number }>>,
  clock: Clock,
): (slug: string) => ToolStats | null {
  let known = new Map<string, ToolStats>()
  let nextAt = -Infinity
  const refresh = async () => {
    const startedAt = clock.mono()
    const rows = await read().finally(() => {
      // A week of calls is much to read: never two at once, and at most a tenth of the time.
      nextAt = clock.mono() + Math.max(10 * SECOND, 10 * (clock.mono() - startedAt))
    })
    known = new Map(
      [...rows].map(([slug, { successRate, avgLatencyMs }]) => [
        slug,
        { successRate, averageMs: Math.round(avgLatencyMs) },
      ]),
    )
  }
  return (slug) => {
    if (clock.mono() > nextAt) {
      nextAt = Infinity
      // A catalogue without fresh figures is still a catalogue.
      refresh().catch(() => {})
    }
    return known.get(slug) ?? null
  }
}
