import { loadConfig } from '../../config.ts'
import { VERSION } from '../../version.ts'
import { CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { printJson, printLine } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'

/** `gas doctor`. */
export const doctorCliVerb: CliVerb = {
  forms: [''],
  options: CLI_JSON_OPTION,
  async run(given) {
    const config = loadConfig()
    const settings = config.production ? 'production' : 'development'
    const print = given.has('json') ? (line: string) => console.error(line) : printLine
    print(`gas-station ${VERSION} on Node ${process.version}, ${process.platform} ${process.arch}`)
    print(`settings: ${settings}, data in ${config.dataDir}`)
    return withStationDatabase(async (plane) => {
      print(plane.description)
      const { postgres } = await plane.health()
      print(`postgres: ${postgres.ok ? 'answers' : 'does not answer'}`)
      if (given.has('json'))
        printJson({
          version: VERSION,
          node: process.version,
          settings,
          data_dir: config.dataDir,
          database: plane.description,
          postgres: postgres.ok,
        })
      return postgres.ok ? 0 : 1
    }, config)
  },
}
