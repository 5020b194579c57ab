import { isIP } from 'node:net'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Static } from 'typebox'
import { Errors } from 'typebox/value'
import { parseMasterKey } from '../core/key-derivation-and-encryption.ts'
import { fromUsdc } from '../core/money.ts'
import { SettingError } from '../core/setting-error.ts'
import { parseIpAddressAllowlist } from '../providers/egress/public-ip-address.ts'
import { defaultMailFrom, senderAddress } from '../providers/mail/agent-mail.ts'
import { parseLlmProviders, type LlmProvider } from '../providers/llm/llm-provider-settings.ts'
import type { SandboxIsolationLevel } from '../providers/sandbox/sandbox-port.ts'
import { SecretString } from './secret-string.ts'
import {
  EnvironmentSettingsSchema,
  HTTP_URL,
  URL_LIST,
  type SettingAnnotations,
} from './environment-settings-schema.ts'
import {
  bareHost,
  checkDatabaseUrl,
  checkEvmAddress,
  checkHost,
  checkHttpUrl,
  checkPublicUrl,
  checkRedisUrl,
  checkSmtpUrl,
  describeStrayVariables,
  isQuoted,
  isSigningKey,
  readSwitch,
  toSmtpUrl,
} from './setting-forms.ts'

/** What is wrong with the settings, one line a problem; `main` prints them and exits 78. */
export class ConfigError extends SettingError {
  override readonly name = 'ConfigError'
  readonly problems: readonly string[]
  constructor(problems: readonly string[]) {
    super(`The configuration cannot be used:\n${problems.map((line) => `  ${line}`).join('\n')}`)
    this.problems = problems
  }
}

type Env = Readonly<Record<string, string | undefined>>
type SettingSchema = Partial<SettingAnnotations> & {
  type?: string
  default?: unknown
  enum?: readonly string[]
  pattern?: string
}

const schemas = Object.entries(
  EnvironmentSettingsSchema.properties as Record<string, SettingSchema>,
)

/** Reads and checks all settings; throws a ConfigError that names every problem at once. */
export function loadConfig(env: Env = process.env): Config {
  const values: Record<string, unknown> = {}
  for (const [name, schema] of schemas) {
    const value = parse(schema, env[name])
    if (value !== undefined) values[name] = value
  }
  const quoted = schemas.flatMap(([name]) => (isQuoted((env[name] ?? '').trim()) ? [name] : []))
  const problems = [
    ...quoted.map((name) => `${name} has quotes around it: remove them`),
    ...[...schemaProblems(values), ...otherProblems(values, env)].filter(
      (line) => !quoted.some((name) => line.startsWith(`${name} `)),
    ),
  ]
  if (problems.length > 0) throw new ConfigError(problems)
  return Object.freeze(toConfig(values as Static<typeof EnvironmentSettingsSchema>, env))
}

/** An empty variable counts as unset, since compose files and shells cannot say it otherwise. */
function parse(schema: SettingSchema, value = ''): unknown {
  const text = value.trim()
  if (text === '') return schema.default
  if (schema.type === 'integer' && /^\d+$/.test(text)) return Number(text)
  if (schema.type === 'boolean') return readSwitch(text) ?? text
  if (schema.enum === undefined) return text
  const chosen = isSwitch(schema.enum) ? switchWord(text) : text.toLowerCase()
  return schema.enum.includes(chosen) ? chosen : text
}

const isSwitch = (words: readonly string[]): boolean => words.length === 2 && words.includes('off')
const switchWord = (text: string): string => {
  const isOn = readSwitch(text)
  return isOn === null ? text : isOn ? 'on' : 'off'
}

function schemaProblems(values: Record<string, unknown>): string[] {
  const names = Errors(EnvironmentSettingsSchema, values).map(({ instancePath }) =>
    instancePath.slice(1),
  )
  return [...new Set(names)].map((name) => problemOf(name, values))
}

function problemOf(name: string, values: Record<string, unknown>): string {
  const schema = new Map(schemas).get(name)
  const shown = schema?.secret === true ? '' : `, not "${String(values[name])}"`
  return `${name} must be ${schema?.must ?? 'right'}${shown}`
}

