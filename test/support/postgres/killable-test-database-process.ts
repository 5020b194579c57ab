import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { startPostgresAndRedis } from '../../../persistence/start-postgres-and-redis.ts'
import { typescriptLoaderArgs } from '../station/node-args-to-spawn-service-or-cli.ts'

/** A plane in a process of its own, to be killed without a chance to clean up. */
export interface PostgresAndRedisChildProcess {
  /** Resolves with its boot line once it is up. */
  readonly ready: Promise<string>
  /** Runs SQL there; the rows, or the error as `{ error }`. */
  query(sql: string): Promise<unknown>
  kill(): Promise<void>
}

const THIS_FILE = fileURLToPath(import.meta.url)

export function spawnPostgresAndRedisProcess(
  t: { teardown(work: () => unknown): unknown },
  dataDir: string,
  migrations: string,
): PostgresAndRedisChildProcess {
  const child = spawn(
    process.execPath,
    [...typescriptLoaderArgs(THIS_FILE), THIS_FILE, dataDir, migrations],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  const waiting: ((line: string) => void)[] = []
  const next = (): Promise<string> => new Promise((resolve) => waiting.push(resolve))
  createInterface(child.stdout).on('line', (line) => waiting.shift()?.(line))
  const exited = new Promise<void>((done) => child.once('exit', () => done()))
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }
  t.teardown(kill)
  return {
    ready: next(),
    async query(sql) {
      const answer = next()
      child.stdin.write(`${sql}\n`)
      return JSON.parse(await answer) as unknown
    },
    kill,
  }
}

async function run(dataDir: string, migrations: string): Promise<void> {
  const settings = {
    databaseUrl: null,
    redisUrl: null,
    dataDir,
    migrations,
    redis: 'none',
  } as const
  const plane = await startPostgresAndRedis({
    ...settings,
    log: (line) => console.error(`# ${line}`),
  })
  console.log(plane.description)
  for await (const text of createInterface(process.stdin)) {
    const answer = await plane.sql.unsafe(text).then(
      (rows) => [...rows],
      (error: Error) => ({ error: error.message }),
    )
    console.log(
      JSON.stringify(answer, (_key, value: unknown) =>
        typeof value === 'bigint' ? Number(value) : value,
      ),
    )
  }
}

const [, program, dataDir, migrations] = process.argv
if (program === THIS_FILE && dataDir !== undefined && migrations !== undefined)
  await run(dataDir, migrations)
