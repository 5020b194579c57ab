import { setMaxListeners } from 'node:events'
import type { FastifyInstance } from 'fastify'
import { holdExpire } from '../payments/commands/call.ts'
import { absorb } from '../payments/absorb.ts'
import { paymentExpire } from '../payments/commands/payment.ts'
import { accounts } from '../payments/accounts.ts'
import { bounties } from '../payments/bounties.ts'
import { bountyExpire } from '../payments/commands/bounty.ts'
import { fleets } from '../payments/fleets.ts'
import { runtime, type Runtime } from '../actors/runtime.ts'
import { timers } from '../actors/timers.ts'
import { callService } from '../calls/service.ts'
import { parseX402 } from '../chain/x402/codec.ts'
import { HOUR, MINUTE, SECOND, systemClock, type Clock } from '../core/clock.ts'
import { masterKeyId, sealingKeys } from '../core/crypto.ts'
import { isDatabaseLost } from '../http/database-lost.ts'
import { buildServer } from '../http/server.ts'
import { createHive } from '../memory/hive.ts'
import { createUsage } from '../memory/reputation.ts'
import { aggregateStore } from '../persistence/aggregates.ts'
import { bountyStore } from '../persistence/bounties.ts'
import { callLog } from '../persistence/call-log.ts'
import { clipboardStore } from '../persistence/clipboard.ts'
import { commitBatch } from '../persistence/commit.ts'
import { directoryStore } from '../persistence/directory.ts'
import { dropStore } from '../persistence/drops.ts'
import { fleetStore } from '../persistence/fleets.ts'
import { hiveStore } from '../persistence/hive.ts'
import { keyringStore } from '../persistence/keyring.ts'
import { keyStore } from '../persistence/keys.ts'
import { messageStore } from '../persistence/messages.ts'
import { onceStore } from '../persistence/once.ts'
import { startPlane, type Plane } from '../persistence/plane.ts'
import { profileStore } from '../persistence/profiles.ts'
import { referralStore } from '../persistence/referrals.ts'
import { retention } from '../persistence/retention.ts'
import { reputationStore } from '../persistence/reputation.ts'
import { answered, interruptible } from '../persistence/within.ts'
import { transferStore } from '../persistence/transfers.ts'
import { createCatalogue, nativeTools, type ToolStats } from '../tools/catalogue.ts'
import { parseAllow } from '../tools/egress/address.ts'
import { createEgress } from '../tools/egress/guard.ts'
import type { ResolveAll } from '../tools/egress/resolver.ts'
import type { Ports } from '../tools/ports.ts'
import { createPrices } from '../tools/prices/prices.ts'
import { priceSources } from '../tools/prices/sources.ts'
import { createUpstream } from '../tools/upstream/client.ts'
import { composeChain } from './compose-chain.ts'
import { composeFunds } from './compose-funds.ts'
import { composeJobs } from './compose-jobs.ts'
import { composeRealtime } from './compose-realtime.ts'
import { composeWebhooks } from './compose-webhooks.ts'
import { fundPage, noAgentPage } from '../web/fund.ts'
import type { Config } from './config.ts'
import { masterKeys, stationKeys } from './master-key.ts'
import { VERSION } from './version.ts'

export interface Station {
  readonly server: FastifyInstance
  readonly plane: Plane
  readonly actors: Runtime
  readonly publicUrl: string
  /** Stops accepting, finishes or answers what runs, and gives everything back. */
  close(): Promise<void>
}

/** What tests and tools of the house may replace. */
export interface Overrides {
  readonly clock?: Clock
  readonly log?: (line: string) => void
  /** How the names of webhooks are found. */
  readonly resolve?: ResolveAll
}

const DRAIN_MS = 20 * SECOND

