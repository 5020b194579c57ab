import { Type } from 'typebox'
import { LIMITS } from '../core/limits.ts'
import { PUBLIC_LIQUIDITY_POOL_API_URLS } from '../providers/liquidity-pools/liquidity-pools-port.ts'
import { DEFAULT_PRICE_SOURCE_SETTINGS } from '../providers/prices/asset-price-sources.ts'
import { DEFAULT_SEARCH_ENGINE_URLS } from '../providers/search/select-search-engines.ts'
import { DEFAULT_SOCIAL_PLATFORM_URLS } from '../providers/social/select-social-platforms.ts'

/** `must` completes the sentence "NAME must be …"; `unset` describes a default that is computed. */
export interface SettingAnnotations {
  description: string
  must: string
  unset?: string
  secret?: true
}

const whole = (low: number, high: number, standard: number, description: string) =>
  Type.Integer({
    minimum: low,
    maximum: high,
    default: standard,
    description,
    must: `a whole number from ${low} to ${high}`,
  })
const usdc = (standard: string, description: string) =>
  Type.String({
    pattern: '^\\d{1,9}(\\.\\d{1,6})?$',
    default: standard,
    description,
    must: 'an amount of USDC with at most six decimals',
  })
const rpc = (chain: string) =>
  text(HTTP_URL, {
    description: `A JSON-RPC endpoint of ${chain}.`,
    must: 'an http or https URL',
    unset: 'off',
    secret: true,
  })
const reads = (chain: string) =>
  text(URL_LIST, {
    description: `JSON-RPC endpoints of ${chain} that tools read from, in order of preference.`,
    must: 'http or https URLs, separated by commas',
    unset: 'a public one',
    secret: true,
  })
const oneOf = <const Names extends readonly string[]>(
  names: Names,
  standard: Names[number],
  description: string,
) => Type.Enum(names, { default: standard, description, must: `one of ${names.join(', ')}` })
const text = (pattern: string, notes: SettingAnnotations) =>
  Type.Optional(Type.String({ pattern, ...notes }))
const base = (standard: string, description: string) =>
  Type.String({ pattern: HTTP_URL, default: standard, description, must: 'an http or https URL' })

const EVM_ADDRESS = '^0x[0-9a-fA-F]{40}$'
export const HTTP_URL = '^https?://[^\\s]+$'
export const URL_LIST = '^https?://[^\\s,]+(, *https?://[^\\s,]+)*$'
const ANYTHING = '^[^]+$'

