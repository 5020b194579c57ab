import { CliUsageError, JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { isForPrograms, printDocument } from '../cli-output.ts'
import { createCliStationClient } from './station-client.ts'

/** `gas balance`. */
export const balanceVerb: CliVerb = {
  forms: [''],
  options: JSON_OPTION,
  async run({ words, has }) {
    if (words.length > 0) throw new CliUsageError('')
    const answer = await createCliStationClient().request('GET', '/api/credits/balance')
    printDocument(answer, isForPrograms(has('json')))
    return 0
  },
}
