import { masterKeyId } from '../../core/key-derivation-and-encryption.ts'
import { examineDatabase, type DatabaseExam } from '../../persistence/postgres/examine-database.ts'
import type { Config } from '../config.ts'
import { loadExistingMasterKeys } from '../master-key.ts'
import { failed, ok, warning, type Check, type Finding } from './run-checks.ts'

/** Checks of the database, over one connection, and of what is sealed in it. Nothing is created. */
export function listDatabaseChecks(config: Config): Check[] {
  const exam = examineDatabase({
    databaseUrl: config.databaseUrl?.reveal() ?? null,
    dataDir: config.dataDir,
  })
  exam.catch(() => undefined) // each check reports it
  const setting = config.databaseUrl === null ? 'DATA_DIR' : 'DATABASE_URL'
  const of = (name: string, judge: (found: DatabaseExam) => Finding): Check => ({
    setting: name,
    run: async () => judge(await exam),
  })
  return [
    of(setting, judgeServer),
    ...[judgeSchema, judgeRights, judgeNotifications, judgeClock].map((judge): Check => ({
      setting,
      run: async () => {
        const found = await exam.catch(() => null)
        return found === null || found.server === null ? null : judge(found)
      },
    })),
    of('MASTER_KEY', (found) => judgeMasterKey(config, found)),
  ]
}

const judgeServer = ({ where, server }: DatabaseExam): Finding =>
  server === null
    ? ok(`no database in ${where} yet: the first start creates it`)
    : server.version < 15
      ? failed(`PostgreSQL ${server.version} at ${where}: 15 or later is needed`)
      : server.encoding === 'UTF8'
        ? ok(
            `PostgreSQL ${server.version} at ${where}, ${server.isEncrypted ? 'encrypted' : 'not encrypted'}`,
          )
        : failed(`${where} is encoded in ${server.encoding}, and UTF8 is needed`)

function judgeSchema({ server }: DatabaseExam): Finding {
  const { applied = 0, known = 0 } = server ?? {}
  if (applied === known) return ok(`schema at migration ${applied}`)
  return warning(
    `schema at migration ${applied} of ${known}: gas migrate, or the next start, goes on`,
  )
}

const judgeRights = ({ server }: DatabaseExam): Finding =>
  server?.isReadOnly === true
    ? failed('read only: a replica, or default_transaction_read_only is on')
    : server?.mayCreate === false
      ? failed(`${server.user} may not create tables in schema ${server.schema}`)
      : ok(`${server?.user ?? ''} may create tables in schema ${server?.schema ?? ''}`)

const judgeNotifications = ({ server }: DatabaseExam): Finding =>
  server?.isNotified === true
    ? ok('notifications arrive')
    : failed('notifications do not arrive: a pooler in transaction mode is between')

const MAX_OFFSET_MS = 2_000

function judgeClock({ server }: DatabaseExam): Finding {
  const ahead = Math.round(server?.aheadMs ?? 0)
  return Math.abs(ahead) <= MAX_OFFSET_MS
    ? ok(`its clock and that of this machine differ by ${Math.abs(ahead)} ms`)
    : warning(`its clock is ${ahead} ms ahead of this machine; stations use its time`)
}

function judgeMasterKey(config: Config, { sealedBy }: DatabaseExam): Finding {
  if (sealedBy.length === 0) return ok('nothing is sealed yet')
  const held = loadExistingMasterKeys(config).map(masterKeyId)
  const missing = sealedBy.filter((id) => !held.includes(id))
  return missing.length === 0
    ? ok(`opens what is sealed (${held.join(', ')})`)
    : failed(`the secrets are sealed under ${missing.join(', ')}, and ${held.join(', ')} is given`)
}
