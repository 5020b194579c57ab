import { text as readStream } from 'node:stream/consumers'
import { CliFailure, CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { shouldPrintJson, printJsonDocument } from '../cli-output.ts'
import {
  loadStationUrlAndApiKey,
  normalizeStationUrl,
  removeSavedStationApiKey,
  saveStationApiKeyAsDefault,
  saveDefaultStationUrl,
} from './cli-station-url-and-key.ts'

/** `gas config`: the station and the key of the verbs for agents. */

const KEY = /^gas_[0-9A-Za-z]{20,}$/
const SHOWN_CHARACTERS = 10

export const configCliVerb: CliVerb = {
  forms: ['', 'url <url>', 'key', 'forget'],
  about:
    'Shows the station and where the key comes from; `url` sets the station; `key` reads a key from standard input, so that it is in no history of a shell; `forget` removes the key of the station. GAS_URL and GAS_API_KEY come first. A key of the file goes to the station it was saved for only.',
  options: CLI_JSON_OPTION,
  examples: ['gas config url https://gas.example', 'gas config key < key.txt'],
  async run({ words: [what, url, ...more], has }) {
    if (more.length > 0 || (what === 'url') !== (url !== undefined)) throw new CliUsageError('')
    if (what === 'url') saveDefaultStationUrl(normalizeStationUrl(url ?? ''))
    else if (what === 'key')
      saveStationApiKeyAsDefault(loadStationUrlAndApiKey().url, await readKey())
    else if (what === 'forget') removeSavedStationApiKey(loadStationUrlAndApiKey().url)
    else if (what !== undefined) throw new CliUsageError('')
    const access = loadStationUrlAndApiKey()
    const key =
      access.apiKey === null ? null : `${access.apiKey.reveal().slice(0, SHOWN_CHARACTERS)}…`
    const shown = { url: access.url, key, key_from: access.keyFrom, file: access.file }
    printJsonDocument(shown, shouldPrintJson(has('json')))
    return 0
  },
}

async function readKey(): Promise<string> {
  if (process.stdin.isTTY) console.error('paste the key, then Enter and Ctrl-D:')
  const key = (await readStream(process.stdin)).trim()
  if (!KEY.test(key)) throw new CliFailure('that is no API key: it begins with gas_')
  return key
}
