import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, statfsSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { findChromium } from '../../providers/browser/find-chromium.ts'
import { createSandboxLauncherSelection } from '../../providers/sandbox/sandbox-launcher-selection.ts'
import { SANDBOX_ISOLATION_LEVELS } from '../../providers/sandbox/sandbox-port.ts'
import type { Config } from '../config.ts'
import { toListenSettingError } from '../start-failure.ts'
import { failed, ok, reasonOf, warning, type Check, type Finding } from './run-checks.ts'

/** Checks of this machine. */

export const listMachineChecks = (config: Config): Check[] => [
  { setting: 'DATA_DIR', run: async () => checkFolder(config.dataDir) },
  { setting: 'TMPDIR', run: async () => checkFolder(tmpdir(), false) },
  { setting: 'PORT', run: () => checkPort(config) },
  ...(config.publicUrl === null ? [] : [publicUrlCheck(config.publicUrl)]),
  { setting: 'CHROMIUM_PATH', run: () => checkChromium(config) },
  { setting: 'SANDBOX_MIN_ISOLATION', run: () => checkSandbox(config) },
]

const GIB = 2 ** 30

/** A data directory that is not there yet is judged by its nearest parent; nothing is created. */
function checkFolder(path: string, mayBeMissing = true): Finding {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined && mayBeMissing && path !== dirname(path)) {
    const above = checkFolder(dirname(path))
    return above.result === 'failed' ? above : { ...above, says: `not created yet; ${above.says}` }
  }
  if (found === undefined) return failed(`${path} does not exist`)
  if (!found.isDirectory()) return failed(`${path} is a file`)
  try {
    accessSync(path, constants.W_OK | constants.X_OK)
  } catch (error) {
    return failed(`${path} may not be written: ${(error as NodeJS.ErrnoException).code ?? ''}`)
  }
  const { bavail, bsize } = statfsSync(path)
  const gib = Math.floor((bavail * bsize) / GIB)
  return gib < 1 ? warning(`${path} has less than 1 GiB left`) : ok(`${path}, ${gib} GiB left`)
}

async function checkPort({ host, port }: Config): Promise<Finding> {
  const probe = createServer().listen(port, host)
  try {
    await once(probe, 'listening')
    return ok(`${port} is free on ${host}`)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const where = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
    if (code === 'EADDRINUSE' && (await isStation(where))) return ok(`a station answers on ${port}`)
    return failed(reasonOf(toListenSettingError(error, host, port)))
  } finally {
    probe.close()
  }
}

async function isStation(url: string, signal = AbortSignal.timeout(3_000)): Promise<boolean> {
  const answer = await fetch(`${url}/api/health`, { signal }).catch(() => null)
  const body = (await answer?.json().catch(() => null)) as object | null | undefined
  return body !== null && body !== undefined && 'status' in body
}

const publicUrlCheck = (url: string): Check => ({
  setting: 'PUBLIC_URL',
  run: async (signal) =>
    (await isStation(url, signal))
      ? ok(`a station answers at ${url}`)
      : warning(`no station answers at ${url} from here`),
})

async function checkChromium({ chromiumPath, searchPath }: Config): Promise<Finding> {
  if (chromiumPath === 'none') return ok('none: there is no browser')
  const program = findChromium(chromiumPath, searchPath)
  if (program === null)
    return chromiumPath === null
      ? warning('no Chromium is installed: pages are read without one')
      : failed(`${chromiumPath} is no program`)
  const { stdout } = await promisify(execFile)(program, ['--version'], { timeout: 6_000 })
  return ok(`${stdout.trim()} (${program})`)
}

async function checkSandbox({ searchPath, sandboxMinIsolation: wanted }: Config): Promise<Finding> {
  const clock = createDatabaseAdjustedClock()
  const selection = createSandboxLauncherSelection({ clock, searchPath, log: () => {} })
  try {
    const level = (await selection.select())?.isolation ?? null
    if (level === null) return failed(`no sandbox starts here: ${selection.failure() ?? ''}`)
    const rank = (one: typeof level): number => SANDBOX_ISOLATION_LEVELS.indexOf(one)
    if (rank(level) < rank(wanted)) return failed(`this machine can ${level} only, not ${wanted}`)
    return level === 'process'
      ? warning('process: install bubblewrap for a stronger isolation')
      : ok(level)
  } finally {
    await selection.close()
  }
}
