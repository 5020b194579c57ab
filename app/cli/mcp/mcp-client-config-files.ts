import { homedir } from 'node:os'
import { join } from 'node:path'

/** Where desktop clients of MCP keep their servers, and in which form. */

/** How to start a server. */
export interface McpServerCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

interface McpClientConfigFile {
  /** The member with the servers by name. */
  readonly member: 'mcpServers' | 'servers'
  readonly isTyped: boolean
  path(home: string): string
}

/** The folder of settings of applications. */
function applicationFolder(home: string): string {
  if (process.platform === 'darwin') return join(home, 'Library', 'Application Support')
  return process.platform === 'win32' ? join(home, 'AppData', 'Roaming') : join(home, '.config')
}

const CONFIG_FILES = {
  claude: {
    member: 'mcpServers',
    isTyped: false,
    path: (home) => join(applicationFolder(home), 'Claude', 'claude_desktop_config.json'),
  },
  // Its file for a project is shared with others, who would get the key.
  'claude-code': {
    member: 'mcpServers',
    isTyped: true,
    path: (home) => join(home, '.claude.json'),
  },
  cursor: {
    member: 'mcpServers',
    isTyped: false,
    path: (home) => join(home, '.cursor', 'mcp.json'),
  },
  vscode: {
    member: 'servers',
    isTyped: true,
    path: (home) => join(applicationFolder(home), 'Code', 'User', 'mcp.json'),
  },
} as const satisfies Record<string, McpClientConfigFile>

export type McpClientName = keyof typeof CONFIG_FILES
export const MCP_CLIENT_NAMES = Object.keys(CONFIG_FILES) as McpClientName[]

/** Returns the client of that name; null for an unknown one. */
export const toMcpClientName = (name: string): McpClientName | null =>
  MCP_CLIENT_NAMES.find((known) => known === name) ?? null

export const mcpClientConfigPath = (client: McpClientName): string =>
  CONFIG_FILES[client].path(homedir())

type Config = Readonly<Record<string, unknown>>

/** Returns a configuration with the server, and everything else as it was. */
export function addMcpServerToConfig(
  client: McpClientName,
  config: Config,
  name: string,
  server: McpServerCommand,
): Config {
  const { member, isTyped } = CONFIG_FILES[client]
  const others = config[member]
  const known = typeof others === 'object' && others !== null ? others : {}
  const entry = isTyped ? { type: 'stdio', ...server } : server
  return { ...config, [member]: { ...known, [name]: entry } }
}
