import { CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { shouldPrintJson, printJsonDocument } from '../cli-output.ts'
import { createCliStationClient } from './cli-station-client.ts'

/** `gas freeze` and `gas unfreeze`. */

const freezeVerbOf = (path: string, about: string): CliVerb => ({
  about,
  forms: [''],
  options: CLI_JSON_OPTION,
  async run({ words, has }) {
    if (words.length > 0) throw new CliUsageError('')
    const answer = await createCliStationClient().write('POST', path, {})
    printJsonDocument(answer, shouldPrintJson(has('json')))
    return 0
  },
})

export const freezeCliVerb = freezeVerbOf(
  '/api/agent/freeze',
  'Takes a key that manages the keys of the agent. Calls that run already end as usual; deposits are still credited; keys and Backpacks can still be changed.',
)

export const unfreezeCliVerb = freezeVerbOf(
  '/api/agent/unfreeze',
  'Takes a key that manages the keys of the agent. Schedules go on with their next run.',
)
