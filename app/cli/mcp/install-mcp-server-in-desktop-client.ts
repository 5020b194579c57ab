import { chmodSync, copyFileSync, existsSync, realpathSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileFailure, readTextFile, replaceFile } from '../cli-files.ts'
import { toErrorMessage } from '../cli-output.ts'
import { printAnswer } from '../print-answer.ts'
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
  const saved = addServer(file, key, (config) =>
    addMcpServerToConfig(client, config, serverName, server),
  )
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

/**
 * Changes the file and returns the path of the copy of the old one. The station tells the key once: where the file
 * cannot be written, it is printed.
 */
function addServer(
  file: string,
  key: object,
  change: (config: Readonly<Record<string, unknown>>) => object,
): string | null {
  try {
    const saved = saveOldFile(file)
    // Read again: a client that runs may have written its file while the station was asked.
    replaceFile(file, `${JSON.stringify(change(readConfig(file)), null, 2)}\n`)
    return saved
  } catch (error) {
    printAnswer(key, true)
    throw fileFailure(file, 'changed, so the key is printed', error)
  }
}

/** The file behind a link, as people keep their settings elsewhere. */
const toRealPath = (path: string): string => (existsSync(path) ? realpathSync(path) : path)

function readConfig(file: string): Readonly<Record<string, unknown>> {
  if (!existsSync(file)) return {}
  const text = readTextFile(file)
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
