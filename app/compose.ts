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
import { HOUR, MINUTE, SECOND, systemClock, type Clock } from '../core/clock.ts'
import { masterKeyId, sealingKeys } from '../core/crypto.ts'
import { isDatabaseLost } from '../http/database-lost.ts'
import { buildServer } from '../http/server.ts'
import { aggregateStore } from '../persistence/aggregates.ts'
import { bountyStore } from '../persistence/bounties.ts'
import { callLog } from '../persistence/call-log.ts'
import { clipboardStore } from '../persistence/clipboard.ts'
import { commitBatch } from '../persistence/commit.ts'
import { dropStore } from '../persistence/drops.ts'
import { fleetStore } from '../persistence/fleets.ts'
import { keyringStore } from '../persistence/keyring.ts'
import { keyStore } from '../persistence/keys.ts'
import { messageStore } from '../persistence/messages.ts'
import { onceStore } from '../persistence/once.ts'
import { startPlane, type Plane } from '../persistence/plane.ts'
import { profileStore } from '../persistence/profiles.ts'
import { referralStore } from '../persistence/referrals.ts'
import { retention } from '../persistence/retention.ts'
import { answered, interruptible } from '../persistence/within.ts'
import { transferStore } from '../persistence/transfers.ts'
import type { ResolveAll } from '../tools/egress/resolver.ts'
import type { Ports } from '../tools/ports.ts'
import { composeChain } from './compose-chain.ts'
import { composeFunds } from './compose-funds.ts'
import { composeHive } from './compose-hive.ts'
import { composeJobs } from './compose-jobs.ts'
import { composeRealtime } from './compose-realtime.ts'
import { composeTools } from './compose-tools.ts'
import { composeWebhooks } from './compose-webhooks.ts'
import { fundPage, noAgentPage } from '../web/fund.ts'
import type { Config } from './config.ts'
import { closesPolitely } from './goodbye.ts'
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

  const hive = composeHive({ config, userAgent, sql, clock, log: report })

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
      hive.committed(changes)
      queue.committed(changes)
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

  const tools = composeTools({
    config,
    clock,
    sql,
    publicUrl,
    userAgent,
    callLog: calledBefore,
    log: report,
    hive: hive.ports,
  })
  const { catalogue, ports } = tools
  await tools.recordCatalogue()
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
    lookInHive: hive.lookInHive,
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
    planning: tools.planning,
    ...tools.memories,
    sandboxHealth: tools.sandboxHealth,
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
    ...hive.served,
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
    prices: () => welcomePrices(ports.prices),
  })
  alarms.start()
  schedules.start()
  funds.start()
  pages.start()
  hive.start()
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
  closesPolitely(built.server)
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
      await hive.stop()
      await schedules.stop()
      await queue.jobs.stop()
      await alarms.stop()
      // A sweep that waits for its receipt ends with the settler.
      await Promise.all([funds.stop(), chain.close()])
      await actors.close()
      await tools.close()
      await plane.stop()
    },
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
