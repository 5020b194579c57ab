import {
  startPostgresAndRedis,
  type StationPostgresAndRedis,
} from '../../../persistence/start-postgres-and-redis.ts'
import { loadConfig, type Config } from '../../config.ts'
import { toFolderSettingError } from '../../start-failure.ts'

/** The database of the settings, for one command of the operator. */

/**
 * Connects to the running station's database, or starts it for the duration of the command. A
 * database that holds no station is a SettingError unless the command `mayCreate` it (decision 420).
 */
export async function withStationDatabase<Result>(
  use: (plane: StationPostgresAndRedis) => Promise<Result>,
  config: Config = loadConfig(),
  { mayCreate = false }: { readonly mayCreate?: boolean } = {},
): Promise<Result> {
  const plane = await startPostgresAndRedis({
    databaseUrl: config.databaseUrl?.reveal() ?? null,
    redisUrl: null,
    redis: 'none',
    dataDir: config.dataDir,
    maxConnections: 4,
    mayCreate,
    log: (line) => console.error(line),
  }).catch((error: unknown) => {
    throw toFolderSettingError(error, config)
  })
  try {
    return await use(plane)
  } finally {
    await plane.stop()
  }
}
