import type { FastifyInstance } from 'fastify'
import type { ActorRuntime } from '../../actors/actor-runtime.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import type { PostgresAndRedis } from '../../persistence/start-postgres-and-redis.ts'
import type { ResolveAddresses } from '../../providers/egress/dns-resolver.ts'
import { composeOnboardingFleetsAndBounties } from './compose-onboarding-fleets-and-bounties.ts'
import { createBackpackRefusalLog } from '../../calls/backpack-refusal-log.ts'
import { createBackpackRefusalStore } from '../../persistence/calls/backpack-refusal-store.ts'
import { composeActors } from './compose-actors.ts'
import { composeCalls } from './compose-calls.ts'
import { composePayments } from './compose-payments.ts'
import { composeDeposits } from './compose-deposits.ts'
import { composeInfrastructure } from './compose-infrastructure.ts'
import { composeHive } from './compose-hive.ts'
import { composeJobs } from './compose-jobs.ts'
import { composeRealtime } from './compose-realtime.ts'
import { composeServer } from './compose-server.ts'
import { composeStores } from './compose-stores.ts'
import { composeTools } from './compose-tools.ts'
import { composeMaintenance } from './compose-maintenance.ts'
import { composeWebhooks } from './compose-webhooks.ts'
import type { Config } from '../config.ts'

/** Composes the whole station. */

export interface Station {
  readonly server: FastifyInstance
  readonly plane: PostgresAndRedis
  readonly actors: ActorRuntime
  readonly publicUrl: string
  /** Stops accepting requests, finishes running ones and releases all resources. */
  close(): Promise<void>
}

/** Replacements for tests. */
export interface StationOverrides {
  readonly clock?: Clock
  readonly log?: (line: string) => void
  /** DNS resolution of webhook hosts. */
  readonly resolve?: ResolveAddresses
}

const DRAIN_MS = 20 * SECOND

/** Creates all parts from the configuration. `close` stops them in reverse order. */
export async function composeStation(
  config: Config,
  overrides: StationOverrides = {},
): Promise<Station> {
  const { clock, log, resolve } = overrides
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
  const { actors, alarms, databaseTime } = await composeActors({
    ...base,
    stores,
    listeners: [streams, pages, hive, queue],
    timers: queue.timers,
    onTimer: (dueAt) => schedules.wakeAt(dueAt),
  })

  const tools = composeTools({ ...base, callLog, hive: hive.ports })
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
  })
  const refusals = createBackpackRefusalLog({
    clock: base.clock,
    log: base.log,
    write: createBackpackRefusalStore(base.sql).add,
  })
  const { calls, receipts, cutShort } = composeCalls({
    ...base,
    actors,
    refusals,
    stores,
    tools,
    chain,
    hive,
  })
  const schedules = queue.schedules({ actors, calls, keys })

  const server = await composeServer(base, {
    actors,
    calls,
    receipts,
    refusals,
    ...stores.served,
    ...tools.served,
    ...chain.served,
    ...funds.served,
    ...agents,
    ...queue.served,
    ...pages.served,
    ...hive.served,
    ...streams.served({ actors, once, profiles, messages }),
  })
  base.logTo(server.log)

  for (const part of [alarms, schedules, funds, pages, hive]) part.start()
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
    async close() {
      upkeep.stop()
      await drain(server, cutShort)
      await refusals.flush()
      await refusals.flush()
      for (const part of [streams, pages, hive, schedules, queue, alarms]) await part.stop()
      // A sweep that waits for its receipt ends with the settler.
      await Promise.all([funds.stop(), chain.close()])
      await actors.close()
      await tools.close()
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
