import type { StationTestOverrides } from '../../../app/compose/compose-station.ts'
import { insertArrivedDeposit } from '../payments/insert-test-deposit.ts'
import { startInProcessTestStation, type TestAgent } from '../station/start-test-station.ts'
import { startTestToolBuilderServer } from './test-tool-builder-server.ts'

/** A station with an agent that sells tools, one that buys them with cash, and one with promotional credits only. */

/** The builder's address, and another one. */
export const TOOL_BUILDER_IP_HEADERS = { 'x-forwarded-for': '203.0.113.1' }
const AWAY = { 'x-forwarded-for': '203.0.113.2' }

export const WEATHER_SCHEMAS = {
  input_schema: {
    type: 'object',
    properties: { city: { type: 'string', maxLength: 40, pattern: '^[A-Z]' } },
    required: ['city'],
    additionalProperties: false,
  },
  output_schema: {
    type: 'object',
    properties: { celsius: { type: 'number' } },
    required: ['celsius'],
  },
}

export async function startTestCommunityToolMarket(
  t: Parameters<typeof startInProcessTestStation>[0],
  overrides: StationTestOverrides = {},
  more: Record<string, string> = {},
) {
  const builder = await startTestToolBuilderServer(t)
  const settings = {
    SSRF_ALLOW: `127.0.0.1:${builder.port}`,
    PROMO_TRANSFERABLE: 'true',
    ...more,
  }
  const station = await startInProcessTestStation(t, settings, overrides)
  const { ask } = station

  const [seller, buyer, promoOnly] = [
    await station.onboard(),
    await station.onboard(),
    await station.onboard(),
  ]
  await insertArrivedDeposit(station, buyer.id, 5)
  await station.balance(buyer)

  const tool = (slug: string, path = '/weather') => ({
    slug,
    name: 'Weather now',
    description: 'The temperature of a city.',
    endpoint_url: builder.url(path),
    price_per_call_usdc: 0.01,
    example: { city: 'Rome' },
    ...WEATHER_SCHEMAS,
  })
  const register = (
    who: TestAgent,
    json: object,
    headers: Record<string, string> = TOOL_BUILDER_IP_HEADERS,
  ) => ask('POST', '/api/tools/register', { key: who.key, json, headers })
  const patch = (slug: string, json: object, who = seller) =>
    ask('PATCH', `/api/tools/${slug}`, { key: who.key, json, headers: TOOL_BUILDER_IP_HEADERS })
  const invoke = (who: TestAgent, slug: string, json: object, headers: object = AWAY) =>
    ask('POST', `/api/tools/${slug}/invoke`, { key: who.key, json, headers: { ...headers } })
  const cashOf = async ({ id }: TestAgent): Promise<number> => {
    const [row] = await station.sql<{ cash: bigint }[]>`
      select coalesce(sum(case when credit = ${`agent:${id}:cash`} then amount_micros else -amount_micros end), 0)::bigint
             as cash from transfers
       where ${`agent:${id}:cash`} in (credit, debit)`
    return Number(row?.cash ?? 0n) / 1e6
  }
  /** Registers and proves a tool. */
  async function open(slug: string, path: string, more: object = {}, who = seller) {
    const made = await register(who, { ...tool(slug, path), ...more })
    if (made.status !== 201) throw new Error(made.text)
    builder.tokens.add((made.body['challenge'] as { token: string }).token)
    const { status, text, body } = await ask('PATCH', `/api/tools/${slug}`, {
      key: who.key,
      json: { endpoint_url: builder.url(path), ...more },
      headers: TOOL_BUILDER_IP_HEADERS,
    })
    if (status !== 200) throw new Error(text)
    return { ...made.body, ...body, signing_secret: made.body['signing_secret'] as string }
  }
  return {
    builder,
    station,
    settings,
    ask,
    seller,
    buyer,
    promoOnly,
    tool,
    register,
    patch,
    invoke,
    cashOf,
    open,
  }
}
