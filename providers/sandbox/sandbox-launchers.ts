import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { LINUX_AUTOGROUP_FILE } from './host/cpu-priority.ts'
import type { SandboxIsolationLevel, SandboxLanguage } from './sandbox-port.ts'
import type { SandboxHostProgram } from './prepare-sandbox-host-program.ts'

/** A way to start a host. */
export interface SandboxLauncher {
  readonly isolation: SandboxIsolationLevel
  command(language: SandboxLanguage): readonly [file: string, ...args: string[]]
  /** Runs as nobody when started by root. */
  readonly nobody?: true
  /** Reports the host's process id, since the started process only supervises it. */
  readonly reportsPid?: true
}

/** The user nobody on every Linux. */
export const NOBODY_UID = 65_534
const SANDBOX_HOST_HEAP_MIB = 128
const SYSTEM_LIBRARY_FOLDERS = ['/usr/lib', '/usr/lib64', '/lib', '/lib64', '/nix/store']

/** Returns the launchers of this system, best first; only a start shows whether one works. */
export function listSandboxLaunchers(
  { main, readable }: SandboxHostProgram,
  { searchPath, root }: { searchPath: string; root: boolean },
): readonly SandboxLauncher[] {
  const [bwrap, unshare] = ['bwrap', 'unshare'].map((name) => findOnPath(name, searchPath))
  const node = (
    language: SandboxLanguage,
    watch: boolean,
    more: readonly string[] = [],
  ): [string, ...string[]] => [
    process.execPath,
    ...nodeFlags(language, readable, watch),
    ...more,
    main,
    language,
    ...(watch ? ['watch'] : []),
  ]
  const launchers: SandboxLauncher[] = []
  if (bwrap !== null) {
    const walls = bwrapFlags([process.execPath, ...readable])
    const command = (language: SandboxLanguage): [string, ...string[]] => [
      bwrap ?? '',
      ...walls,
      ...node(language, false, [`--allow-fs-write=${LINUX_AUTOGROUP_FILE}`]),
    ]
    launchers.push({ isolation: 'bwrap', reportsPid: true, command })
  }
  if (unshare !== null) {
    const own = root
      ? [`--setgid=${NOBODY_UID}`, `--setuid=${NOBODY_UID}`]
      : ['--user', '--map-root-user']
    const walls = ['--net', '--ipc', '--uts', ...own, '--']
    const command = (language: SandboxLanguage): [string, ...string[]] => [
      unshare ?? '',
      ...walls,
      ...node(language, true),
    ]
    launchers.push({ isolation: 'unshare', command })
  }
  const command = (language: SandboxLanguage) => node(language, true)
  if (root) launchers.push({ isolation: 'process', command, nobody: true })
  return [...launchers, { isolation: 'process', command }]
}

/** Flags of Node's permission model: read access to its program and packages only. */
function nodeFlags(
  language: SandboxLanguage,
  readable: readonly string[],
  watch: boolean,
): string[] {
  const flag = '--permission'
  return [
    process.allowedNodeEnvironmentFlags.has(flag) ? flag : '--experimental-permission',
    ...readable.map((path) => `--allow-fs-read=${path}`),
    ...(watch ? ['--allow-worker'] : []),
    `--max-old-space-size=${SANDBOX_HOST_HEAP_MIB}`,
    '--expose-gc',
    '--no-warnings',
    // Python takes long to optimise and runs briefly.
    ...(language === 'python' ? ['--liftoff-only'] : []),
  ]
}

/** Flags of bwrap: only the named files, own processes, no network, no capabilities, user nobody. */
function bwrapFlags(readable: readonly string[]): string[] {
  return [
    ...['--unshare-all', '--die-with-parent', '--new-session', '--as-pid-1', '--clearenv'],
    ...['--cap-drop', 'ALL', '--uid', String(NOBODY_UID), '--gid', String(NOBODY_UID)],
    ...['--hostname', 'sandbox', '--info-fd', '3', '--chdir', '/'],
    ...SYSTEM_LIBRARY_FOLDERS.flatMap((path) => ['--ro-bind-try', path, path]),
    ...readable.flatMap((path) => ['--ro-bind-try', path, path]),
    ...['--proc', '/proc', '--dev', '/dev'],
  ]
}

function findOnPath(name: string, searchPath: string): string | null {
  const paths = searchPath.split(delimiter).filter((folder) => folder !== '')
  const found = paths.map((folder) => join(folder, name)).find(isExecutableFile)
  return found ?? null
}

function isExecutableFile(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