/** What a schema cannot say: rules between settings, and forms with an arithmetic of their own. */
function otherProblems(values: Record<string, unknown>, env: Env): string[] {
  const accepts = (name: string, holds: (value: string) => boolean) => {
    const value = values[name]
    return typeof value !== 'string' || holds(value) ? [] : [problemOf(name, values)]
  }
  const checked = (name: string, check: (value: string) => string | null) => {
    const value = values[name]
    const problem = typeof value === 'string' ? check(value) : null
    return problem === null ? [] : [`${name} ${problem}`]
  }
  const problems = [
    ...checked('HOST', checkHost),
    ...checked('PUBLIC_URL', checkPublicUrl),
    ...checked('DATABASE_URL', checkDatabaseUrl),
    ...checked('REDIS_URL', checkRedisUrl),
    ...checked('SMTP_URL', checkSmtpUrl),
    ...httpUrlProblems(values),
    ...accepts('MASTER_KEY', isMasterKey),
    ...accepts('MASTER_KEY_PREVIOUS', isMasterKey),
    ...accepts('TRUST_PROXY', (value) => parseTrustProxy(value) !== null),
    ...accepts('SSRF_ALLOW', (value) => parsesWithoutError(parseIpAddressAllowlist, value)),
    ...checked('LLM_PROVIDERS', (value) => llmProblem(value, env)),
    ...accepts('MAIL_FROM_AGENTS', (value) => {
      const { MAIL_FROM: own, PUBLIC_URL: url = 'http://127.0.0.1' } = values
      const isSet = typeof own === 'string'
      if (!isSet && !URL.canParse(String(url))) return true
      return senderAddress(isSet ? own : defaultMailFrom(String(url))) !== senderAddress(value)
    }),
    ...accepts('SETTLER_PRIVATE_KEY', isSigningKey),
    ...checked('TREASURY_ADDRESS', checkEvmAddress),
  ]
  if (values['NODE_ENV'] !== 'production') return problems
  const missing = ['DATABASE_URL', 'MASTER_KEY', 'PUBLIC_URL']
    .filter((name) => values[name] === undefined)
    .map((name) => `${name} is required in production`)
  const refused = values['SSRF_ALLOW'] === undefined ? [] : ['SSRF_ALLOW is refused in production']
  return [...problems, ...missing, ...refused]
}

/** Every URL must be one for its client, too. Those that the schema refuses are named there. */
function httpUrlProblems(values: Record<string, unknown>): string[] {
  return schemas.flatMap(([name, { pattern }]) => {
    const value = values[name]
    if (typeof value !== 'string' || (pattern !== HTTP_URL && pattern !== URL_LIST)) return []
    if (name === 'PUBLIC_URL' || !new RegExp(pattern).test(value)) return []
    const urls = pattern === URL_LIST ? value.split(',').map((url) => url.trim()) : [value]
    const [problem] = urls.flatMap((url) => checkHttpUrl(url) ?? [])
    return problem === undefined ? [] : [`${name} ${problem}`]
  })
}

/** JSON is long: the line says where it is wrong. */
function llmProblem(value: string, env: Env): string | null {
  try {
    providersOf(value, env)
    return null
  } catch (error) {
    return `must be JSON of the form in docs/configuration.md, whose keys are set: ${(error as Error).message}`
  }
}

/** The models of `LLM_PROVIDERS`, each with the key that its own variable holds. */
const providersOf = (text: string, env: Env): LlmProvider[] =>
  parseLlmProviders(text, (name) => {
    const key = (env[name] ?? '').trim()
    return key === '' ? null : new SecretString(key)
  })

/** Whether text is a master key: 32 bytes in base64. */
export const isMasterKey = (value: string): boolean => parsesWithoutError(parseMasterKey, value)

function parsesWithoutError(parser: (value: string) => unknown, value: string): boolean {
  try {
    return parser(value) !== undefined
  } catch {
    return false
  }
}

/** Fastify's form of the trusted proxies; null when the text names neither a count nor addresses. */
function parseTrustProxy(value: string): number | string[] | null {
  if (/^\d{1,2}$/.test(value)) return Number(value)
  const ranges = value.split(',').map((range) => range.trim())
  const known = (range: string) => {
    const [address = '', bits = '0', ...rest] = range.split('/')
    const widest = isIP(address) === 4 ? 32 : 128
    return isIP(address) > 0 && rest.length === 0 && /^\d+$/.test(bits) && Number(bits) <= widest
  }
  return ranges.every(known) ? ranges : null
}

