import t from 'tap'
import { redactSecrets, REDACTED } from '../../../core/validation/redact-secrets.ts'

const found = (value: unknown) => redactSecrets(value).found

t.test('all headers except the well-known plain ones are credentials', async (t) => {
  const headers = { Authorization: 'Bearer x', 'X-Custom': 'y', Accept: 'text/html' }
  t.strictSame(redactSecrets({ url: 'u', headers }), {
    shown: {
      url: 'u',
      headers: { Authorization: REDACTED, 'X-Custom': REDACTED, Accept: 'text/html' },
    },
    found: true,
  })
  t.notOk(found({ headers: { 'content-type': 'a/b', 'User-Agent': 'me' } }))
})

t.test('a field with the name of a credential is redacted at any depth', async (t) => {
  for (const name of [
    'authorization',
    'Cookie',
    'cookies',
    'api_key',
    'apiKey',
    'x-api-key',
    'access_token',
    'client_secret',
    'password',
    'private_key',
    ...['clientSecret', 'userPassword', 'dbPassword', 'openaiApiKey', 'token', 'github_token'],
    ...['passphrase', 'pwd', 'mnemonic', 'seed_phrase', 'signing_key', 'sessionId', 'secrets'],
    ...['APIKey', 'DB_PASSWORD', 'OPENAI_API_KEY', 'bearerToken', 'seedPhrase', 'apikey'],
  ])
    t.ok(found({ deep: [{ [name]: 'v' }] }), name)
  for (const name of [
    'max_tokens',
    'tokenIn',
    'token_address',
    'key',
    'query',
    'keywords',
    'secretary',
    'tokens',
  ])
    t.notOk(found({ deep: [{ [name]: 'v' }] }), name)
  t.strictSame(redactSecrets({ cookies: { a: 'b' } }).shown, { cookies: { a: REDACTED } })
})

t.test('a keyring reference is not redacted, but the text around it may be', async (t) => {
  t.notOk(found({ headers: { authorization: '{{keyring.NAME}}' } }))
  t.notOk(found({ headers: { authorization: 'Bearer {{keyring.NAME}}' } }))
  t.ok(found({ headers: { authorization: '{{keyring.NAME}} sk-live' } }))
})

t.test('text without secrets is unchanged', async (t) => {
  const plain = { url: 'u', list: [1, null, true, { a: 'b' }], api_key: '' }
  t.strictSame(redactSecrets(plain), { shown: plain, found: false })
})

t.test('credentials in addresses are redacted in any text', async (t) => {
  const shown = (url: string) => redactSecrets({ url, list: [url] }).shown
  for (const [url, plain] of [
    ['https://u:pw@h.test/a', `https://${REDACTED}@h.test/a`],
    ['postgres://u:p%40w@h/db', `postgres://${REDACTED}@h/db`],
    ['https://h.test/?a=1&api_key=x&b=2', `https://h.test/?a=1&api_key=${REDACTED}&b=2`],
    [
      'https://h.test/?accessToken=x#id_token=y',
      `https://h.test/?accessToken=${REDACTED}#id_token=${REDACTED}`,
    ],
    ['see https://h.test/?%74oken=x now', `see https://h.test/?%74oken=${REDACTED} now`],
  ] as const)
    t.strictSame(shown(url), { url: plain, list: [plain] }, url)
  for (const url of ['https://h.test/?q=token&page=2', 'mail ann@h.test?', 'https://h.test/@ann'])
    t.notOk(found({ url }), url)
  t.notOk(found({ url: 'https://h.test/?api_key={{keyring.KEY}}' }))
})
