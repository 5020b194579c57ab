import { migrateBullmqSchema } from '../../../persistence/bullmq-connections.ts'
import { migrateSchema } from '../../../persistence/migrate-schema.ts'
import { loadConfig } from '../../config.ts'
import { type CliVerb, CLI_JSON_OPTION } from '../cli-verb.ts'
import { printJson, printLine } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'

/** `gas migrate`. */
export const migrateCliVerb: CliVerb = {
  forms: [''],
  about: 'Creates the database first if there is none. A station does the same when it starts.',
  options: CLI_JSON_OPTION,
  run: (given) =>
    withStationDatabase(
      async ({ sql }) => {
        const migration = await migrateSchema(sql)
        if (given.has('json')) printJson({ migration })
        else printLine(`schema at migration ${migration}`)
        await migrateBullmqSchema(sql)
        return 0
      },
      loadConfig(),
      { mayCreate: true },
    ),
}
