import {
  startPostgresAndRedis,
  type StationPostgresAndRedis,
} from '../../../persistence/start-postgres-and-redis.ts'
import { loadConfig, type Config } from '../../config.ts'

/** The database of the settings, for one command of the operator. */

/** Connects to the running station's database, or starts it for the duration of the command. */
export async function withStationDatabase<Result>(
  use: (plane: StationPostgresAndRedis) => Promise<Result>,
  config: Config = loadConfig(),
): Promise<Result> {
  const plane = await startPostgresAndRedis({
    databaseUrl: config.databaseUrl?.reveal() ?? null,
    redisUrl: null,
    redis: 'none',
    dataDir: config.dataDir,
    maxConnections: 4,
    log: (line) => console.error(line),
  })
  try {
    return await use(plane)
  } finally {
    await plane.stop()
  }
}
