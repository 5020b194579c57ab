import { CliFailure, CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { shouldPrintJson, toErrorMessage, printJsonDocument } from '../cli-output.ts'
import { printAnswer } from '../print-answer.ts'
import { loadStationUrlAndApiKey, saveStationApiKeyAsDefault } from './cli-station-url-and-key.ts'
import { createCliStationClient } from './cli-station-client.ts'

/** `gas onboard`. */
export const onboardCliVerb: CliVerb = {
  forms: ['<name> [--save]'],
  about:
    'The answer has the API key, which is shown only once. With --save the key goes into the settings file instead (mode 0600), and the other verbs use it; an earlier key of the station stays in the file.',
  options: {
    save: { description: 'keeps the key in the settings file and prints the answer without it' },
    ...CLI_JSON_OPTION,
  },
  examples: ['gas onboard scout --save'],
  async run({ words: [name, ...more], has }) {
    if (name === undefined || more.length > 0) throw new CliUsageError('')
    // A key that is sent would make the new agent a second one of the same owner's.
    const access = { ...loadStationUrlAndApiKey(), apiKey: null }
    const answer = await createCliStationClient(access).write('POST', '/api/onboard', {
      body: { name },
    })
    if (!has('save')) printAnswer(answer, shouldPrintJson(has('json')))
    else {
      const { api_key: key, ...rest } = answer
      if (typeof key !== 'string') throw new CliFailure(`${access.url} answered without a key`)
      const file = saveOrPrint(access.url, answer, key, shouldPrintJson(has('json')))
      printJsonDocument(rest, shouldPrintJson(has('json')))
      console.error(`the key for ${access.url} is in ${file}`)
    }
    return 0
  },
}

/** The answer is the only copy of the key: where it cannot be saved, it is printed. */
function saveOrPrint(url: string, answer: object, key: string, forPrograms: boolean): string {
  try {
    return saveStationApiKeyAsDefault(url, key)
  } catch (error) {
    printAnswer(answer, forPrograms)
    throw new CliFailure(`the key was not saved, and is printed: ${toErrorMessage(error)}`)
  }
}
