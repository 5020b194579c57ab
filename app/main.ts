import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { composeStation, type Station } from './compose/compose-station.ts'
import { ConfigError, loadConfig, type Config } from './config.ts'

/** Entry point of the station. */

const EX_CONFIG = 78
const STOP_MS = 30_000
/** A minute for all schemas: their compilation takes as much processor time as the rest of a start. */
const WARM_PAUSE_MS = 100

try {
  await serve(await withPort(loadConfig()))
} catch (error) {
  if (!(error instanceof ConfigError)) throw error
  console.error(error.message)
  process.exit(EX_CONFIG)
}

/**
 * Chooses a free port for `PORT=0` before the start, because responses contain links with the port.
 */
async function withPort(config: Config): Promise<Config> {
  if (config.port !== 0) return config
  const probe = createServer().listen(0, config.host)
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return { ...config, port }
}

/** Starts the station, prints when it is ready and stops it on SIGTERM or SIGINT. */
async function serve(config: Config): Promise<void> {
  const station = await composeStation(config, { log: (line) => console.error(line) })
  console.error(station.plane.description)
  process.once('SIGTERM', () => void stop(station, 0))
  process.once('SIGINT', () => void stop(station, 0))
  try {
    await station.server.listen({ port: config.port, host: config.host })
  } catch (error) {
    console.error(`cannot listen on ${config.host}:${config.port}: ${messageOf(error)}`)
    return stop(station, 1)
  }
  console.log(`gas-station ready ${station.publicUrl}`)
  const link = await station.inspectorLink().catch(() => null)
  if (link !== null) console.error(`inspector ${link} (opens once)`)
  try {
    await station.server.warm(WARM_PAUSE_MS)
  } catch (error) {
    console.error(`a schema cannot be compiled: ${messageOf(error)}`)
    return stop(station, 1)
  }
}

async function stop(station: Station, code: number): Promise<void> {
  setTimeout(() => process.exit(1), STOP_MS).unref()
  try {
    await station.close()
    process.exit(code)
  } catch (error) {
    console.error(`not stopped cleanly: ${messageOf(error)}`)
    process.exit(1)
  }
}

/** A function declaration, because `serve` runs before a constant would be initialized. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
