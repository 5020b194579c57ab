import { VERSION } from '../../version.ts'
import { type CliVerb, JSON_OPTION } from '../cli-verb.ts'
import { printJson, printLine } from '../cli-output.ts'

/** `gas version`. */
export const versionVerb: CliVerb = {
  forms: [''],
  options: JSON_OPTION,
  async run(given) {
    if (given.has('json')) printJson({ version: VERSION, node: process.version })
    else printLine(VERSION)
    return 0
  },
}
