import { EnvironmentSettingsSchema } from '../../app/environment-settings-schema.ts'
import { markdownTable, writeGeneratedFile, writeGeneratedSection } from './write-generated-docs.ts'

/** Writes the tables of settings, from the schema that validates them. */

type SettingName = keyof typeof EnvironmentSettingsSchema.properties

interface Setting {
  readonly description?: string
  readonly must?: string
  readonly unset?: string
  readonly default?: unknown
}

/** The settings in the README: most stations need no others. */
const README_SETTINGS: readonly SettingName[] = [
  'PORT',
  'PUBLIC_URL',
  'DATABASE_URL',
  'REDIS_URL',
  'MASTER_KEY',
  'OPERATOR_TOKEN',
  'TRUST_PROXY',
  'RPC_URL_BASE',
  'TREASURY_ADDRESS',
  'SETTLER_PRIVATE_KEY',
]

/** The first setting of each section, in the order of the schema. */
const SECTION_TITLES: Partial<Record<SettingName, string>> = {
  NODE_ENV: 'Service and storage',
  MASTER_KEY: 'Keys and access',
  STARTER_CREDITS_USDC: 'Credits, rates and memory',
  RPC_URL_BASE: 'Chains and payments',
  COINGECKO_API_KEY: 'Prices and pools',
  SEARXNG_URL: 'Search and social',
  EMBEDDINGS_URL: 'Models',
  SMTP_URL: 'E-mail and chat',
  CHROMIUM_PATH: 'Browser, sandbox and logs',
}

const settings = EnvironmentSettingsSchema.properties as Record<string, Setting>
const names = Object.keys(settings) as SettingName[]

function settingsTable(selected: readonly SettingName[]): string {
  const rows = selected.map((name) => {
    const { description = '', must = '', unset, default: standard } = settings[name] as Setting
    const form = `${must.charAt(0).toUpperCase()}${must.slice(1)}.`
    return [`\`${name}\``, unset ?? `\`${String(standard)}\``, `${description} ${form}`]
  })
  return markdownTable(['Setting', 'When unset', 'Meaning'], rows)
}

const starts = names.filter((name) => name in SECTION_TITLES)
const sections = starts.map((start, index) => {
  const next = starts[index + 1]
  const end = next === undefined ? names.length : names.indexOf(next)
  return `## ${SECTION_TITLES[start]}\n\n${settingsTable(names.slice(names.indexOf(start), end))}\n`
})

const document = `# Configuration

Generated from \`app/environment-settings-schema.ts\` by \`npm run docs:config\`. The service reads its settings from environment
variables and validates them when it starts: a setting that cannot be used ends the start with one line that names it, shows no
secret, and exits 78. It reads no \`.env\` file: \`node --env-file=.env dist/app/main.js\` does. Switches may be on or off, true or
false, yes or no, 1 or 0. A variable that looks like a misspelled setting is a warning at the start.
The verbs of \`gas\` for agents read \`GAS_URL\` and \`GAS_API_KEY\`: [cli.md](cli.md).

${sections.join('\n')}
## Probes

| address | answer |
|---|---|
| \`GET /livez\`, also \`GET /healthz\` and \`GET /health\` | 200 while the process answers: restart a node that does not |
| \`GET /readyz\` | 200 while the node can serve; 503 without its database, under memory pressure and while it stops: send it nothing |
| \`GET /api/network/health\` | 200, or 503 without the database; says which dependency is degraded |

None of them takes a key, counts against a rate limit, or is kept by a cache.

## Addresses of servers

\`DATABASE_URL\`, \`REDIS_URL\` and \`SMTP_URL\` are \`scheme://user:password@host:port/name?parameters\`. IPv6 addresses stand in brackets.
User and password may hold any character as it is, as long as the text has one reading; write a \`%\` as \`%25\`.
In \`docker-compose.yml\` the password is part of an address too.

| of \`DATABASE_URL\` | meaning |
|---|---|
| \`sslmode\` | \`disable\`, \`prefer\` (also \`allow\`), \`require\` (any certificate), \`verify-ca\`, \`verify-full\`; unset: \`prefer\`, on loopback \`disable\`. \`ssl\` and \`sslaccept\` are other spellings |
| \`sslrootcert\`, \`sslcert\`, \`sslkey\` | files; with \`sslrootcert\` the certificate is always checked. \`system\` means the authorities of Node |
| \`host\`, \`port\`, \`user\`, \`password\`, \`dbname\` | in place of the parts before; a \`host\` that is a folder holds a unix socket (Cloud SQL) |
| \`options\` | settings of the session: \`-c search_path=gas\` |
| \`channel_binding\`, \`connection_limit\`, \`application_name\` and others of other clients | ignored |
| \`pgbouncer=true\`, several hosts, \`schema\` other than \`public\`, unknown ones | refused. A pooler must be in session mode: the station listens for notifications |

\`REDIS_URL\` is \`redis://\`, \`rediss://\` (encrypted; \`?ssl_cert_reqs=none\` does not check the certificate), \`valkey://\`, or \`unix:///path?db=1\`.
\`gas doctor\` tries what the settings name.
`

writeGeneratedFile('docs/configuration.md', document)
writeGeneratedSection('README.md', 'config', settingsTable(README_SETTINGS))
