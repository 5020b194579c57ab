import { checkMailServer } from '../../providers/mail/check-mail-server.ts'
import { examineRedis } from '../../persistence/redis/examine-redis.ts'
import { describeRedis, parseRedisUrl } from '../../persistence/redis/redis-address.ts'
import type { Config } from '../config.ts'
import type { SecretString } from '../secret-string.ts'
import { failed, ok, reasonOf, warning, type Check, type Finding } from './run-checks.ts'

/** Checks of the services that the settings name. */

export function listServiceChecks(config: Config): Check[] {
  const { mail, telegram, llm, embeddings, search, chain } = config
  const checks: (Check | null)[] = [
    config.redisUrl === null ? null : redisCheck(config.redisUrl),
    ...rpcChecks(config),
    httpCheck('X402_FACILITATOR_URL', chain.facilitatorUrl, (url) => `${url}/supported`),
    mail.url === null ? null : mailCheck(mail.url),
    telegram.token === null ? null : telegramCheck(telegram.base, telegram.token),
    ...llm.providers.map(({ id, baseUrl, key }) =>
      httpCheck(`LLM_PROVIDERS ${id}`, baseUrl, (url) => `${url}/models`, bearer(key)),
    ),
    httpCheck('EMBEDDINGS_URL', embeddings.url, (url) => `${url}/models`, bearer(embeddings.key)),
    httpCheck('SEARXNG_URL', search.searxng, (url) => `${url}/search?q=gas&format=json`),
    search.braveKey === null
      ? null
      : httpCheck(
          'BRAVE_API_KEY',
          search.brave,
          (url) => `${url}/res/v1/web/search?q=gas&count=1`,
          {
            'x-subscription-token': search.braveKey.reveal(),
          },
        ),
    search.tavilyKey === null
      ? null
      : httpCheck(
          'TAVILY_API_KEY',
          search.tavily,
          (url) => `${url}/usage`,
          bearer(search.tavilyKey),
        ),
  ]
  return checks.filter((check) => check !== null)
}

const bearer = (key: { reveal(): string } | null): Record<string, string> =>
  key === null ? {} : { authorization: `Bearer ${key.reveal()}` }

const redisCheck = (url: SecretString): Check => ({
  setting: 'REDIS_URL',
  async run() {
    const address = parseRedisUrl(url.reveal())
    const { version, eviction } = await examineRedis(address)
    const says = `Redis ${version} at ${describeRedis(address)}`
    if (eviction === null) return ok(`${says}; its eviction policy cannot be read`)
    return eviction === 'noeviction'
      ? ok(`${says}, noeviction`)
      : warning(`${says}: maxmemory-policy is ${eviction}, and jobs need noeviction`)
  },
})

/** The chains by setting. Addresses of nodes hold keys, so none is shown. */
const CHAIN_IDS: Readonly<Record<string, number>> = {
  base: 8453,
  bsc: 56,
  tempo: 4217,
  ethereum: 1,
  arbitrum: 42_161,
  optimism: 10,
  polygon: 137,
}

function rpcChecks({ chain, reads }: Config): Check[] {
  const urls = { ...reads, ...chain.rpc }
  return Object.entries(urls).flatMap(([name, secret]) => {
    const setting = `RPC_URL_${name.toUpperCase()}`
    const nodes = secret?.reveal().split(',') ?? []
    return nodes.map((url, at) => ({
      setting: nodes.length > 1 ? `${setting} (${at + 1})` : setting,
      run: (signal: AbortSignal) => askNode(url.trim(), CHAIN_IDS[name] ?? null, signal),
    }))
  })
}

async function askNode(
  url: string,
  expected: number | null,
  signal: AbortSignal,
): Promise<Finding> {
  const method = expected === null ? 'getVersion' : 'eth_chainId'
  const { origin, pathname, search, username, password } = new URL(url)
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const answer = await fetch(`${origin}${pathname}${search}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(username === ''
        ? {}
        : { authorization: `Basic ${Buffer.from(login).toString('base64')}` }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: [] }),
    signal,
  })
  const body = (await answer.json().catch(() => null)) as { result?: unknown } | null
  if (body?.result === undefined) return failed(`answers ${answer.status} without a result`)
  if (expected === null) return ok('answers')
  const found = Number(body.result)
  return found === expected
    ? ok(`chain ${found}`)
    : failed(`is a node of chain ${found}, not of ${expected}`)
}

const mailCheck = (url: SecretString): Check => ({
  setting: 'SMTP_URL',
  async run() {
    await checkMailServer(url.reveal())
    return ok('connects and logs in')
  },
})

const telegramCheck = (base: string, token: SecretString): Check => ({
  setting: 'TELEGRAM_BOT_TOKEN',
  async run(signal) {
    const answer = await fetch(`${base}/bot${token.reveal()}/getMe`, { signal })
    const body = (await answer.json().catch(() => null)) as TelegramAnswer | null
    if (body?.ok === true) return ok(`is the bot ${body.result?.username ?? ''}`)
    return failed(answer.status === 401 ? 'the token is refused' : `answers ${answer.status}`)
  },
})

interface TelegramAnswer {
  readonly ok?: boolean
  readonly result?: { readonly username?: string }
}

/** Null without an address. */
function httpCheck(
  setting: string,
  base: string | null,
  toUrl: (base: string) => string,
  headers: Record<string, string> = {},
): Check | null {
  if (base === null) return null
  return {
    setting,
    async run(signal) {
      const answer = await fetch(toUrl(base), { headers, signal }).catch((error: unknown) =>
        reasonOf(error),
      )
      if (typeof answer === 'string') return failed(`${new URL(base).host}: ${answer}`)
      await answer.body?.cancel()
      if (answer.ok) return ok(`${new URL(base).host} answers`)
      const says = `${new URL(base).host} answers ${answer.status}`
      const isRefused = [401, 402, 403].includes(answer.status) || answer.status >= 500
      return isRefused ? failed(says) : warning(says)
    },
  }
}
