import { settle, type Said } from '../../test/support/examples.ts'
import { balanceOf, credits, usdc, type Agent, type Day } from './day.ts'
import type { Answer, Meta } from './door.ts'
import { chapter, insist, tell } from './telling.ts'

const FEWEST = 20

interface Entry {
  readonly slug: string
  readonly example_calls: readonly Said[]
}
interface Served extends Meta {
  readonly mode: string
  readonly provider: string | null
  readonly waived?: string
}
type Reply = Said & { readonly _meta: Served }

/** The first example of every tool there is, asked by one agent. */
export async function scoutTriesAll(day: Day, scout: Agent): Promise<void> {
  chapter(
    'scout tries every tool: `embedded` is the station itself, `fixture` a stand-in beside it',
  )
  const translate = await settle(actOf(day), scout, day.world.site)
  const { body } = await day.ask<{ tools: readonly Entry[] }>(200, 'GET /api/tools')
  const { balance_usdc: before } = await balanceOf(day, scout)
  const count: Record<string, number> = {}
  let paid = 0
  for (const { slug, example_calls: examples } of body.tools) {
    const [example = {}] = examples
    const json = { ...translate(example), tool: slug }
    const answer = await day.ask<Reply>(200, 'POST /api/refuel', { key: scout.key, json })
    const { how, said } = served(answer)
    const { cost_usdc: cost, balance_usdc: left } = answer.body._meta
    tell({ call: slug, status: 200, said, cost, left: credits(left) })
    count[how] = (count[how] ?? 0) + 1
    paid = usdc(paid + cost)
  }
  const { balance_usdc: after } = await balanceOf(day, scout)
  insist(usdc(before - after) === paid, 'what was told is what was paid', { before, after, paid })
  insist(body.tools.length >= FEWEST, `at least ${FEWEST} tools answer`, body.tools.length)
  const said = Object.entries(count).map(([how, many]) => `${many} ${how}`)
  tell({ call: `${body.tools.length} tools`, said: said.join(', '), cost: paid })
}

const actOf =
  ({ ask }: Day) =>
  async (key: string | null, path: string, json: object): Promise<Said> => {
    const status = path === '/api/onboard' ? 201 : 200
    return (await ask<Said>(status, `POST ${path}`, { ...(key === null ? {} : { key }), json }))
      .body
  }

/** Who answered and how, by what the answer itself says. */
function served({ body }: Answer<Reply>): { how: string; said: string } {
  const { mode, provider, waived } = body._meta
  const how = mode === 'native' ? 'embedded' : mode
  const ways = ['method', 'engine', 'isolation'].map((name) => body[name])
  const by = [provider, ...ways].filter((one) => typeof one === 'string')
  const free = waived === undefined ? [] : [`waived: ${waived}`]
  return { how, said: [...new Set([how, ...by, ...free])].join(', ') }
}
