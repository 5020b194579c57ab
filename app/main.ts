import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { EX_CONFIG, SettingError } from '../core/setting-error.ts'
import { composeStation, type Station } from './compose/compose-station.ts'
import { loadConfig, type Config } from './config.ts'
import { writeLogLine } from './log-line.ts'
import { toFolderSettingError, toListenSettingError } from './start-failure.ts'

/** Entry point of the station. */

const STOP_MS = 30_000
/** A minute for all schemas: their compilation takes as much processor time as the rest of a start. */
const WARM_PAUSE_MS = 100

try {
  const config = await withFreePort(loadConfig())
  for (const warning of config.warnings) writeLogLine('warn', warning)
  await serve(config)
} catch (error) {
  if (error instanceof SettingError) {
    writeLogLine('fatal', error.message)
    process.exit(EX_CONFIG)
  }
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error))
  writeLogLine('fatal', `the start has failed: ${message}`, { err: { type: name, message, stack } })
  process.exit(1)
}

/**
 * Tries to listen before anything is opened or migrated. `PORT=0` becomes a free port, because
 * responses contain links with the port.
 */
async function withFreePort(config: Config): Promise<Config> {
  const { host } = config
  const probe = createServer().listen(config.port, host)
  await once(probe, 'listening').catch((error: unknown) => {
    throw toListenSettingError(error, host, config.port)
  })
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return { ...config, port }
}

/** Starts the station, prints when it is ready and stops it on SIGTERM or SIGINT. */
async function serve(config: Config): Promise<void> {
  const log = (line: string, level: 'info' | 'warn' = 'warn') => writeLogLine(level, line)
  const station = await composeStation(config, { log }).catch((error: unknown) => {
    throw toFolderSettingError(error, config)
  })
  writeLogLine('info', station.plane.description)
  process.once('SIGTERM', () => void stop(station, 'SIGTERM'))
  process.once('SIGINT', () => void stop(station, 'SIGINT'))
  try {
    await station.server.listen({ port: config.port, host: config.host })
  } catch (error) {
    await stop(station, 'it cannot listen', EX_CONFIG)
    throw toListenSettingError(error, config.host, config.port)
  }
  writeLogLine('info', `gas-station ready ${station.publicUrl}`)
  await tellInspectorLink(station)
  try {
    await station.server.warm(WARM_PAUSE_MS)
  } catch (error) {
    writeLogLine('fatal', `a schema cannot be compiled: ${messageOf(error)}`)
    await stop(station, 'a schema cannot be compiled', 1)
  }
}

/** The link opens the inspector once, so it is shown to a person and never written where logs are collected. */
async function tellInspectorLink(station: Station): Promise<void> {
  if (!station.offersInspectorLink) return
  if (process.stderr.isTTY !== true)
    return writeLogLine('info', 'inspector: `gas inspect` prints a link')
  const link = await station.inspectorLink().catch(() => null)
  if (link !== null) console.error(`inspector ${link} (opens once)`)
}

/** Ends the process when everything is closed, at the latest after `STOP_MS`. */
async function stop(station: Station, reason: string, code = 0): Promise<void> {
  writeLogLine('info', `stopping: ${reason}`)
  setTimeout(() => {
    writeLogLine('fatal', `stopped after ${STOP_MS / 1_000} s: something does not close`)
    process.exit(1)
  }, STOP_MS).unref()
  try {
    await station.close()
    writeLogLine('info', `stopped: ${reason}`)
    if (code !== EX_CONFIG) process.exit(code)
  } catch (error) {
    writeLogLine('fatal', `not stopped cleanly: ${messageOf(error)}`)
    process.exit(1)
  }
}

/** A function declaration, because `serve` runs before a constant would be initialized. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
