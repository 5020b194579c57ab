import type { FastifyInstance } from 'fastify'
import type { ActorRuntime } from '../../actors/actor-runtime.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import type { StationPostgresAndRedis } from '../../persistence/start-postgres-and-redis.ts'
import type { DnsAddressResolver } from '../../providers/egress/dns-resolver.ts'
import { composeOnboardingFleetsAndBounties } from './compose-onboarding-fleets-and-bounties.ts'
import { createBackpackRefusalLog } from '../../calls/backpack-refusal-log.ts'
import { createBackpackRefusalStore } from '../../persistence/calls/backpack-refusal-store.ts'
import { composeActors } from './compose-actors.ts'
import { composeAttestations } from './attestations/compose-attestations.ts'
import { composeCallService } from './compose-call-service.ts'
import { composeCommunityTools } from './market/compose-community-tools.ts'
import { createToolImportService } from '../../calls/community/tool-import-service.ts'
import {
  createCommunityToolService,
  createToolChangeLimiter,
} from '../../calls/community/community-tool-service.ts'
import { createCommunityToolQualityJob } from '../../jobs/community-tool-quality-job.ts'
import { createOriginOwnershipChallenge } from '../../providers/egress/origin-ownership-challenge.ts'
import { composePayments } from './compose-payments.ts'
import { composeDeposits } from './compose-deposits.ts'
import { composeInfrastructure } from './compose-infrastructure.ts'
import { composeInspector } from './compose-inspector.ts'
import { composeHive } from './compose-hive.ts'
import { composeJobs } from './compose-jobs.ts'
import { composeRealtime } from './compose-realtime.ts'
import { composeServer } from './compose-server.ts'
import { composeStores } from './compose-stores.ts'
import { composeTools } from './compose-tools.ts'
import { composeMaintenance } from './compose-maintenance.ts'
import { composeWebhooks } from './compose-webhooks.ts'
import { composeX402Registry } from './market/compose-x402-registry.ts'
import type { Config } from '../config.ts'

/** Composes the whole station. */

export interface Station {
  readonly server: FastifyInstance
  readonly plane: StationPostgresAndRedis
  readonly actors: ActorRuntime
  readonly publicUrl: string
  readonly offersInspectorLink: boolean
  /** A link to the inspector with a one-time code. */
  inspectorLink(): Promise<string>
  /** Stops accepting requests, finishes running ones and releases all resources. */
  close(): Promise<void>
}

/** Replacements for tests. */
export interface StationTestOverrides {
  readonly clock?: Clock
  readonly log?: (line: string) => void
  /** DNS resolution of the hosts of webhooks and builders. */
  readonly resolve?: DnsAddressResolver
  /** The time that the builder of a community tool has for a whole call, in milliseconds. */
  readonly communityCallMs?: number
  /** Fees of this time share a head of the attestations, in milliseconds. */
  readonly gatherFeesMs?: number
}

const DRAIN_MS = 20 * SECOND

