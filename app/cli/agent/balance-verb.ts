import { CliUsageError, JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { shouldPrintJson, printDocument } from '../cli-output.ts'
import { createCliStationClient } from './cli-station-client.ts'

/** `gas balance`. */
export const balanceVerb: CliVerb = {
  forms: [''],
  options: JSON_OPTION,
  async run({ words, has }) {
    if (words.length > 0) throw new CliUsageError('')
    const answer = await createCliStationClient().request('GET', '/api/credits/balance')
    printDocument(answer, shouldPrintJson(has('json')))
    return 0
  },
}
