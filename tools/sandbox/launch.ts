import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { SESSION_SHARE } from './host/share.ts'
import type { Isolation, Language } from './port.ts'
import type { HostProgram } from './program.ts'

/** One way to start a host. */
export interface Launch {
  readonly isolation: Isolation
  command(language: Language): readonly [file: string, ...args: string[]]
  /** Whose rights the process has, where it is started as root. */
  readonly nobody?: true
  /** It tells which process the host is, since the one started only watches over it. */
  readonly tellsPid?: true
}

/** Nobody, on every Linux. */
export const NOBODY = 65_534
const HEAP_MIB = 128
const SYSTEM = ['/usr/lib', '/usr/lib64', '/lib', '/lib64', '/nix/store']

/** The ways that exist here, the best first; whether one works shows when it is tried. */
export function launches(
  { main, readable }: HostProgram,
  { searchPath, root }: { searchPath: string; root: boolean },
): readonly Launch[] {
  const [bwrap, unshare] = ['bwrap', 'unshare'].map((name) => find(name, searchPath))
  const node = (
    language: Language,
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
  const ways: Launch[] = []
  if (bwrap !== null) {
    const walls = bwrapFlags([process.execPath, ...readable])
    const command = (language: Language): [string, ...string[]] => [
      bwrap ?? '',
      ...walls,
      ...node(language, false, [`--allow-fs-write=${SESSION_SHARE}`]),
    ]
    ways.push({ isolation: 'bwrap', tellsPid: true, command })
  }
  if (unshare !== null) {
    const own = root ? [`--setgid=${NOBODY}`, `--setuid=${NOBODY}`] : ['--user', '--map-root-user']
    const walls = ['--net', '--ipc', '--uts', ...own, '--']
    const command = (language: Language): [string, ...string[]] => [
      unshare ?? '',
      ...walls,
      ...node(language, true),
    ]
    ways.push({ isolation: 'unshare', command })
  }
  const command = (language: Language) => node(language, true)
  if (root) ways.push({ isolation: 'process', command, nobody: true })
  return [...ways, { isolation: 'process', command }]
}

/** Node's own wall: reads its program and packages, and nothing else of the machine. */
function nodeFlags(language: Language, readable: readonly string[], watch: boolean): string[] {
  const flag = '--permission'
  return [
    process.allowedNodeEnvironmentFlags.has(flag) ? flag : '--experimental-permission',
    ...readable.map((path) => `--allow-fs-read=${path}`),
    ...(watch ? ['--allow-worker'] : []),
    `--max-old-space-size=${HEAP_MIB}`,
    '--expose-gc',
    '--no-warnings',
    // Python is long to optimise and short to run.
    ...(language === 'python' ? ['--liftoff-only'] : []),
  ]
}

/** A file system of what is named, its own processes, no network, no rights, nobody's name. */
function bwrapFlags(readable: readonly string[]): string[] {
  return [
    ...['--unshare-all', '--die-with-parent', '--new-session', '--as-pid-1', '--clearenv'],
    ...['--cap-drop', 'ALL', '--uid', String(NOBODY), '--gid', String(NOBODY)],
    ...['--hostname', 'sandbox', '--info-fd', '3', '--chdir', '/'],
    ...SYSTEM.flatMap((path) => ['--ro-bind-try', path, path]),
    ...readable.flatMap((path) => ['--ro-bind-try', path, path]),
    ...['--proc', '/proc', '--dev', '/dev'],
  ]
}

function find(name: string, searchPath: string): string | null {
  const paths = searchPath.split(delimiter).filter((folder) => folder !== '')
  const found = paths.map((folder) => join(folder, name)).find(isProgram)
  return found ?? null
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
