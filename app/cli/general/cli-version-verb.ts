import { VERSION } from '../../version.ts'
import { type CliVerb, CLI_JSON_OPTION } from '../cli-verb.ts'
import { printJson, printLine } from '../cli-output.ts'

/** `gas version`. */
export const versionCliVerb: CliVerb = {
  forms: [''],
  options: CLI_JSON_OPTION,
  async run(given) {
    if (given.has('json')) printJson({ version: VERSION, node: process.version })
    else printLine(VERSION)
    return 0
  },
}
