import { CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { shouldPrintJson, printJsonDocument } from '../cli-output.ts'
import { loadStationUrlAndApiKey } from '../agent/cli-station-url-and-key.ts'
import { createCliStationClient } from '../agent/cli-station-client.ts'
import { parseAmountOption } from '../agent/cli-verb-with-subcommands.ts'
import { MCP_CLIENT_NAMES, toMcpClientName } from './mcp-client-config-files.ts'
import { installMcpServer } from './install-mcp-server-in-desktop-client.ts'
import { forwardMcpOverStdio } from './forward-mcp-over-stdio.ts'

/** `gas mcp`. */

/** The verb that is an MCP server, and that installs it in desktop clients. */

const DEFAULT_PER_DAY_USDC = 1

export const mcpCliVerb: CliVerb = {
  forms: [
    '[--tools NAMES] [--category NAMES]',
    `install <${MCP_CLIENT_NAMES.join('|')}> [--per-day USDC]`,
  ],
  about:
    'Without words it is an MCP server on stdin and stdout, which forwards to the station and pays with the key. install gives a desktop client a key of its own, bound to a new Backpack with a limit per day, and writes it into the configuration of the client (mode 0600). The old file is kept beside it.',
  options: {
    tools: { value: 'NAMES', description: 'only these tools, separated by commas' },
    category: { value: 'NAMES', description: 'only tools of these categories' },
    'per-day': {
      value: 'USDC',
      description: `the limit per UTC day; ${DEFAULT_PER_DAY_USDC} by default`,
    },
    name: { value: 'NAME', description: 'the name of the server in the client; gas by default' },
    file: { value: 'PATH', description: 'the configuration file, if it is not at its usual place' },
    ...CLI_JSON_OPTION,
  },
  examples: ['gas mcp install claude-code', 'gas mcp install cursor --per-day 0.25'],
  async run({ words: [action, client, ...more], text, has }) {
    if (action === undefined) {
      const path = toMcpPath(text('tools'), text('category'))
      await forwardMcpOverStdio(process.stdin, process.stdout, loadStationUrlAndApiKey(), path)
      return 0
    }
    const name = client === undefined ? null : toMcpClientName(client)
    if (action !== 'install' || name === null || more.length > 0) throw new CliUsageError('')
    const installed = await installMcpServer(createCliStationClient(), {
      client: name,
      serverName: text('name') ?? 'gas',
      file: text('file'),
      perDayUsdc: parseLimit(text('per-day')),
    })
    printJsonDocument(installed, shouldPrintJson(has('json')))
    console.error(`restart the client: it finds the tools of ${installed.url} in ${installed.file}`)
    return 0
  },
}

/** The address that shows only some tools; the station says which names it does not know. */
function toMcpPath(tools: string | null, category: string | null): string {
  const query = new URLSearchParams({
    ...(tools === null ? {} : { tools }),
    ...(category === null ? {} : { category }),
  }).toString()
  return query === '' ? '/mcp' : `/mcp?${query}`
}

function parseLimit(text: string | null): number {
  const limit = text === null ? DEFAULT_PER_DAY_USDC : parseAmountOption(text, '--per-day')
  if (limit > 0) return limit
  throw new CliUsageError('--per-day must be an amount above 0')
}
