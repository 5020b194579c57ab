import type { ParseArgsConfig } from 'node:util'
import { createCallReceipts, verifyCallReceipt } from '../../calls/call-receipts.ts'
import { isUuid } from '../../core/ids.ts'
import { formatUsdc } from '../../core/money.ts'
import {
  createCallLogStore,
  type CallLogStore,
  type CallLogEntry,
} from '../../persistence/calls/call-log-store.ts'
import { migrateBullmqSchema } from '../../persistence/bullmq-connections.ts'
import { migrateSchema } from '../../persistence/migrate-schema.ts'
import {
  startPostgresAndRedis,
  type PostgresAndRedis,
} from '../../persistence/start-postgres-and-redis.ts'
import { MasterKeyMismatchError } from '../../persistence/station-keys.ts'
import { verifyDatabaseInvariants } from '../../persistence/verify/verify-database-invariants.ts'
import { createCliHttpClient } from './cli-http-client.ts'
import { ConfigError, loadConfig, type Config } from '../config.ts'
import { listDeadLetters, replayDeadLetter } from './dead-letter-cli-command.ts'
import { listRadioDrops, openRadioDrop } from './radio-drop-cli-command.ts'
import { grantCredits, parseGrantArguments } from './grant-credits.ts'
import {
  loadMasterKeys,
  replaceMasterKey,
  retirePreviousMasterKey,
  loadStationKeys,
} from '../master-key.ts'
import { MasterKeyRotationAbortedError, rotateMasterKey } from './rotate-master-key.ts'
import { listUnresolvedSettlements, resolveSettlement } from './settlement-cli-command.ts'
import { VERSION } from '../version.ts'

/** The commands of the `gas` CLI. */

type Values = Record<string, unknown>

interface CliCommand {
  readonly usage: string
  readonly summary: string
  readonly options: NonNullable<ParseArgsConfig['options']>
  /**
   * Resolves to the exit code: 0 success, 1 failure, 2 usage, 3 authentication, 4 payment required,
   * 5 limit.
   */
  run(args: readonly string[], values: Values, usage: () => string): Promise<number>
}

const JSON_FLAG = { json: { type: 'boolean' } } as const

