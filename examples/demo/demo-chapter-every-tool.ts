import {
  seedDataForCatalogueExamples,
  type ExampleJson,
} from '../../test/support/tools/seed-data-for-tool-examples.ts'
import {
  readDemoBalance,
  formatCredits,
  roundUsdc,
  type DemoAgent,
  type DemoContext,
} from './demo-context.ts'
import type { DemoReply, DemoCallMeta } from './demo-api-client.ts'
import {
  printChapterTitle,
  assertDemoExpectation,
  printDemoOutputLine,
} from './demo-console-output.ts'

/** Demo chapter: one agent calls the first example of every tool. */

const MIN_TOOLS = 20

interface CatalogueItem {
  readonly slug: string
  readonly example_calls: readonly ExampleJson[]
}
interface ToolCallMeta extends DemoCallMeta {
  readonly mode: string
  readonly provider: string | null
  readonly waived?: string
}
type ToolReply = ExampleJson & { readonly _meta: ToolCallMeta }

/** Calls every tool of the catalogue. */
export async function runDemoEveryToolChapter(demo: DemoContext, scout: DemoAgent): Promise<void> {
  printChapterTitle(
    'scout calls every tool: `embedded` is the station itself, `fixture` a local test server',
  )
  const translate = await seedDataForCatalogueExamples(
    exampleRequester(demo),
    scout,
    demo.environment.site,
  )
  const { body } = await demo.request<{ tools: readonly CatalogueItem[] }>(200, 'GET /api/tools')
  const { balance_usdc: before } = await readDemoBalance(demo, scout)
  const count: Record<string, number> = {}
  let paid = 0
  for (const { slug, example_calls: examples } of body.tools) {
    const [example = {}] = examples
    const json = { ...translate(example), tool: slug }
    const answer = await demo.request<ToolReply>(200, 'POST /api/refuel', { key: scout.key, json })
    const { how, said: result } = describeProvider(answer)
    const { cost_usdc: cost, balance_usdc: left } = answer.body._meta
    printDemoOutputLine({ call: slug, status: 200, result, cost, remaining: formatCredits(left) })
    count[how] = (count[how] ?? 0) + 1
    paid = roundUsdc(paid + cost)
  }
  const { balance_usdc: after } = await readDemoBalance(demo, scout)
  assertDemoExpectation(roundUsdc(before - after) === paid, 'what was told is what was paid', {
    before,
    after,
    paid,
  })
  assertDemoExpectation(
    body.tools.length >= MIN_TOOLS,
    `at least ${MIN_TOOLS} tools answer`,
    body.tools.length,
  )
  const said = Object.entries(count).map(([how, many]) => `${many} ${how}`)
  printDemoOutputLine({ call: `${body.tools.length} tools`, result: said.join(', '), cost: paid })
}

const exampleRequester =
  ({ request }: DemoContext) =>
  async (key: string | null, path: string, json: object): Promise<ExampleJson> => {
    const status = path === '/api/onboard' ? 201 : 200
    return (
      await request<ExampleJson>(status, `POST ${path}`, { ...(key === null ? {} : { key }), json })
    ).body
  }

/** The provider and mode that the response reports. */
function describeProvider({ body }: DemoReply<ToolReply>): { how: string; said: string } {
  const { mode, provider, waived } = body._meta
  const how = mode === 'native' ? 'embedded' : mode
  const ways = ['method', 'engine', 'isolation'].map((name) => body[name])
  const by = [provider, ...ways].filter((one) => typeof one === 'string')
  const free = waived === undefined ? [] : [`waived: ${waived}`]
  return { how, said: [...new Set([how, ...by, ...free])].join(', ') }
}
