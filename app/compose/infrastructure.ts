import type { FastifyBaseLogger } from 'fastify'
import { createSystemClock, type Clock } from '../../core/clock.ts'
import {
  masterKeyId,
  deriveEncryptionKeys,
  type EncryptionPurpose,
  type EncryptionKeys,
} from '../../core/crypto.ts'
import { startDataPlane, type DataPlane, type Sql } from '../../persistence/data-plane.ts'
import type { StationKeys } from '../../persistence/station-keys.ts'
import type { Config } from '../config.ts'
import { loadMasterKeys, loadStationKeys } from '../master-key.ts'
import { VERSION } from '../version.ts'

export interface ComposeInfrastructureDeps {
  readonly config: Config
  readonly clock?: Clock | undefined
  /** Where lines go while there is no server. */
  readonly log?: ((line: string) => void) | undefined
}

/** What every part of a station stands on. */
export interface StationInfrastructure {
  readonly config: Config
  readonly clock: Clock
  /** Where callers reach the service, without a slash at its end. */
  readonly publicUrl: string
  readonly userAgent: string
  readonly plane: DataPlane
  readonly sql: Sql
  /** The keys that outlive every master key. */
  readonly own: StationKeys
  readonly sealingFor: (purpose: EncryptionPurpose) => EncryptionKeys
  readonly log: (message: string, error: unknown) => void
  /** From now on the log is that of the server. */
  readonly logTo: (logger: FastifyBaseLogger) => void
}

/** Starts the data plane and opens the keys; what does not open them stops it again. */
export async function composeInfrastructure({
  config,
  ...given
}: ComposeInfrastructureDeps): Promise<StationInfrastructure> {
  const { clock = createSystemClock(), log = () => {} } = given
  const publicUrl = config.publicUrl ?? `http://${config.host}:${config.port}`
  const masters = loadMasterKeys(config)
  const plane = await startDataPlane({
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

/** Failures go to the lines of the start until the server has a log. */
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