/** All settings, by the name of their environment variable. The tables of the documents are generated from it. */
export const EnvironmentSettingsSchema = Type.Object({
  NODE_ENV: oneOf(
    ['development', 'test', 'production'],
    'development',
    '`production` requires `DATABASE_URL`, `MASTER_KEY` and `PUBLIC_URL`.',
  ),
  PORT: whole(0, 65_535, 8402, 'The port it listens on; 0 picks any free port.'),
  HOST: Type.String({
    pattern: ANYTHING,
    default: '127.0.0.1',
    description: 'The address it listens on; `::` is every address.',
    must: 'a host name or an address',
  }),
  PUBLIC_URL: text(HTTP_URL, {
    description:
      'The address under which callers reach the service. Links in answers start with it.',
    must: 'an http or https URL',
    unset: '`http://HOST:PORT`',
  }),
  DATA_DIR: Type.String({
    pattern: ANYTHING,
    default: './.data',
    description:
      'The folder of the embedded database, the private Redis, the master key and, on every station, the last signed head of the attestations. It is made where it is missing.',
    must: 'a directory',
  }),
  JOURNAL_ARCHIVE_DIR: text(ANYTHING, {
    description:
      'The folder of the archived months of the journal (`gas archive`). Every node reads it.',
    must: 'a directory',
    unset: '`DATA_DIR/journal-archive`',
  }),
  DATABASE_URL: text(ANYTHING, {
    description: 'PostgreSQL 15 or later.',
    must: 'a postgres:// URL',
    unset: 'an embedded PostgreSQL 18',
    secret: true,
  }),
  DATABASE_CONNECTIONS: whole(
    2,
    200,
    10,
    'Connections of one node to PostgreSQL for single statements; transactions, commits and the bus take up to 13 more, and jobs without Redis 12. While the server has none left, a statement waits for up to 8 seconds.',
  ),
  REDIS: oneOf(
    ['auto', 'none'],
    'auto',
    '`none` runs without Redis. Redis never holds durable data.',
  ),
  REDIS_URL: text(ANYTHING, {
    description: 'A Redis or Valkey shared by all nodes.',
    must: 'a redis:// URL',
    unset: 'a private `redis-server` if one is installed, else none',
    secret: true,
  }),
  MASTER_KEY: text(ANYTHING, {
    description: 'The key that encrypts all secrets. Losing it loses all API keys and secrets.',
    must: '32 bytes in base64',
    unset: 'generated once in `DATA_DIR/master.key`',
    secret: true,
  }),
  MASTER_KEY_PREVIOUS: text(ANYTHING, {
    description: 'The old master key. It only decrypts, while `gas rotate-master-key` replaces it.',
    must: '32 bytes in base64',
    unset: '`DATA_DIR/master.key.previous`, if `MASTER_KEY` is unset too',
    secret: true,
  }),
  OPERATOR_TOKEN: text('^[\\x21-\\x7e]{16,}$', {
    description: "Authorizes the operator's routes, such as `/metrics`.",
    must: 'at least 16 characters of ASCII',
    unset: 'loopback only, and not through a proxy',
    secret: true,
  }),
  OPERATOR_CONTACT: text('^[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,190}$', {
    description:
      'The public e-mail address of the operator, for `/.well-known/security.txt` and `/.well-known/ai-plugin.json`.',
    must: 'an e-mail address',
    unset: 'these two addresses answer 404',
  }),
  TRUST_PROXY: text(ANYTHING, {
    description:
      'The proxies whose `X-Forwarded-For` is trusted: their number, or their addresses.',
    must: 'a number of proxies, or addresses and CIDR ranges separated by commas',
    unset: 'none',
  }),
  STARTER_CREDITS_USDC: usdc('0.50', 'Promotional credits granted to a new agent.'),
  PROMO_TRANSFERABLE: Type.Optional(
    Type.Boolean({
      description:
        'Whether promotional credits may reach another agent, as a transfer, bounty reward, share or royalty ([credits](credits.md)).',
      must: 'true or false',
      unset: 'true outside production',
    }),
  ),
  ONBOARD_PER_HOUR_PER_IP: whole(
    1,
    1_000_000,
    10,
    'New agents per address and hour, and how many of them get starter credits.',
  ),
  BULK_ONBOARD_MAX: whole(
    1,
    100,
    20,
    'Agents in one bulk onboarding. A batch above `ONBOARD_PER_HOUR_PER_IP` must be the only onboarding of its address in that hour.',
  ),
  RATE_LIMITS: oneOf(
    ['on', 'off'],
    'on',
    'Enforces the request rates per agent and address, and the limit on new agents.',
  ),
  FREE_TIER_PER_DAY: whole(0, 1_000_000, 10, 'Free calls per day, free-tier tool and address.'),
  RESIDENT_AGENTS: whole(
    100,
    10_000_000,
    LIMITS.residentAggregates,
    'Agents kept in memory. Others are loaded when they are called.',
  ),
  RPC_URL_BASE: rpc('Base (8453): payments, deposits and wallets'),
  RPC_URL_ETHEREUM: reads('Ethereum (1)'),
  RPC_URL_ARBITRUM: reads('Arbitrum One (42161)'),
  RPC_URL_OPTIMISM: reads('OP Mainnet (10)'),
  RPC_URL_POLYGON: reads('Polygon (137)'),
  RPC_URL_BSC: rpc('BNB Smart Chain (56): x402 payments by Permit2'),
  RPC_URL_TEMPO: rpc('Tempo (4217): MPP payments'),
  RPC_URL_SOLANA: text(HTTP_URL, {
    description:
      'A JSON-RPC endpoint of Solana with full history. It resolves payments whose outcome the facilitator does not know.',
    must: 'an http or https URL',
    unset: 'such payments stay open until `gas settlement resolve`',
    secret: true,
  }),
  TREASURY_ADDRESS: text(EVM_ADDRESS, {
    description: 'The address that receives payments and swept deposits.',
    must: 'an address: 0x and 40 hexadecimal digits',
    unset: 'no payments on any chain',
  }),
  TREASURY_ADDRESS_SOLANA: text('^[1-9A-HJ-NP-Za-km-z]{32,44}$', {
    description: 'The address that receives payments on Solana.',
    must: 'a base58 address',
    unset: 'no payments on Solana',
  }),
  SETTLER_PRIVATE_KEY: text('^0x[0-9a-fA-F]{64}$', {
    description: 'The key that submits settlements and sweeps, and pays their gas.',
    must: '0x and 64 hexadecimal digits that are a private key',
    unset: 'no payments on Base and BSC',
    secret: true,
  }),
  USDC_ADDRESS_BASE: Type.String({
    pattern: EVM_ADDRESS,
    default: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
    description: 'The USDC contract on Base.',
    must: 'an address: 0x and 40 hexadecimal digits',
  }),
  MPP_CURRENCY: Type.String({
    pattern: EVM_ADDRESS,
    default: '0x20C000000000000000000000b9537d11c60E8b50',
    description: 'The TIP-20 token of MPP payments.',
    must: 'an address: 0x and 40 hexadecimal digits',
  }),
  MPP_SECRET: text('^[^\\s]{32,}$', {
    description: 'Signs MPP challenges. All nodes need the same one.',
    must: 'at least 32 characters',
    unset: 'generated once, encrypted in the database',
    secret: true,
  }),
  X402_FACILITATOR_URL: text(HTTP_URL, {
    description: 'Verifies and settles payments on Solana.',
    must: 'an http or https URL',
    unset: 'no payments on Solana',
  }),
  X402_EXPOSURE_USDC: usdc(
    '50',
    'Maximum total of unsettled payments whose calls have already run, and of those lost in the last 24 hours; above it, and with 0 always, payments settle before the call.',
  ),
  X402_BAZAARS: text(URL_LIST, {
    description:
      'Other Bazaars whose resources `/api/x402/apis` lists as theirs: the addresses before `/discovery/resources`.',
    must: 'http or https URLs, separated by commas',
    unset: 'none',
  }),
  COINGECKO_API_KEY: text('^[\\x21-\\x7e]+$', {
    description: 'A demo key of CoinGecko, for a higher limit.',
    must: 'a key without spaces',
    unset: 'without a key, at the lower limit per address',
    secret: true,
  }),
  COINGECKO_BASE: base(DEFAULT_PRICE_SOURCE_SETTINGS.coingecko, 'The first source of prices.'),
  COINBASE_BASE: base(DEFAULT_PRICE_SOURCE_SETTINGS.coinbase, 'Another source of prices.'),
  KRAKEN_BASE: base(DEFAULT_PRICE_SOURCE_SETTINGS.kraken, 'Another source of prices.'),
  BINANCE_BASE: base(DEFAULT_PRICE_SOURCE_SETTINGS.binance, 'Another source of prices.'),
  DEFILLAMA_BASE: base(DEFAULT_PRICE_SOURCE_SETTINGS.defillama, 'Another source of prices.'),
  DEXSCREENER_BASE: base(
    PUBLIC_LIQUIDITY_POOL_API_URLS.dexscreener,
    'The first source of pools and tokens.',
  ),
  GECKOTERMINAL_BASE: base(
    PUBLIC_LIQUIDITY_POOL_API_URLS.geckoterminal,
    'The second source of pools and tokens.',
  ),
  SEARXNG_URL: text(HTTP_URL, {
    description: 'A SearXNG with the format `json` enabled. Web searches try it first.',
    must: 'an http or https URL',
    unset: 'not used',
  }),
  BRAVE_API_KEY: text('^[\\x21-\\x7e]+$', {
    description: 'Searches the web with Brave, after SearXNG.',
    must: 'a key without spaces',
    unset: 'not used',
    secret: true,
  }),
  BRAVE_BASE: base(DEFAULT_SEARCH_ENGINE_URLS.brave, 'The API of Brave.'),
  TAVILY_API_KEY: text('^[\\x21-\\x7e]+$', {
    description: 'Searches the web with Tavily, after Brave.',
    must: 'a key without spaces',
    unset: 'not used',
    secret: true,
  }),
  TAVILY_BASE: base(DEFAULT_SEARCH_ENGINE_URLS.tavily, 'The API of Tavily.'),
  WIKIPEDIA_BASE: base(DEFAULT_SEARCH_ENGINE_URLS.wikipedia, 'Searched without a key.'),
  HACKERNEWS_BASE: base(
    DEFAULT_SEARCH_ENGINE_URLS.hackernews,
    'Searched without a key, for web pages and posts.',
  ),
  STACKEXCHANGE_BASE: base(DEFAULT_SEARCH_ENGINE_URLS.stackexchange, 'Searched without a key.'),
  DUCKDUCKGO_BASE: base(DEFAULT_SEARCH_ENGINE_URLS.duckduckgo, 'Instant answers, without a key.'),
  MASTODON_BASE: base(
    DEFAULT_SOCIAL_PLATFORM_URLS.mastodon,
    'The server whose public tag timelines are read.',
  ),
  BLUESKY_BASE: base(DEFAULT_SOCIAL_PLATFORM_URLS.bluesky, 'The server of the Bluesky account.'),
  BLUESKY_IDENTIFIER: text('^[\\x21-\\x7e]+$', {
    description: 'The account that searches Bluesky.',
    must: 'a handle or an address',
    unset: 'Bluesky is not searched',
  }),
  BLUESKY_APP_PASSWORD: text('^[\\x21-\\x7e]+$', {
    description: 'The app password of `BLUESKY_IDENTIFIER`.',
    must: 'a password without spaces',
    unset: 'Bluesky is not searched',
    secret: true,
  }),
  EMBEDDINGS_URL: text(HTTP_URL, {
    description:
      'An OpenAI-compatible provider of embeddings (`/embeddings`). It adds semantic search.',
    must: 'an http or https URL',
    unset: 'full-text search only',
  }),
  EMBEDDINGS_MODEL: Type.String({
    pattern: ANYTHING,
    default: 'nomic-embed-text',
    description: 'The model requested from `EMBEDDINGS_URL`.',
    must: 'the name of a model',
  }),
  EMBEDDINGS_API_KEY: text(ANYTHING, {
    description: 'Sent to `EMBEDDINGS_URL` as a bearer token.',
    must: 'a key',
    unset: 'none',
    secret: true,
  }),
  LLM_PROVIDERS: text(ANYTHING, {
    description:
      'Language models behind OpenAI-compatible addresses: `[{"id", "base_url", "key_env", "models": [{"id", "in_per_mtok", "out_per_mtok", "quality", "ctx"}]}]`; `key_env` names the variable that holds the key, prices are USD a million tokens.',
    must: 'JSON of this form, whose keys are set',
    unset: 'extractive answers only',
  }),
  LLM_DAILY_BUDGET_USD: usdc(
    '5',
    'Maximum spending on language models per UTC day, over all nodes.',
  ),
  LLM_CALLER_PERCENT: whole(
    1,
    100,
    20,
    'Maximum share of `LLM_DAILY_BUDGET_USD` per agent, and per address, in percent.',
  ),
  SMTP_URL: text(ANYTHING, {
    description: 'The mail server for owner alerts and `email_send`, with user and password.',
    must: 'an smtp:// or smtps:// URL',
    unset: 'no e-mail is sent',
    secret: true,
  }),
  MAIL_FROM: text('^[^\\r\\n]*[^\\s@<>]+@[^\\s@<>]+>?$', {
    description: "The From address of the station's own e-mails.",
    must: 'an address, with or without a name',
    unset: '`gas-station@` and the host of `PUBLIC_URL`',
  }),
  MAIL_FROM_AGENTS: text('^[^\\r\\n]*[^\\s@<>]+@[^\\s@<>]+>?$', {
    description:
      'The From address of e-mails that agents write with `email_send`; never the address of `MAIL_FROM`.',
    must: 'another address than MAIL_FROM, with or without a name',
    unset: 'the address of `MAIL_FROM` with `+agents` before its `@`',
  }),
  TELEGRAM_BOT_TOKEN: text('^[0-9]+:[A-Za-z0-9_-]+$', {
    description: 'The Telegram bot that sends owner alerts.',
    must: 'the token of a bot',
    unset: 'no chat messages are sent',
    secret: true,
  }),
  TELEGRAM_BASE: base('https://api.telegram.org', 'The Telegram Bot API.'),
  CHROMIUM_PATH: text('^(/[^\\r\\n]*|none)$', {
    description: 'The Chromium that renders pages for tools; `none` disables the browser.',
    must: 'an absolute path, or none',
    unset: '`chromium` or `google-chrome` on PATH, if there is one',
  }),
  SANDBOX_MIN_ISOLATION: oneOf(
    ['process', 'unshare', 'bwrap'],
    'process',
    'The weakest isolation that `code_sandbox` accepts.',
  ),
  SSRF_ALLOW: text(ANYTHING, {
    description: 'Private addresses that tools may reach, for tests. Production rejects it.',
    must: 'address:port or address:port-port, several separated by commas',
    unset: 'none',
  }),
  INSPECTOR: Type.Optional(
    Type.Enum(['on', 'off'], {
      description:
        'Shows every machine live and back in time to the operator ([inspector](inspector.md)).',
      must: 'one of on, off',
      unset: 'on outside production',
    }),
  ),
  LOG_LEVEL: oneOf(
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'],
    'info',
    'The lowest level that is logged, as JSON lines.',
  ),
})