type Values = Static<typeof EnvironmentSettingsSchema>

/** The settings as the service uses them: camelCase, exact amounts, secrets wrapped. */
export type Config = Readonly<ReturnType<typeof toConfig>>

function toConfig(values: Values, env: Env) {
  const production = values.NODE_ENV === 'production'
  return {
    production,
    port: values.PORT,
    host: bareHost(values.HOST),
    /** Without a slash at its end; null means "where the service happens to listen". */
    publicUrl: values.PUBLIC_URL?.replace(/\/+$/, '') ?? null,
    dataDir: resolve(values.DATA_DIR),
    journalArchiveDir: resolve(
      values.JOURNAL_ARCHIVE_DIR ?? join(values.DATA_DIR, 'journal-archive'),
    ),
    databaseUrl: secret(values.DATABASE_URL),
    databaseConnections: values.DATABASE_CONNECTIONS,
    redis: values.REDIS as 'auto' | 'none',
    /** Where a Redis server is looked for. */
    searchPath: env['PATH'] ?? '',
    redisUrl: secret(values.REDIS_URL),
    masterKey: secret(values.MASTER_KEY),
    masterKeyPrevious: secret(values.MASTER_KEY_PREVIOUS),
    operatorToken: secret(values.OPERATOR_TOKEN),
    operatorContact: values.OPERATOR_CONTACT ?? null,
    trustProxy: parseTrustProxy(values.TRUST_PROXY ?? '0') || (false as const),
    starterCredits: fromUsdc(Number(values.STARTER_CREDITS_USDC)),
    promoTransferable: values.PROMO_TRANSFERABLE ?? !production,
    onboardPerHourPerIp: values.ONBOARD_PER_HOUR_PER_IP,
    bulkOnboardMax: values.BULK_ONBOARD_MAX,
    rateLimits: values.RATE_LIMITS === 'on',
    freeTierPerDay: values.FREE_TIER_PER_DAY,
    residentAgents: values.RESIDENT_AGENTS,
    ...chainSettings(values),
    ...sourceSettings(values),
    embeddings: Object.freeze({
      url: values.EMBEDDINGS_URL ?? null,
      model: values.EMBEDDINGS_MODEL,
      key: secret(values.EMBEDDINGS_API_KEY),
    }),
    llm: Object.freeze({
      providers: Object.freeze(providersOf(values.LLM_PROVIDERS ?? '[]', env)),
      dailyBudget: fromUsdc(Number(values.LLM_DAILY_BUDGET_USD)),
      callerPercent: values.LLM_CALLER_PERCENT,
    }),
    /** The ways to owners; null where they are not set up. */
    mail: Object.freeze({
      url: secret(values.SMTP_URL === undefined ? undefined : toSmtpUrl(values.SMTP_URL)),
      from: values.MAIL_FROM ?? null,
      agentsFrom: values.MAIL_FROM_AGENTS ?? null,
    }),
    telegram: Object.freeze({
      token: secret(values.TELEGRAM_BOT_TOKEN),
      base: values.TELEGRAM_BASE.replace(/\/+$/, ''),
    }),
    /** `none` where there shall be no browser; null means it is looked for. */
    chromiumPath: values.CHROMIUM_PATH ?? null,
    sandboxMinIsolation: values.SANDBOX_MIN_ISOLATION as SandboxIsolationLevel,
    inspector: (values.INSPECTOR ?? (production ? 'off' : 'on')) === 'on',
    ssrfAllow: values.SSRF_ALLOW ?? '',
    /** Without slashes at their ends. */
    x402Bazaars: Object.freeze(
      (values.X402_BAZAARS ?? '')
        .split(',')
        .map((url) => url.trim().replace(/\/+$/, ''))
        .filter((url) => url !== ''),
    ),
    logLevel: values.LOG_LEVEL,
    /** Lines about the environment that the operator should see at the start. */
    warnings: Object.freeze(warningsOf(env)),
  }
}

const warningsOf = (env: Env): string[] =>
  describeStrayVariables(
    Object.keys(env),
    schemas.map(([name]) => name),
    (name) => (env[name] ?? '').trim() !== '',
  )

