import { accessSync, constants } from 'node:fs'
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
import { makeDataDir } from '../../persistence/make-folder.ts'
import type { StationKeys } from '../../persistence/encrypted-station-key-store.ts'
import type { Config } from '../config.ts'
import { hostInUrl } from '../setting-forms.ts'
import { loadMasterKeys, loadStationKeys } from '../master-key.ts'
import { VERSION } from '../version.ts'

/** Composes configuration, data plane, keys and logging. */

export interface ComposeInfrastructureDeps {
  readonly config: Config
  readonly clock?: Clock | undefined
  /** Log output before the server's log exists. */
  readonly log?: ((line: string, level?: 'info' | 'warn') => void) | undefined
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
  /**
   * Logs an error at `error`. Without one, null is a warning and undefined good news: what was
   * wrong is right again.
   */
  readonly log: (message: string, error: unknown) => void
  /** Switches to the server's log. */
  readonly logTo: (logger: FastifyBaseLogger) => void
}

/** Starts the data plane and loads the keys. Stops the data plane again if that fails. */
export async function composeInfrastructure({
  config,
  ...given
}: ComposeInfrastructureDeps): Promise<StationInfrastructure> {
  const { clock = createDatabaseAdjustedClock(), log: first = () => {} } = given
  const { say, log, logTo } = logging(first)
  const publicUrl = config.publicUrl ?? `http://${hostInUrl(config.host)}:${config.port}`
  const masters = loadMasterKeys(config)
  const plane = await startPostgresAndRedis({
    databaseUrl: config.databaseUrl?.reveal() ?? null,
    redisUrl: config.redisUrl?.reveal() ?? null,
    dataDir: config.dataDir,
    redis: config.redis,
    maxConnections: config.databaseConnections,
    keyIds: masters.map(masterKeyId),
    searchPath: config.searchPath,
    log: say,
  })
  const { sql } = plane
  const own = await prepareKeys(config, sql, masters).catch(async (error: unknown) => {
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
    log,
    logTo,
  }
}

/** The data directory keeps the last signed head, also where key and databases are elsewhere (decision 466). */
async function prepareKeys(
  { dataDir, journalArchiveDir }: Config,
  sql: Sql,
  masters: ReturnType<typeof loadMasterKeys>,
) {
  for (const folder of [dataDir, journalArchiveDir]) {
    makeDataDir(folder)
    accessSync(folder, constants.W_OK | constants.X_OK)
  }
  return loadStationKeys(sql, masters)
}

type Say = (line: string, level?: 'info' | 'warn') => void

/** The driver says so after the pool was ended: the station stops. */
const isOwnConnectionEnd = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'CONNECTION_ENDED'

/** Logs to the startup output until the server's log exists. */
function logging(first: Say): Pick<StationInfrastructure, 'log' | 'logTo'> & { say: Say } {
  let logger: FastifyBaseLogger | null = null
  const say: Say = (line, level = 'warn') =>
    logger === null ? first(line, level) : logger[level](line)
  return {
    say,
    log(message, error) {
      if (error === null || error === undefined) say(message, error === null ? 'warn' : 'info')
      else if (isOwnConnectionEnd(error)) say(`${message}: the station stops`, 'info')
      else if (logger === null)
        first(`${message}: ${error instanceof Error ? error.message : 'no error'}`)
      else logger.error({ err: error }, message)
    },
    logTo(next) {
      logger = next
    },
  }
}
