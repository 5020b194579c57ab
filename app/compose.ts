import type { FastifyInstance } from 'fastify'
import type { Runtime } from '../actors/runtime.ts'
import { SECOND, type Clock } from '../core/clock.ts'
import type { Plane } from '../persistence/plane.ts'
import type { ResolveAll } from '../tools/egress/resolver.ts'
import { composeAccounts } from './compose-accounts.ts'
import { createRefusalLog } from '../calls/refusal-log.ts'
import { refusalStore } from '../persistence/refusals.ts'
import { composeActors } from './compose-actors.ts'
import { composeCalls } from './compose-calls.ts'
import { composeChain } from './compose-chain.ts'
import { composeFunds } from './compose-funds.ts'
import { composeGround } from './compose-ground.ts'
import { composeHive } from './compose-hive.ts'
import { composeJobs } from './compose-jobs.ts'
import { composeRealtime } from './compose-realtime.ts'
import { composeServer } from './compose-server.ts'
import { composeStores } from './compose-stores.ts'
import { composeTools } from './compose-tools.ts'
import { composeUpkeep } from './compose-upkeep.ts'
import { composeWebhooks } from './compose-webhooks.ts'
import type { Config } from './config.ts'

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
  const { clock, log, resolve } = overrides
  const ground = await composeGround({ config, clock, log })
  const { plane, publicUrl, own, sealingFor } = ground
  const wallets = sealingFor('wallet')

  const stores = composeStores(ground)
  const { callLog, keys, referrals, once, profiles, messages } = stores.served
  const streams = await composeRealtime({ ...ground, keys })
  const queue = await composeJobs(ground)
  const { letters } = queue
  const pages = composeWebhooks({ ...ground, sealing: sealingFor('webhook'), letters, resolve })
  const hive = composeHive(ground)
  const { actors, alarms, databaseTime } = await composeActors({
    ...ground,
    stores,
    listeners: [streams, pages, hive, queue],
    timers: queue.timers,
    onTimer: (dueAt) => schedules.wakeAt(dueAt),
  })

  const tools = composeTools({ ...ground, callLog, hive: hive.ports })
  await tools.recordCatalogue()
  const mppSecret = own.mpp.toString('base64url')
  const chain = await composeChain({ ...ground, actors, callLog, mppSecret })
  const { chains, settler } = chain
  const funds = composeFunds({ ...ground, actors, chains, settler, sealing: wallets })
  const agents = composeAccounts({ ...ground, actors, chains, referrals, walletKey: wallets })
  const refusals = createRefusalLog({
    clock: ground.clock,
    log: ground.log,
    write: refusalStore(ground.sql).add,
  })
  const { calls, receipts, cutShort } = composeCalls({
    ...ground,
    actors,
    refusals,
    stores,
    tools,
    chain,
    hive,
  })
  const schedules = queue.schedules({ actors, calls, keys })

  const server = await composeServer(ground, {
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
  ground.logTo(server.log)

  for (const part of [alarms, schedules, funds, pages, hive]) part.start()
  const upkeep = composeUpkeep({ ...ground, stores, databaseTime, pages, streams, funds, queue })
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

/** Closes the server; calls that still run when the time is up are cut short. */
async function drain(server: FastifyInstance, cutShort: () => void): Promise<void> {
  const patience = setTimeout(cutShort, DRAIN_MS)
  await server.close()
  clearTimeout(patience)
}