/** Builds the whole service from its settings, top to bottom; closes it in reverse. */
export async function compose(config: Config, overrides: Overrides = {}): Promise<Station> {
  const { clock = systemClock(), log = () => {} } = overrides
  const publicUrl = config.publicUrl ?? `http://${config.host}:${config.port}`
  const userAgent = `gas-station/${VERSION} (+${publicUrl})`
  const masters = masterKeys(config)
  const shutdown = new AbortController()
  // Every running call listens to it.
  setMaxListeners(0, shutdown.signal)
  const report = (message: string, error: unknown) =>
    server === null
      ? log(`${message}: ${String(error)}`)
      : server.log.error({ err: error }, message)
  let server: FastifyInstance | null = null

  const plane = await startPlane({
    databaseUrl: config.databaseUrl?.reveal() ?? null,
    redisUrl: config.redisUrl?.reveal() ?? null,
    dataDir: config.dataDir,
    redis: config.redis,
    maxConnections: config.databaseConnections,
    keyIds: masters.map(masterKeyId),
    searchPath: config.searchPath,
    log,
  })
  const { sql } = plane
  const own = await stationKeys(sql, masters).catch(async (error: unknown) => {
    await plane.stop()
    throw error
  })

  const store = aggregateStore(plane.lane)
  const calledBefore = callLog(sql)
  const keys = keyStore(sql, own.pepper)
  const profiles = profileStore(sql)
  const keyring = keyringStore(sql, sealingKeys(masters, 'keyring'))
  const clipboard = clipboardStore(sql)
  const messages = messageStore(sql)
  const once = onceStore(sql, clock, sealingKeys(masters, 'answers'))

  const streams = await composeRealtime({ clock, plane, keys, log: report })

  const queue = await composeJobs({ plane, clock, log: report })

  const pages = composeWebhooks({
    config,
    publicUrl,
    userAgent,
    sql,
    clock,
    sealing: sealingKeys(masters, 'webhook'),
    letters: queue.letters,
    resolve: overrides.resolve,
    log: report,
  })

  const correctClock = async () => clock.correct(await store.clockOffset(() => clock.now()))
  await correctClock()
  const actors = runtime({
    clock,
    store,
    callLog: calledBefore,
    cache: plane.redis === null ? null : plane.cache,
    async commit(changes, assertions) {
      const outcome = await interruptible(commitBatch(plane.lane, changes, assertions))
      streams.committed(changes)
      pages.committed(changes)
      return outcome
    },
    isOutage: isDatabaseLost,
    log: report,
    absorb,
    resident: config.residentAgents,
    onTimer(dueAt) {
      alarms.wakeAt(dueAt)
      schedules.wakeAt(dueAt)
    },
  })
  const alarms = timers({
    clock,
    actors,
    store,
    commands: [holdExpire, paymentExpire, bountyExpire],
    log: report,
    ...queue.timers,
  })

  const egress = createEgress({ allow: parseAllow(config.ssrfAllow), userAgent })
  const upstream = createUpstream({ clock, userAgent })
  const sources = priceSources(upstream, {
    ...config.prices,
    coingeckoKey: config.coingeckoApiKey?.reveal() ?? null,
  })
  const prices = createPrices({ sources, clock })
  const measured = measurements(() => calledBefore.toolStats(), clock)
  const catalogue = createCatalogue({
    tools: nativeTools.map((tool) => withFreeTier(tool, config.freeTierPerDay)),
    baseUrl: publicUrl,
    stats: measured,
    ports: () => ({ ...ports, secrets: NO_SECRETS }),
  })
  const hive = createHive(hiveStore(sql), clock)
  const directory = directoryStore(sql)
  const usage = createUsage(reputationStore(sql), clock)
  // A database that hangs refuses nothing: what a call reads outside its aggregate is bounded here.
  const ports: Omit<Ports, 'secrets'> = {
    egress,
    upstream,
    prices,
    hive: {
      search: (query) => answered(hive.search(query)),
      trending: (limit) => answered(hive.trending(limit)),
    },
    directory: {
      has: (agentId) => answered(directory.has(agentId)),
      activeSince: (at, limit, except) => answered(directory.activeSince(at, limit, except)),
    },
    usage: { reputation: (agentId) => answered(usage.reputation(agentId)) },
    x402: { parse: parseX402 },
    catalogue,
  }
  const chain = await composeChain({
    config,
    publicUrl,
    clock,
    sql,
    actors,
    callLog: calledBefore,
    mppSecret: own.mpp.toString('base64url'),
    log: report,
  })
  const { paying } = chain
  const { chains, settler } = chain
  const wallets = sealingKeys(masters, 'wallet')
  const funds = composeFunds({ sql, clock, actors, chains, settler, sealing: wallets, log: report })
  const referrals = referralStore(sql)
  const pools = fleets({
    actors,
    clock,
    store: fleetStore(sql),
    walletKey: wallets,
    base: chains.settings.base,
    treasury: config.chain.treasury,
  })
  const calls = callService({
    clock,
    actors,
    paying,
    catalogue,
    ports,
    callLog: { findAnswer: (owner, key) => answered(calledBefore.findAnswer(owner, key)) },
    keyring: { reveal: (place) => answered(keyring.reveal(place)) },
    publicUrl,
    receiptKey: own.receipts,
    shutdown: shutdown.signal,
    isOutage: isDatabaseLost,
    log: report,
  })
  const schedules = queue.schedules({ actors, calls })

  server = await buildServer({
    config: {
      production: config.production,
      publicUrl,
      version: VERSION,
      trustProxy: config.trustProxy,
      operatorToken: config.operatorToken,
      rateLimits: config.rateLimits,
      onboardPerHourPerIp: config.onboardPerHourPerIp,
      bulkOnboardMax: config.bulkOnboardMax,
      starterCredits: config.starterCredits,
      exposure: config.chain.exposure,
      promoTransferable: config.promoTransferable,
      logLevel: config.logLevel,
      visitorKey: own.visitor,
      fingerprintKey: own.fingerprints,
    },
    clock,
    actors,
    calls,
    paying,
    rails: chain.chains.status,
    settlements: chain.settlements,
    catalogue,
    accounts: accounts({
      actors,
      clock,
      starter: config.starterCredits,
      pepper: own.pepper,
      walletKey: wallets,
      referrals,
    }),
    fleets: pools,
    drops: dropStore(sql),
    schedules: queue.files,
    bounties: bounties({ actors, store: bountyStore(sql) }),
    referrals,
    keys,
    profiles,
    keyring,
    clipboard,
    events: streams.outbox,
    ...pages.served,
    ...streams.served({ actors, once, profiles, messages }),
    ledger: transferStore(sql),
    deposits: funds.deposits,
    depositHealth: funds.depositHealth,
    funding: funds.funding,
    walletExports: funds.walletExports,
    pages: { fund: fundPage, noAgent: noAgentPage },
    callLog: calledBefore,
    once,
    plane,
    prices: () => welcomePrices(prices),
  })
  alarms.start()
  schedules.start()
  funds.start()
  pages.start()
  const upkeep = setInterval(() => {
    correctClock().catch((error: unknown) => report('clock not measured', error))
    store.ensurePartitions().catch((error: unknown) => report('partitions not made', error))
    const now = new Date(clock.now())
    pages.sweep(now).catch((error: unknown) => report('deliveries not swept', error))
    streams.sweep(now).catch((error: unknown) => report('signals not swept', error))
    funds.walletExports.forget().catch((error: unknown) => report('wallets not forgotten', error))
    messages.sweep(now).catch((error: unknown) => report('messages not swept', error))
    calledBefore.forgetAnswers().catch((error: unknown) => report('answers not swept', error))
    clipboard.sweep(now).catch((error: unknown) => report('clipboards not swept', error))
    queue.forget().catch((error: unknown) => report('results not swept', error))
  }, MINUTE)
  upkeep.unref()
  const { sweep: forget } = retention(sql)
  const forgetting = setInterval(() => {
    forget().catch((error: unknown) => report('old rows not swept', error))
  }, HOUR)
  forgetting.unref()

  const built = server
  return {
    server: built,
    plane,
    actors,
    publicUrl,
    async close() {
      clearInterval(upkeep)
      clearInterval(forgetting)
      const patience = setTimeout(() => shutdown.abort(), DRAIN_MS)
      await built.close()
      clearTimeout(patience)
      await streams.stop()
      await pages.stop()
      await schedules.stop()
      await queue.jobs.stop()
      await alarms.stop()
      // A sweep that waits for its receipt ends with the settler.
      await Promise.all([funds.stop(), chain.close()])
      await actors.close()
      await Promise.allSettled([egress.close(), upstream.close()])
      await plane.stop()
    },
  }
}

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

/** A few prices for a welcome. */
async function welcomePrices(prices: Ports['prices']): Promise<Record<string, unknown>> {
  const quotes = await prices.quote(['BTC', 'ETH', 'USDC'], AbortSignal.timeout(SECOND))
  return Object.fromEntries(
    [...quotes].flatMap(([symbol, quote]) =>
      quote === null ? [] : [[symbol, { usd: quote.usd }]],
    ),
  )
}
