import { MasterKeyMismatchError } from '../../../persistence/encrypted-station-key-store.ts'
import type { StationPostgresAndRedis } from '../../../persistence/start-postgres-and-redis.ts'
import { ConfigError, loadConfig, type Config } from '../../config.ts'
import {
  loadExistingMasterKeys,
  renameRetiredMasterKeyFile,
  replaceMasterKeyFile,
} from '../../master-key.ts'
import type { CliVerb } from '../cli-verb.ts'
import { printLine } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'
import { MasterKeyRotationAbortedError, rotateMasterKey } from './cli-rotate-master-key.ts'

/** `gas rotate-master-key`. */
export const rotateMasterKeyCliVerb: CliVerb = {
  forms: ['', '--new'],
  about: 'SECURITY.md describes the steps. It can be interrupted and repeated.',
  options: { new: { description: 'makes a new master key in the data directory' } },
  async run({ has }) {
    const config = loadConfig()
    if (has('new')) return makeMasterKey(config)
    return withStationDatabase((plane) => runRotation(config, plane), config)
  },
}

/** `--new` is for keys in the data directory. Keys from settings are created by the operator. */
function makeMasterKey(config: Config): number {
  if (config.masterKey !== null)
    throw new ConfigError(['--new makes a key in DATA_DIR, and MASTER_KEY is set'])
  replaceMasterKeyFile(config.dataDir)
  printLine('made a new master key; restart the station, then run gas rotate-master-key')
  return 0
}

async function runRotation(config: Config, { sql }: StationPostgresAndRedis): Promise<number> {
  try {
    await rotateMasterKey(sql, loadExistingMasterKeys(config), printLine)
  } catch (error) {
    if (error instanceof MasterKeyMismatchError) throw new ConfigError([error.message])
    if (!(error instanceof MasterKeyRotationAbortedError)) throw error
    console.error(`gas rotate-master-key: ${error.message}`)
    return 1
  }
  const kept = config.masterKey === null ? renameRetiredMasterKeyFile(config.dataDir) : null
  const old = kept === null ? 'remove MASTER_KEY_PREVIOUS from the settings' : `it is now ${kept}`
  printLine(
    `done: ${old}. Keep the old key with the backups that were made before now: they need it.`,
  )
  return 0
}
