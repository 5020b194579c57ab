import { toErrorMessage } from '../cli-output.ts'
import {
  createVerbWithSubcommands,
  fetchStationListPages,
  parseListOption,
  parseAmountOption,
  parseNumberOption,
  withoutNulls,
} from './cli-verb-with-subcommands.ts'
import { saveStationApiKeyAsDefault } from './cli-station-url-and-key.ts'
import type { CliStationClient } from './cli-station-client.ts'

/** `gas keys`. */
export const keysCliVerb = createVerbWithSubcommands({
  about:
    'A new key never has more rights than the one that creates it, and is shown only once. With --backpack it acts in that Backpack only and manages nothing: the key for a program.',
  options: {
    name: { value: 'NAME', description: 'create: what it is for' },
    backpack: { value: 'ID', description: 'create: binds it to this Backpack' },
    scopes: { value: 'A,B', description: 'create: what it may do' },
    cap: { value: 'USDC', description: 'create: what it may spend in all' },
    'cap-per-day': { value: 'USDC', description: 'create: the same for a UTC day' },
    'cap-per-month': { value: 'USDC', description: 'create: the same for a UTC month' },
    expires: { value: 'SECONDS', description: 'create: how long it works' },
    grace: { value: 'SECONDS', description: 'rotate: how long the old key still works' },
    compromised: { description: 'rotate: ends the old key at once and pauses its schedules' },
  },
  examples: [
    'gas keys create --name ci --cap-per-day 0.1 --scopes tools,read',
    'gas keys rotate --compromised',
  ],
  actions: {
    ls: {
      form: '',
      run: async (client, given) => ({
        rows: await fetchStationListPages(client, '/api/keys', 'keys', given),
        columns: [
          'key_id',
          'name',
          'prefix',
          'scopes',
          'cap_per_day_usdc',
          'backpack_id',
          'expires_at',
          'current',
        ],
      }),
    },
    create: {
      form: '[--name NAME] [--backpack ID] [--scopes A,B] [--cap USDC] …',
      run: (client, { text }) => {
        const amount = (option: string) => {
          const value = text(option)
          return value === null ? null : parseAmountOption(value, `--${option}`)
        }
        const [scopes, expires] = [text('scopes'), text('expires')]
        return client.write('POST', '/api/keys', {
          body: withoutNulls({
            name: text('name'),
            backpack_id: text('backpack'),
            scopes: scopes === null ? null : parseListOption(scopes),
            cap_usdc: amount('cap'),
            cap_per_day_usdc: amount('cap-per-day'),
            cap_per_month_usdc: amount('cap-per-month'),
            expires_in_seconds: expires === null ? null : parseNumberOption(expires, '--expires'),
          }),
        })
      },
    },
    rotate: {
      form: '[<id>] [--grace SECONDS] [--compromised]',
      run: async (client, { words: [id], text, has }) => {
        const grace = text('grace')
        const answer = await client.write('POST', '/api/keys/rotate', {
          body: withoutNulls({
            key_id: id ?? null,
            grace_seconds: grace === null ? null : parseNumberOption(grace, '--grace'),
            compromised: has('compromised') ? true : null,
          }),
        })
        if (id === undefined) saveRotatedKey(client, answer)
        return answer
      },
    },
    revoke: {
      form: '<id>',
      run: (client, { words: [id = ''] }) =>
        client.write('DELETE', `/api/keys/${encodeURIComponent(id)}`),
    },
  },
})

/** A key of the settings file that is replaced is replaced there too: the old one ends. */
function saveRotatedKey(
  { url, keyFrom }: CliStationClient,
  answer: Readonly<Record<string, unknown>>,
) {
  const { api_key: key } = answer
  if (keyFrom !== 'file' || typeof key !== 'string') return
  try {
    console.error(`the new key is in ${saveStationApiKeyAsDefault(url, key)}`)
  } catch (error) {
    // The answer with the key is printed next.
    console.error(`the new key was not saved: ${toErrorMessage(error)}`)
  }
}
