import { CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { shouldPrintJson, printJsonDocument } from '../cli-output.ts'
import { createCliStationClient } from './cli-station-client.ts'

/** `gas balance`. */
export const balanceCliVerb: CliVerb = {
  forms: [''],
  options: CLI_JSON_OPTION,
  async run({ words, has }) {
    if (words.length > 0) throw new CliUsageError('')
    const answer = await createCliStationClient().request('GET', '/api/credits/balance')
    printJsonDocument(answer, shouldPrintJson(has('json')))
    return 0
  },
}