/** All `gas` commands. Results go to stdout, everything else to stderr. */
export const CLI_COMMANDS: Readonly<Record<string, CliCommand>> = {
  help: {
    usage: '',
    summary: 'shows this',
    options: {},
    async run(_args, _values, usage) {
      print(usage())
      return 0
    },
  },
  version: {
    usage: '',
    summary: 'shows the version',
    options: {},
    async run() {
      print(VERSION)
      return 0
    },
  },
  serve: {
    usage: '',
    summary: 'runs the station (the same as npm start)',
    options: {},
    async run() {
      await import('../main.ts')
      return 0
    },
  },
  migrate: {
    usage: '',
    summary: 'brings the schema of the database up to date',
    options: {},
    run: () =>
      withDataPlane(loadConfig(), async ({ sql }) => {
        print(`schema at migration ${await migrateSchema(sql)}`)
        await migrateBullmqSchema(sql)
        return 0
      }),
  },
  verify: {
    usage: '[--json]',
    summary: 'recomputes every balance from the ledger and checks the invariants',
    options: JSON_FLAG,
    run: (_args, values) =>
      withDataPlane(loadConfig(), (plane) => verifyAll(plane, values['json'] === true)),
  },
  receipt: {
    usage: '<receipt> | <agent_id> <call_id> <receipt>',
    summary: 'checks a receipt against the ledger',
    options: {},
    async run(args, _values, usage) {
      if (args.length !== 1 && args.length !== 3) return printUsageError(usage)
      const config = loadConfig()
      return withDataPlane(config, (plane) => checkReceipt(config, plane, args))
    },
  },
  doctor: {
    usage: '',
    summary: 'shows what the station can use on this machine, with these settings',
    options: {},
    run: () => doctor(loadConfig()),
  },
  onboard: {
    usage: '<name>',
    summary: 'registers an agent with the station at GAS_URL',
    options: JSON_FLAG,
    async run([name], _values, usage) {
      if (name === undefined) return printUsageError(usage)
      return createCliHttpClient().send('POST', '/api/onboard', { name })
    },
  },
  call: {
    usage: '<tool> [key=value …] [--json {…}]',
    summary: 'calls a tool with the key in GAS_API_KEY',
    options: { json: { type: 'string' }, task: { type: 'string' }, backpack: { type: 'string' } },
    async run([tool, ...pairs], values, usage) {
      if (tool === undefined) return printUsageError(usage)
      const fields = typeof values['json'] === 'string' ? parseJson(values['json']) : pairsOf(pairs)
      const headers = {
        ...(typeof values['task'] === 'string' ? { 'x-task-id': values['task'] } : {}),
        ...(typeof values['backpack'] === 'string' ? { 'x-backpack-id': values['backpack'] } : {}),
      }
      return createCliHttpClient().send('POST', '/api/refuel', { ...fields, tool }, headers)
    },
  },
  drop: {
    usage: 'open | list',
    summary: 'opens a radio drop: ten slots for two hours; lists the latest',
    options: {},
    async run([what], _values, usage) {
      if (what !== 'open' && what !== 'list') return printUsageError(usage)
      return withDataPlane(loadConfig(), async ({ sql }) => {
        const drops = await (what === 'open' ? openRadioDrop(sql) : listRadioDrops(sql))
        for (const { code, slots, left, open, expiresAt } of drops) {
          const until = new Date(expiresAt).toISOString()
          print(`${code}  ${left} of ${slots} left  ${open ? 'open until' : 'ended'} ${until}`)
        }
        return 0
      })
    },
  },
  grant: {
    usage: '<agent_id> <usdc> --note "…" [--id UUID]',
    summary: 'gives an agent promotional credits; the same --id gives them once',
    options: { note: { type: 'string' }, id: { type: 'string' } },
    async run([agentId, usdc, ...more], { note, id }, usage) {
      if (agentId === undefined || usdc === undefined || more.length > 0)
        return printUsageError(usage)
      const words = { agentId, usdc, note: typeof note === 'string' ? note : '' }
      const wanted = parseGrantArguments({ ...words, id: typeof id === 'string' ? id : null })
      if (typeof wanted === 'string') {
        console.error(`gas grant: ${wanted}`)
        return USAGE_EXIT_CODE
      }
      return withDataPlane(loadConfig(), ({ sql }) => grantCredits(sql, wanted))
    },
  },
  dlq: {
    usage: 'ls | retry <id>',
    summary: 'lists permanent failures; makes one due again',
    options: JSON_FLAG,
    async run([what, id], values, usage) {
      const wanted = what === 'ls' ? id === undefined : what === 'retry' && id !== undefined
      if (!wanted) return printUsageError(usage)
      return withDataPlane(loadConfig(), ({ sql }) =>
        id === undefined
          ? listDeadLetters(sql, values['json'] === true)
          : replayDeadLetter(sql, id),
      )
    },
  },
  settlement: {
    usage: 'ls | resolve <id> (--settled <tx> | --lost)',
    summary: 'lists payments with an unknown outcome; sets that of one on Solana',
    options: { settled: { type: 'string' }, lost: { type: 'boolean' } },
    async run([what, id], values, usage) {
      const { settled, lost } = values
      const one = typeof settled === 'string' ? lost !== true : lost === true
      if (what === 'ls' && id === undefined)
        return withDataPlane(loadConfig(), ({ sql }) => listUnresolvedSettlements(sql))
      if (what !== 'resolve' || id === undefined || !one) return printUsageError(usage)
      const signature = typeof settled === 'string' ? settled : null
      return withDataPlane(loadConfig(), ({ sql }) => resolveSettlement(sql, id, signature))
    },
  },
  'rotate-master-key': {
    usage: '[--new]',
    summary: 'seals all secrets under the new master key; --new makes one in the data directory',
    options: { new: { type: 'boolean' } },
    async run(_args, values) {
      const config = loadConfig()
      if (values['new'] === true) return makeMasterKey(config)
      return withDataPlane(config, (plane) => runRotation(config, plane))
    },
  },
  balance: {
    usage: '',
    summary: 'shows the credits of the agent',
    options: {},
    run: () => createCliHttpClient().send('GET', '/api/credits/balance'),
  },
  tools: {
    usage: '[--category C]',
    summary: 'lists the catalogue',
    options: { category: { type: 'string' } },
    run(_args, values) {
      const { category } = values
      const query = typeof category === 'string' ? `?category=${encodeURIComponent(category)}` : ''
      return createCliHttpClient().send('GET', `/api/tools${query}`)
    },
  },
}

const print = (text: string) => void process.stdout.write(`${text}\n`)
const USAGE_EXIT_CODE = 2

function printUsageError(usage: () => string): number {
  console.error(usage())
  return USAGE_EXIT_CODE
}

/** Parses `key=value` pairs. Values are JSON if possible: `a=1` is a number, `a=x` a string. */
function pairsOf(pairs: readonly string[]): Values {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=')
      if (at < 1) throw new Error(`${pair} is not of the form key=value`)
      const text = pair.slice(at + 1)
      try {
        return [pair.slice(0, at), JSON.parse(text) as unknown]
      } catch {
        return [pair.slice(0, at), text]
      }
    }),
  )
}

