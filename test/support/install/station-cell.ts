import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import type { TAP } from 'tap'
import { findInstalledProgram } from '../../../chaos/nginx-process.ts'
import { runsSuccessfullyAsOsUser } from '../../../persistence/postgres/database-os-user.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import type { PackedStation } from './packed-station.ts'
import { runProgram } from './run-program.ts'

/** Cells of the install matrix: a new user's way on one kind of machine. */

export interface StationCell {
  /** The folder with `node_modules`; by default where npm has installed it. */
  readonly app?: string
  readonly node?: string
  readonly env?: Readonly<Record<string, string>>
  /** Octal. */
  readonly umask?: string
  /** Runs as the user nobody. */
  readonly nobody?: boolean
  /** Runs in a network of its own in which only `::1` exists. */
  readonly ipv6Only?: boolean
  readonly stations?: number
}

/** What a cell has to see. */
export const GREEN = {
  readyz: 200,
  onboarded: 201,
  calls: [{ status: 200, stdout: '42\n', cost: 0.05 }],
  exits: [0],
  verify: { code: 0, found: '1 agents with 0.450000 USDC, 1 calls, 3 transfers', stderr: '' },
  open: [],
  complaints: [],
}

export type CellSight = typeof GREEN & { readonly urls: string[]; readonly postgres: string | null }

const asRoot = process.geteuid?.() === 0
const NOBODY = { uid: 65_534, gid: 65_534 }
/** Where the station copies a database server that its user cannot run in place. */
const STAGE = /^\/var\/tmp\/gas-station-[^/]+/

/** Why this machine cannot run a cell; false where it can. */
export const nobodySkipReason: string | false =
  asRoot && runsSuccessfullyAsOsUser(NOBODY, process.execPath, ['--version'])
    ? false
    : 'only root may start a program as another user, if that one may run this Node'
export const ipv6OnlySkipReason: string | false =
  findInstalledProgram('ip') !== null && spawnSync('unshare', ['--net', 'true']).status === 0
    ? false
    : 'no network namespace can be made (root, unshare and iproute2)'
export const ipv6SkipReason: string | false = existsSync('/proc/net/if_inet6')
  ? false
  : 'this machine has no IPv6'

const ONLY_IPV6 = 'ip link set lo up && ip -4 addr flush dev lo && exec "$@"'

/** Starts a station in a new folder, uses it, and stops it. Throws if the start fails, with its lines. */
export async function runCell(
  t: Pick<TAP, 'teardown'>,
  packed: PackedStation,
  { app = packed.app, node = process.execPath, env = {}, ...cell }: StationCell,
): Promise<CellSight> {
  const driver = join(packed.folder, 'drive-station.mjs')
  copyFileSync(join(REPOSITORY_ROOT, 'test/support/install/drive-station.mjs'), driver)
  const cwd = mkdtempSync(join(packed.folder, 'cell-'))
  chmodSync(cwd, 0o755)
  const user = cell.nobody === true ? NOBODY : undefined
  if (asRoot) chownSync(cwd, user?.uid ?? 0, user?.gid ?? 0)
  if (env['TMPDIR'] !== undefined) mkdirSync(env['TMPDIR'], { recursive: true, mode: 0o777 })
  const gas = join(app, 'node_modules/agent-gas-station/dist/app/cli/main.js')
  const { umask = '022', stations = 1 } = cell
  const command = [node, driver, JSON.stringify({ gas, umask, stations })] as const
  const [program, ...args] =
    cell.ipv6Only === true
      ? ['unshare', '--net', '--', 'sh', '-c', ONLY_IPV6, 'sh', ...command]
      : command
  const settings = { PORT: '0', ...env }
  const { code, out, err } = await runProgram(program, args, { cwd, env: settings, user })
  if (code !== 0) throw new Error(`${err}${out}`)
  const sight = JSON.parse(out) as CellSight
  const [stage] = STAGE.exec(sight.postgres ?? '') ?? []
  if (stage !== undefined) t.teardown(() => rmSync(stage, { recursive: true, force: true }))
  return sight
}
