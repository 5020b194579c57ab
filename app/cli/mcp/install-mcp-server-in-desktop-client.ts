import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { newPrefixedId } from '../../../core/ids-and-api-keys.ts'
import { toErrorMessage } from '../cli-output.ts'
import { CliFailure } from '../cli-verb.ts'
import type { CliStationClient } from '../agent/cli-station-client.ts'
import { toNpxCommand } from './npx-command.ts'
import {
  mcpClientConfigPath,
  addMcpServerToConfig,
  type McpClientName,
  type McpServerCommand,
} from './mcp-client-config-files.ts'

/** Writes this program as an MCP server into the configuration of a desktop client. */

export interface McpInstallationOptions {
  readonly client: McpClientName
  /** The name of the server in the client. */
  readonly serverName: string
  /** Another configuration file than the usual one; null for that. */
  readonly file: string | null
  readonly perDayUsdc: number
}

/** A year: a desktop client has nobody who renews its Backpack every 90 days. */
const BACKPACK_DAYS = 365
const OWNER_ONLY = 0o600

/**
 * Creates a Backpack with a limit per day and a key bound to it, and writes the key into the configuration.
 * A file that is no JSON is refused before anything is created. Returns what was done, without the key.
 */
export async function installMcpServer(
  station: CliStationClient,
  { client, serverName, file: wanted, perDayUsdc }: McpInstallationOptions,
) {
  const file = toRealPath(wanted === null ? mcpClientConfigPath(client) : resolve(wanted))
  readConfig(file)
  const start = toStartCommand()
  const backpack = await station.write('POST', '/api/backpack/create', {
    body: {
      agent_name: `mcp-${client}`,
      expiry_days: BACKPACK_DAYS,
      fuse: { per_day_usdc: perDayUsdc },
    },
  })
  const backpackId = String(backpack['backpack_id'])
  const key = await station.write('POST', '/api/keys', {
    body: { name: `mcp-${client}`, backpack_id: backpackId },
  })
  const server = toServerCommand(station.url, String(key['api_key']), start)
  const saved = saveOldFile(file)
  // Read again: a client that runs may have written its file while the station was asked.
  writeConfig(file, addMcpServerToConfig(client, readConfig(file), serverName, server))
  return {
    client,
    file,
    saved_file: saved,
    url: station.url,
    backpack_id: backpackId,
    key_id: String(key['id']),
    per_day_usdc: perDayUsdc,
  }
}

/** The file behind a link, as people keep their settings elsewhere. */
const toRealPath = (path: string): string => (existsSync(path) ? realpathSync(path) : path)

function readConfig(file: string): Readonly<Record<string, unknown>> {
  if (!existsSync(file)) return {}
  const text = readFileSync(file, 'utf8')
  if (text.trim() === '') return {}
  try {
    const value = JSON.parse(text) as unknown
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
    throw new Error('it is no JSON object')
  } catch (error) {
    throw new CliFailure(
      `${file} cannot be changed, and nothing was created: ${toErrorMessage(error)}. Comments have to be removed from it first.`,
    )
  }
}

/** Starts the program that runs now; one that npx keeps may be removed at any time, so npx starts it. */
function toServerCommand(url: string, key: string, start: readonly string[]): McpServerCommand {
  const [command = 'npx', ...args] = start
  return { command, args: [...args, 'mcp'], env: { GAS_URL: url, GAS_API_KEY: key } }
}

function toStartCommand(): readonly string[] {
  const program = resolve(process.argv[1] ?? '')
  return toNpxCommand(program) ?? [process.execPath, ...process.execArgv, program]
}

/** Copies the file beside itself. Returns the path of the copy; null without a file. */
function saveOldFile(file: string): string | null {
  if (!existsSync(file)) return null
  let copy = `${file}.before-gas`
  for (let count = 2; existsSync(copy); count += 1) copy = `${file}.before-gas-${count}`
  copyFileSync(file, copy)
  chmodSync(copy, OWNER_ONLY)
  return copy
}

/** Replaces the file at once: a client that reads it meanwhile sees the old or the new one. */
function writeConfig(file: string, config: Readonly<Record<string, unknown>>): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const draft = newPrefixedId(file)
  writeFileSync(draft, `${JSON.stringify(config, null, 2)}\n`, { mode: OWNER_ONLY, flag: 'wx' })
  chmodSync(draft, OWNER_ONLY)
  renameSync(draft, file)
}