/** Creates all parts from the configuration. `close` stops them in reverse order. */
export async function composeStation(
  config: Config,
  overrides: StationTestOverrides = {},
): Promise<Station> {
  const { clock, log, resolve, communityCallMs: callMs, gatherFeesMs } = overrides
  const base = await composeInfrastructure({ config, clock, log })
  const { plane, publicUrl, own, sealingFor } = base
  const wallets = sealingFor('wallet')

  const stores = composeStores(base)
  const { callLog, keys, referrals, once, profiles, messages } = stores.served
  const streams = await composeRealtime({ ...base, keys })
  const queue = await composeJobs(base)
  const { letters } = queue
  const pages = composeWebhooks({
    ...base,
    sealing: sealingFor('webhook'),
    letters,
    resolve,
  })
  const hive = composeHive(base)
  const inspector = composeInspector(base)
  const attested = composeAttestations({
    ...base,
    sealing: sealingFor('station'),
    gatherMs: gatherFeesMs,
  })
  await attested.prepare()
  const { actors, alarms, databaseTime } = await composeActors({
    ...base,
    stores,
    recorder: inspector.recorder,
    listeners: [streams, pages, hive, queue, attested],
    timers: queue.timers,
    onTimer: (dueAt) => schedules.wakeAt(dueAt),
  })

  const community = composeCommunityTools({ ...base, resolve, callMs })
  await community.start()
  const tools = composeTools({ ...base, callLog, hive: hive.ports, community })
  await tools.recordCatalogue()
  const mppSecret = own.mpp.toString('base64url')
  const chain = await composePayments({ ...base, actors, callLog, mppSecret })
  const { chains, settler } = chain
  const funds = composeDeposits({ ...base, actors, chains, settler, sealing: wallets })
  const agents = composeOnboardingFleetsAndBounties({
    ...base,
    actors,
    chains,
    referrals,
    walletKey: wallets,
    keptBytes: stores.served.keptBytes,
  })
  const refusals = createBackpackRefusalLog({
    clock: base.clock,
    log: base.log,
    write: createBackpackRefusalStore(base.sql).add,
  })
  const { calls, receipts, cutShort } = composeCallService({
    ...base,
    actors,
    refusals,
    explained: inspector.explained,
    stores,
    tools,
    chain,
    hive,
  })
  const selling = {
    actors,
    store: community.store,
    nativeSlugs: tools.catalogue.tools.map(({ slug }) => slug),
    production: config.production,
    checkUrl: pages.served.webhooks.checkUrl,
    challenge: createOriginOwnershipChallenge({ egress: community.egress, key: own.origins }),
    announce: community.announce,
    work: community.work,
    changes: createToolChangeLimiter(base.clock),
  }
  const builders = createCommunityToolService({ ...selling, key: own.builders })
  const { egress, credentials } = community
  const toolImports = createToolImportService({
    ...selling,
    egress,
    credentials,
    clock: base.clock,
    keptBytes: stores.served.keptBytes,
  })
  const quality = createCommunityToolQualityJob({
    actors,
    takeRound: community.callStore.takeRound,
    announce: community.announce,
    log: base.log,
  })
  const schedules = queue.schedules({ actors, calls, keys })
  const registry = composeX402Registry({ ...base, resolve })

  const server = await composeServer(base, {
    actors,
    calls,
    receipts,
    refusals,
    ...stores.served,
    ...tools.served,
    builders,
    toolImports,
    communityCalls: community.callStore,
    ...attested.served,
    ...chain.served,
    ...funds.served,
    ...agents,
    ...queue.served,
    ...pages.served,
    ...hive.served,
    ...registry.served,
    hive: { ...hive.served.hive, trending: tools.ports.hive.trending },
    ...inspector.served,
    ...streams.served({ actors, once, profiles, messages }),
  })
  base.logTo(server.log)

  for (const part of [alarms, schedules, funds, pages, hive, quality, attested, registry])
    part.start()
  const upkeep = composeMaintenance({
    ...base,
    stores,
    databaseTime,
    pages,
    streams,
    funds,
    queue,
  })
  return {
    server,
    plane,
    actors,
    publicUrl,
    offersInspectorLink: inspector.offersLink,
    inspectorLink: inspector.link,
    async close() {
      upkeep.stop()
      inspector.stop()
      await drain(server, cutShort)
      await refusals.flush()
      await refusals.flush()
      await inspector.explained.flush()
      const parts = [streams, pages, hive, quality, attested, registry, schedules, queue, alarms]
      for (const part of parts) await part.stop()
      // A sweep that waits for its receipt ends with the settler.
      await Promise.all([funds.stop(), chain.close()])
      await actors.close()
      await Promise.all([tools.close(), community.close()])
      await plane.stop()
    },
  }
}

/** Closes the server. Aborts calls that run longer than `DRAIN_MS`. */
async function drain(server: FastifyInstance, cutShort: () => void): Promise<void> {
  const timeout = setTimeout(cutShort, DRAIN_MS)
  await server.close()
  clearTimeout(timeout)
}