const secret = (value: string | undefined) => (value === undefined ? null : new SecretString(value))

function chainSettings(values: Values) {
  return {
    chain: Object.freeze({
      rpc: Object.freeze({
        base: secret(values.RPC_URL_BASE),
        bsc: secret(values.RPC_URL_BSC),
        tempo: secret(values.RPC_URL_TEMPO),
        solana: secret(values.RPC_URL_SOLANA),
      }),
      treasury: values.TREASURY_ADDRESS?.toLowerCase() ?? null,
      /** Deposits on Base are watched for, and swept to the treasury. */
      deposits: values.RPC_URL_BASE !== undefined && values.TREASURY_ADDRESS !== undefined,
      treasurySolana: values.TREASURY_ADDRESS_SOLANA ?? null,
      settlerKey: secret(values.SETTLER_PRIVATE_KEY),
      usdcBase: values.USDC_ADDRESS_BASE.toLowerCase(),
      mppCurrency: values.MPP_CURRENCY.toLowerCase(),
      mppSecret: secret(values.MPP_SECRET),
      facilitatorUrl: values.X402_FACILITATOR_URL?.replace(/\/+$/, '') ?? null,
      exposure: fromUsdc(Number(values.X402_EXPOSURE_USDC)),
    }),
    /** What tools read chains by; null means public nodes. */
    reads: Object.freeze({
      base: secret(values.RPC_URL_BASE),
      ethereum: secret(values.RPC_URL_ETHEREUM),
      arbitrum: secret(values.RPC_URL_ARBITRUM),
      optimism: secret(values.RPC_URL_OPTIMISM),
      polygon: secret(values.RPC_URL_POLYGON),
    }),
  }
}

/** Where tools look things up. */
function sourceSettings(values: Values) {
  return {
    /** Where pools and tokens are looked up. */
    pools: Object.freeze({
      dexscreener: values.DEXSCREENER_BASE,
      geckoterminal: values.GECKOTERMINAL_BASE,
    }),
    coingeckoApiKey: secret(values.COINGECKO_API_KEY),
    /** Where each source of prices answers. */
    prices: Object.freeze({
      coingecko: values.COINGECKO_BASE,
      coinbase: values.COINBASE_BASE,
      kraken: values.KRAKEN_BASE,
      binance: values.BINANCE_BASE,
      defillama: values.DEFILLAMA_BASE,
    }),
    /** Where the web and platforms are searched. */
    search: Object.freeze({
      searxng: values.SEARXNG_URL?.replace(/\/+$/, '') ?? null,
      brave: values.BRAVE_BASE,
      braveKey: secret(values.BRAVE_API_KEY),
      tavily: values.TAVILY_BASE,
      tavilyKey: secret(values.TAVILY_API_KEY),
      wikipedia: values.WIKIPEDIA_BASE,
      hackernews: values.HACKERNEWS_BASE,
      stackexchange: values.STACKEXCHANGE_BASE,
      duckduckgo: values.DUCKDUCKGO_BASE,
    }),
    social: Object.freeze({
      mastodon: values.MASTODON_BASE,
      bluesky: values.BLUESKY_BASE,
      blueskyIdentifier: values.BLUESKY_IDENTIFIER ?? null,
      blueskyPassword: secret(values.BLUESKY_APP_PASSWORD),
    }),
  }
}

/** What the environment says to the verbs of `gas` that call a station. */
export function loadCliClientEnvironment(env: Env = process.env): {
  url: string | null
  apiKey: SecretString | null
  /** Of the station: `gas tools import` then needs no proof of the origin. */
  operatorToken: SecretString | null
  /** The credential of a service that is imported. */
  upstreamCredential: SecretString | null
  /** The path of the file with the addresses and keys of stations. */
  settingsFile: string
} {
  const read = (name: string) => (env[name] ?? '').trim() || null
  const key = read('GAS_API_KEY')
  const home = read('XDG_CONFIG_HOME') ?? join(homedir(), '.config')
  return {
    url: read('GAS_URL'),
    apiKey: key === null ? null : new SecretString(key),
    operatorToken: secret(read('OPERATOR_TOKEN') ?? undefined),
    upstreamCredential: secret(read('UPSTREAM_CREDENTIAL') ?? undefined),
    settingsFile: join(home, 'gas', 'config.json'),
  }
}
