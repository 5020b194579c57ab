import type { FastifyBaseLogger } from 'fastify'
import { createDatabaseAdjustedClock, type Clock } from '../../core/clock.ts'
import {
  masterKeyId,
  deriveEncryptionKeys,
  type EncryptionPurpose,
  type EncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import {
  startPostgresAndRedis,
  type StationPostgresAndRedis,
  type Sql,
} from '../../persistence/start-postgres-and-redis.ts'
import type { StationKeys } from '../../persistence/encrypted-station-key-store.ts'
import type { Config } from '../config.ts'
import { loadMasterKeys, loadStationKeys } from '../master-key.ts'
import { VERSION } from '../version.ts'

/** Composes configuration, data plane, keys and logging. */

export interface ComposeInfrastructureDeps {
  readonly config: Config
  readonly clock?: Clock | undefined
  /** Log output before the server's log exists. */
  readonly log?: ((line: string) => void) | undefined
}

/** The base that all other parts use. */
export interface StationInfrastructure {
  readonly config: Config
  readonly clock: Clock
  /** Public URL of the service, without a trailing slash. */
  readonly publicUrl: string
  readonly userAgent: string
  readonly plane: StationPostgresAndRedis
  readonly sql: Sql
  /** Keys that do not change with the master key. */
  readonly own: StationKeys
  readonly sealingFor: (purpose: EncryptionPurpose) => EncryptionKeys
  readonly log: (message: string, error: unknown) => void
  /** Switches to the server's log. */
  readonly logTo: (logger: FastifyBaseLogger) => void
}

/** Starts the data plane and loads the keys. Stops the data plane again if that fails. */
export async function composeInfrastructure({
  config,
  ...given
}: ComposeInfrastructureDeps): Promise<StationInfrastructure> {
  const { clock = createDatabaseAdjustedClock(), log = () => {} } = given
  const publicUrl = config.publicUrl ?? `http://${config.host}:${config.port}`
  const masters = loadMasterKeys(config)
  const plane = await startPostgresAndRedis({
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
  const own = await loadStationKeys(sql, masters).catch(async (error: unknown) => {
    await plane.stop()
    throw error
  })
  return {
    config,
    clock,
    publicUrl,
    userAgent: `gas-station/${VERSION} (+${publicUrl})`,
    plane,
    sql,
    own,
    sealingFor: (purpose) => deriveEncryptionKeys(masters, purpose),
    ...logging(log),
  }
}

/** Logs to the startup output until the server's log exists. */
function logging(line: (text: string) => void): Pick<StationInfrastructure, 'log' | 'logTo'> {
  let logger: FastifyBaseLogger | null = null
  return {
    log: (message, error) =>
      logger === null
        ? line(`${message}: ${String(error)}`)
        : logger.error({ err: error }, message),
    logTo(next) {
      logger = next
    },
  }
}
