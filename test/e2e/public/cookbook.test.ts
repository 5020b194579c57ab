import t from 'tap'
import { COOKBOOK_RECIPES, listRecipeTools } from '../../../domain/cookbook-recipes.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { startTestPriceApis } from '../../support/upstreams/test-price-apis.ts'
import { startTestSearchApis } from '../../support/upstreams/test-search-apis.ts'

/** The cookbook over HTTP: every recipe runs, and badges are numbered exactly. */

const [prices, search] = await Promise.all([startTestPriceApis(t), startTestSearchApis(t)])
const settings = {
  STARTER_CREDITS_USDC: '20',
  BULK_ONBOARD_MAX: '100',
  COINGECKO_BASE: prices.settings.coingecko,
  COINBASE_BASE: prices.settings.coinbase,
  KRAKEN_BASE: prices.settings.kraken,
  BINANCE_BASE: prices.settings.binance,
  DEFILLAMA_BASE: prices.settings.defillama,
  ...search.settings,
}
const main = await startInProcessTestStation(t, settings)
interface Listed {
  readonly slug: string
  readonly price_usdc: number
  readonly request: { readonly url: string; readonly body: { calls: { tool: string }[] } }
  readonly badges: { readonly awarded: number; readonly of: number }
}
const recipes = async (): Promise<Listed[]> =>
  (await main.ask('GET', '/api/cookbook')).body['recipes'] as Listed[]
const claim = ({ key }: TestAgent, slug: string, station = main) =>
  station.ask('POST', `/api/cookbook/${slug}/claim`, { key })

t.test(
  'each recipe runs as printed for at most its price, and then its badge is given',
  async (t) => {
    const listed = await recipes()
    t.ok(listed.length >= 12)
    for (const { slug, price_usdc: price, request } of listed) {
      const cook = await main.onboard()
      // A review needs something to review.
      for (let call = 0; call < 3; call += 1) await main.call(cook, 'vault_query', { query: 'a' })
      const early = await claim(cook, slug)
      t.match(early, { status: 422, body: { code: 'recipe_not_run' } }, slug)
      t.strictSame(
        [...(early.body['missing_tools'] as string[])].sort(),
        [...new Set(request.body.calls.map(({ tool }) => tool))]
          .filter((tool) => tool !== 'vault_query')
          .sort(),
      )
      const before = await main.balance(cook)
      const path = new URL(request.url).pathname
      const ran = await main.ask('POST', path, { key: cook.key, json: request.body })
      t.equal(ran.status, 200, ran.text.slice(0, 300))
      const results = ran.body['results'] as { ok: boolean }[]
      const allOk = results.every(({ ok }) => ok)
      t.ok(allOk, `${slug}: ${ran.text.slice(0, 400)}`)
      t.equal(results.length, request.body.calls.length)
      const paid = Math.round((before - (await main.balance(cook))) * 1e6) / 1e6
      t.ok(paid <= price, `${slug} cost ${paid} of ${price}`)
      t.match(await claim(cook, slug), { status: 200, body: { number: 1, of: 100 } }, slug)
      const again = await claim(cook, slug)
      t.match(again, { status: 200, body: { number: 1 } }, 'again: the same')
      const { pathname, search: number } = new URL(String(again.body['badge_url']))
      t.match(await main.ask('GET', `${pathname}${number}`), {
        headers: { 'content-type': 'image/svg+xml; charset=utf-8' },
        text: /No\. 1 of 100/,
      })
      const none = await main.ask('GET', `${pathname}?number=2`)
      t.match(none, { status: 404, body: { code: 'badge_not_awarded', awarded: 1 } })
      t.equal((await main.ask('GET', `${pathname}?number=101`)).status, 400)
    }
    t.strictSame(
      (await recipes()).map(({ badges }) => badges),
      listed.map(() => ({ awarded: 1, of: 100 })),
    )
  },
)

t.test(
  'of 64 claims on two nodes at number 100 exactly the free numbers are awarded',
  async (t) => {
    const beside = await startInProcessTestStation(t, settings, { database: main.database })
    const [recipe] = COOKBOOK_RECIPES
    const slug = recipe?.slug ?? ''
    await main.sql`update cookbook_recipes set awarded = 60 where recipe = ${slug}`
    const made = await main.ask('POST', '/api/onboard/bulk', {
      json: { agents: Array.from({ length: 64 }, () => ({ name: 'cook' })) },
    })
    const cooks = (made.body['agents'] as { agent_id: string; api_key: string }[]).map(
      ({ agent_id: id, api_key: key }) => ({ id, key }),
    )
    for (const tool of recipe === undefined ? [] : listRecipeTools(recipe))
      await main.sql`
      insert into calls (at, cost_micros, ms, ghost, call_id, owner, operation, tool, rail, status)
      select now(), 0, 1, false, gen_random_uuid(), a, 'tool', ${tool}, 'free', 'ok'
        from unnest(${cooks.map(({ id }) => id)}::text[]) a`
    const answers = await Promise.all(
      cooks.map((cook, at) => claim(cook, slug, at % 2 === 0 ? main : beside)),
    )
    const numbers = answers.flatMap(({ status, body }) =>
      status === 200 ? [Number(body['number'])] : [],
    )
    t.strictSame(
      numbers.toSorted((a, b) => a - b),
      Array.from({ length: 40 }, (_, at) => 61 + at),
    )
    t.equal(answers.filter(({ body }) => body.code === 'limit_reached').length, 24)
    const badge = await main.ask('GET', `/api/cookbook/${slug}/badge.svg`)
    t.match(badge.text, /100 of 100/)
    t.match((await main.ask('GET', '/api/cookbook/none/badge.svg')).body, {
      code: 'recipe_not_found',
    })
  },
)