function parseJson(text: string): Values {
  const value = JSON.parse(text) as unknown
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Values
  throw new Error('--json must be an object')
}

/** Connects to the running station's database, or starts it for the duration of the command. */
async function withDataPlane(
  config: Config,
  use: (plane: PostgresAndRedis) => Promise<number>,
): Promise<number> {
  const plane = await startPostgresAndRedis({
    databaseUrl: config.databaseUrl?.reveal() ?? null,
    redisUrl: null,
    redis: 'none',
    dataDir: config.dataDir,
    maxConnections: 4,
    log: (line) => console.error(line),
  })
  try {
    return await use(plane)
  } finally {
    await plane.stop()
  }
}

async function verifyAll({ sql }: PostgresAndRedis, asJson: boolean): Promise<number> {
  const findings = await verifyDatabaseInvariants(sql)
  const broken = findings.filter((finding) => finding.broken.length > 0)
  if (asJson) {
    print(
      JSON.stringify(findings, (_key, value: unknown) =>
        typeof value === 'bigint' ? String(value) : value,
      ),
    )
    return broken.length === 0 ? 0 : 1
  }
  for (const { rule, says, checked, broken: rows } of findings) {
    print(
      `${rows.length === 0 ? 'ok    ' : 'BROKEN'} ${rule.padEnd(4)} ${String(checked).padStart(9)} ${says}`,
    )
    for (const row of rows)
      print(
        `         ${JSON.stringify(row, (_k, v: unknown) => (typeof v === 'bigint' ? String(v) : v))}`,
      )
  }
  print(
    broken.length === 0
      ? 'verified: no difference'
      : `verified: ${broken.length} invariants are broken`,
  )
  return broken.length === 0 ? 0 : 1
}

/** Older receipts do not contain call id and owner: they need all three arguments. */
async function checkReceipt(
  config: Config,
  { sql }: PostgresAndRedis,
  args: readonly string[],
): Promise<number> {
  const log = createCallLogStore(sql)
  const { receipts: key } = await loadStationKeys(sql, loadMasterKeys(config))
  const [first = '', callId = '', third = ''] = args
  const found =
    args.length === 1
      ? await createCallReceipts(key, log).findCall(first)
      : await findVerifiedCall(log, key, { owner: first, callId, receipt: third })
  print(
    found === null
      ? 'not a receipt of this ledger'
      : `valid: ${found.tool} for ${formatUsdc(found.cost)} USDC by ${found.rail}`,
  )
  return found === null ? 1 : 0
}

async function findVerifiedCall(
  log: CallLogStore,
  key: Buffer,
  { owner, callId, receipt }: { owner: string; callId: string; receipt: string },
): Promise<CallLogEntry | null> {
  const call = isUuid(owner) && isUuid(callId) ? await log.find(owner, callId) : null
  if (call === null) return null
  const row = { ...call, agentId: owner, at: call.at.getTime() }
  return verifyCallReceipt(key, row, owner, receipt) ? call : null
}

/** `--new` is for keys in the data directory. Keys from settings are created by the operator. */
function makeMasterKey(config: Config): number {
  if (config.masterKey !== null)
    throw new ConfigError(['--new makes a key in DATA_DIR, and MASTER_KEY is set'])
  replaceMasterKey(config.dataDir)
  print('made a new master key; restart the station, then run gas rotate-master-key')
  return 0
}

async function runRotation(config: Config, { sql }: PostgresAndRedis): Promise<number> {
  try {
    await rotateMasterKey(sql, loadMasterKeys(config), print)
  } catch (error) {
    if (error instanceof MasterKeyMismatchError) throw new ConfigError([error.message])
    if (!(error instanceof MasterKeyRotationAbortedError)) throw error
    console.error(`gas rotate-master-key: ${error.message}`)
    return 1
  }
  const kept = config.masterKey === null ? retirePreviousMasterKey(config.dataDir) : null
  const old = kept === null ? 'remove MASTER_KEY_PREVIOUS from the settings' : `it is now ${kept}`
  print(`done: ${old}. Keep the old key with the backups that were made before now: they need it.`)
  return 0
}

async function doctor(config: Config): Promise<number> {
  print(`gas-station ${VERSION} on Node ${process.version}, ${process.platform} ${process.arch}`)
  print(`settings: ${config.production ? 'production' : 'development'}, data in ${config.dataDir}`)
  return withDataPlane(config, async (plane) => {
    print(plane.description)
    const { postgres } = await plane.health()
    print(`postgres: ${postgres.ok ? 'answers' : 'does not answer'}`)
    return postgres.ok ? 0 : 1
  })
}
