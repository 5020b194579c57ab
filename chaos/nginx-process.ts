import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { spawnProcessEndingWithParent } from '../persistence/postgres/spawn-process-ending-with-parent.ts'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'

/** Starts nginx with the deployed configuration in front of local stations. */

/** The proof uses the configuration that is deployed. */
const DEPLOYED_CONFIG_PATH = join(REPOSITORY_ROOT, 'deploy/nginx.conf')
const READY_MS = 10_000
const POLL_MS = 20

export interface NginxProcessOptions {
  /** A folder for logs and temporary files. */
  readonly dir: string
  readonly port: number
  /** Loopback ports of the stations. */
  readonly stations: readonly number[]
}

/** One request in the committed log format. */
export interface NginxRequest {
  readonly request: string
  readonly status: number
  readonly seconds: number
  /** Upstream ports in order of attempts; the last one answered. */
  readonly ports: readonly number[]
}

export interface NginxProcess {
  readonly url: string
  readonly pid: number
  /** Every completed request, in order of completion. */
  requests(): NginxRequest[]
  /** Contents of the error log. */
  errorLog(): string
  stop(): Promise<void>
}

/** Debian installs servers outside of the users' PATH. */
const PROGRAM_FOLDERS = [
  ...(process.env['PATH'] ?? '').split(delimiter),
  '/usr/sbin',
  '/usr/local/sbin',
]

/** Path of an installed program; null when it is missing. */
export const findInstalledProgram = (name: string): string | null =>
  PROGRAM_FOLDERS.map((dir) => join(dir, name)).find((file) => existsSync(file)) ?? null

/**
 * The committed configuration with local stations, another port, logs in files, and temporary files
 * in a folder writable without root. Throws when one of these directives is missing.
 */
function nginxConfiguration({ dir, port, stations }: NginxProcessOptions): string {
  const servers = (station: string) =>
    stations.map((at) => station.replace(/station-\d+:\d+/, `127.0.0.1:${at}`)).join('\n')
  const places: [RegExp, (found: string) => string][] = [
    [/^ *server station-\d+:\d+[^;]*;(\n *server station-\d+:\d+[^;]*;)*$/m, firstLineOf(servers)],
    [/^ *listen 8080;$/m, () => `    listen 127.0.0.1:${port};`],
    [/^ *access_log \/dev\/stdout plain;$/m, () => `  access_log ${dir}/access.log plain;`],
    [/^ *error_log \/dev\/stderr warn;$/m, () => `  error_log ${dir}/error.log warn;`],
    [
      /^http \{$/m,
      (found) => [found, ...TEMP_PATH_DIRECTIVES.map((name) => tempPathLine(dir, name))].join('\n'),
    ],
  ]
  const text = places.reduce(
    (all, [place, instead]) => {
      if (!place.test(all)) throw new Error(`deploy/nginx.conf has nothing like ${String(place)}`)
      return all.replace(place, instead)
    },
    readFileSync(DEPLOYED_CONFIG_PATH, 'utf8'),
  )
  return `daemon off;\npid ${dir}/nginx.pid;\n${text}`
}

const firstLineOf = (write: (line: string) => string) => (found: string) =>
  write(found.split('\n')[0] ?? '')
const TEMP_PATH_DIRECTIVES = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
const tempPathLine = (dir: string, name: string) => `  ${name}_temp_path ${dir}/${name};`

/** Starts nginx in front of stations, as root or not; it ends with this process. */
export async function startNginxProcess(options: NginxProcessOptions): Promise<NginxProcess> {
  const { dir, port } = options
  const program = findInstalledProgram('nginx')
  if (program === null) throw new Error('no nginx is installed')
  mkdirSync(dir, { recursive: true })
  // Workers run as another user when nginx is started as root.
  chmodSync(dir, 0o755)
  const conf = join(dir, 'nginx.conf')
  writeFileSync(conf, nginxConfiguration(options))
  const args = ['-p', dir, '-e', join(dir, 'error.log'), '-c', conf]
  const logFile = join(dir, 'output.log')
  const watched = spawnProcessEndingWithParent(program, args, { identity: null, logFile })
  let ended = false
  void watched.exited.then(() => (ended = true))
  const read = (name: string) =>
    existsSync(join(dir, name)) ? readFileSync(join(dir, name), 'utf8') : ''
  const errorLog = () => `${read('output.log')}${read('error.log')}`
  const until = performance.now() + READY_MS
  while (!(await isPortListening(port))) {
    if (ended || performance.now() > until) {
      await watched.stop()
      throw new Error(`nginx did not start:\n${errorLog()}`)
    }
    await sleep(POLL_MS)
  }
  return {
    url: `http://127.0.0.1:${port}`,
    pid: await watched.pid,
    requests: () => read('access.log').split('\n').flatMap(parseAccessLogLine),
    errorLog,
    stop: watched.stop,
  }
}

export function isPortListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(port, '127.0.0.1')
    const end = (open: boolean) => () => {
      probe.destroy()
      resolve(open)
    }
    probe.once('connect', end(true)).once('error', end(false))
  })
}

/** A line of the `plain` format in the committed configuration. */
const ACCESS_LOG_LINE = /^\S+ \[[^\]]+\] "(.*)" (\d{3}) ([\d.]+) (.*)$/

function parseAccessLogLine(line: string): NginxRequest[] {
  const [, request, status, seconds, upstreams] = ACCESS_LOG_LINE.exec(line) ?? []
  if (request === undefined) return []
  const ports = [...(upstreams ?? '').matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, at]) => Number(at))
  return [{ request, status: Number(status), seconds: Number(seconds), ports }]
}
