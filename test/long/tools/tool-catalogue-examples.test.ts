import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TSchema } from 'typebox'
import t, { type Test } from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { toUsdc } from '../../../core/money.ts'
import { startLocalBase } from '../../support/chain/local-chain.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { NATIVE_TOOLS, RESERVED_OUTPUT_FIELDS } from '../../../tools/tool-catalogue.ts'
import type { CatalogueEntry } from '../../../tools/tool-ports.ts'
import { toToolOpenApiComponentNames } from '../../../http/openapi/openapi-tool-schemas.ts'
import { findChromium } from '../../../providers/browser/find-chromium.ts'
import { compileSchemaValidator } from '../../../tools/schema-validator.ts'
import type { TestReplyBody } from '../../support/http/test-http-client.ts'
import {
  seedDataForCatalogueExamples,
  type ExampleAgentCredentials,
  type ExampleJson,
} from '../../support/tools/seed-data-for-tool-examples.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import type { OpenApiDocument } from '../../../http/openapi/openapi-document-types.ts'
import { createAnswerExampleChecker } from '../../support/http/openapi-answer-example-comparison.ts'
import {
  createOpenApiBodyValidator,
  openApiRefByKeys,
} from '../../support/http/openapi-body-validator.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { startTestLlmApi } from '../../support/upstreams/test-llm-api.ts'
import { startAllTestUpstreams } from '../../support/upstreams/all-test-upstreams.ts'

interface Specified {
  readonly slug: string
  readonly access: string
  readonly price_usdc: number
}

/** The price and the access of each tool, kept apart from the code. */
const { tools: SPECIFIED } = JSON.parse(
  readFileSync(join(REPOSITORY_ROOT, 'test/fixtures/spec-tools.json'), 'utf8'),
) as { tools: readonly Specified[] }

const base = await startLocalBase()
t.teardown(() => base.stop())
const here = await startAllTestUpstreams(t, base.rpcUrl)
const models = await startTestLlmApi(t)
const chromium = findChromium(null, process.env['PATH'] ?? '')
let later = 0
/** The `engine` of each answer that read or acted on a page. */
const engines = new Map<string, unknown[]>()
const clock = createDatabaseAdjustedClock()
const on = await startInProcessTestStation(
  t,
  {
    ...here.settings,
    LLM_PROVIDERS: models.providers({ small: {} }),
    CHROMIUM_PATH: chromium ?? 'none',
    STARTER_CREDITS_USDC: '10',
  },
  { clock: { ...clock, mono: () => clock.mono() + later } },
)
const { ask, onboard, balance } = on

const self = await onboard()
// Promotional credits send no mail (decision 373).
await insertArrivedDeposit(on, self.id, 2)
await balance(self)
const translate = await seedDataForCatalogueExamples(
  async (key, path, json) => {
    const { status, body, text } = await ask('POST', path, { key: key ?? undefined, json })
    if (status >= 300) throw new Error(`${path} answered ${status}: ${text}`)
    return body
  },
  self,
  here.site,
)

const { body: document } = (await ask('GET', '/openapi.json')) as unknown as {
  body: OpenApiDocument
}
const misfitOf = createOpenApiBodyValidator(document)
const answerExamples = createAnswerExampleChecker('http/openapi/tool-answer-examples.json')

const listed = async () => {
  const { status, body } = await ask('GET', '/api/tools')
  if (status !== 200) throw new Error(`the catalogue answered ${status}`)
  return body['tools'] as readonly CatalogueEntry[]
}

/** Actual costs that differ from the list price: the first vault writes and listing watches are free. */
function chargeOf({ slug, price_usdc }: Specified, example: ExampleJson): number {
  if (slug === 'vault_write') return 0
  return slug === 'hive_watch' && example['action'] !== 'subscribe' ? 0 : price_usdc
}

const RESERVED = new Set<string>(RESERVED_OUTPUT_FIELDS)
const ownFields = (body: TestReplyBody) =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !RESERVED.has(name)))

t.test('every specified tool is listed with its price and access', async (t) => {
  const entries = new Map((await listed()).map((entry) => [entry.slug, entry]))
  t.equal(SPECIFIED.length, 38)
  for (const { slug, access, price_usdc } of SPECIFIED) {
    const entry = entries.get(slug)
    t.strictSame(
      [entry?.access, entry?.price_usdc, entry?.type],
      [access, price_usdc, 'native'],
      slug,
    )
    t.match(entry?.availability, { available: true, mode: String, requires: Array }, slug)
  }
  const specified = new Set(SPECIFIED.map(({ slug }) => slug))
  const more = [...entries.keys()].filter((slug) => !specified.has(slug))
  t.strictSame(more, [], 'and no other')
})

interface Example {
  readonly tool: string
  readonly example: ExampleJson
  readonly takes: unknown
  readonly gives: unknown
  readonly cost: number
  /** The operation of the tool shows its answer. */
  readonly isShown: boolean
}

/** Says what is wrong with the example of an answer in the operation of a tool. */
function exampleFaultOf(tool: string, example: ExampleJson, answer: unknown): string | null {
  const path = `/api/t/${tool}`
  const response = document.paths[path]?.['post']?.responses['200']
  const content = response === undefined || '$ref' in response ? undefined : response.content
  const keys = ['paths', path, 'post', 'responses', '200', 'content', 'application/json', 'schema']
  return answerExamples.faultOf(tool, {
    answer,
    shown: content?.['application/json']?.example,
    misfitOf: (value) => misfitOf(openApiRefByKeys(...keys), value),
    toExampleId: (text) => text.replaceAll(here.site, websiteOf(example)),
  })
}

/** The website of an example, in the place of that of the test. */
const websiteOf = (example: ExampleJson): string =>
  /https?:\/\/[\w.-]+/.exec(JSON.stringify(example))?.[0] ?? 'https://agents.example'

/** Runs one example, checks its answer and price, and returns the remaining balance. */
async function walk(
  t: Test,
  self: ExampleAgentCredentials,
  left: number,
  one: Example,
): Promise<number> {
  const { tool, example, takes, gives, cost } = one
  const told = `${tool} ${JSON.stringify(example)}`
  t.strictSame(compileSchemaValidator(takes as TSchema)(example), [], `${told} fits its schema`)
  const json = { tool, ...translate(example) }
  const { status, body, text } = await ask('POST', '/api/refuel', { key: self.key, json })
  if (status !== 200) {
    t.fail(`${told} answers ${status}: ${text}`)
    return left
  }
  engines.set(tool, [...(engines.get(tool) ?? []), body['engine']])
  const misfits = compileSchemaValidator(gives as TSchema)(ownFields(body))
  t.strictSame(misfits, [], `${told} answers as its schema says`)
  const { call, reply } = toToolOpenApiComponentNames(tool)
  t.equal(
    misfitOf(`#/components/schemas/${call}`, { tool, ...example }),
    '',
    `${told} is documented`,
  )
  t.equal(misfitOf(`#/components/schemas/${reply}`, body), '', `${told} answers as documented`)
  if (one.isShown)
    t.equal(exampleFaultOf(tool, example, body), null, `the answer that ${tool} shows`)
  const due = Math.round((left - cost) * 1e6) / 1e6
  t.match(body._meta, { cost_usdc: cost, balance_usdc: due }, `${told} costs ${cost}`)
  return body._meta.balance_usdc ?? NaN
}

t.test('every example runs, matches its output schema and costs its price', async (t) => {
  let left = await balance(self)
  const entries = await listed()
  for (const specified of SPECIFIED) {
    const entry = entries.find(({ slug }) => slug === specified.slug)
    if (entry === undefined) t.fail(`${specified.slug} is missing`)
    for (const [at, { tool, ...example }] of (entry?.example_calls ?? []).entries()) {
      const cost = chargeOf(specified, example)
      const [takes, gives] = [entry?.input_schema, entry?.output_schema]
      const shown = { tool: String(tool), example, isShown: at === 0 }
      left = await walk(t, self, left, { ...shown, takes, gives, cost })
    }
  }
  answerExamples.save()
  t.equal(await balance(self), left)
  t.equal(here.mails.length, 1, 'a letter was sent')
  await on.verify()
})

t.test('examples of operations with their own endpoint do too', async (t) => {
  let left = await balance(self)
  for (const { slug: tool, input: takes, output: gives, ...one } of NATIVE_TOOLS) {
    if (one.unlisted !== true) continue
    for (const example of one.examples as ExampleJson[]) {
      const price = typeof one.price === 'function' ? one.price(example) : one.price
      const cost = toUsdc(price)
      left = await walk(t, self, left, { tool, example, takes, gives, cost, isShown: false })
    }
  }
  t.equal(await balance(self), left)
  await on.verify()
})

t.test(
  'Chromium renders pages written by scripts and submits their forms',
  { skip: chromium === null ? 'no Chromium on this machine' : false },
  async (t) => {
    t.strictSame(engines.get('agent_see'), ['http', 'browser'])
    t.strictSame(engines.get('agent_act'), ['browser', 'browser'])
  },
)

t.test('success rates and latencies in the catalogue are measured', async (t) => {
  later += 60_000
  const called = async () => (await listed()).filter((one) => one.success_rate !== null)
  // Older figures are shown until newer ones are there: those know the last tool too.
  const last = SPECIFIED.at(-1)?.slug
  await eventually(async () => (await called()).some(({ slug }) => slug === last), 'figures')
  for (const { slug, success_rate, avg_latency_ms } of await called()) {
    t.equal(success_rate, 1, slug)
    t.ok(Number.isInteger(avg_latency_ms) && (avg_latency_ms ?? -1) >= 0, slug)
  }
  const measured = (await called()).map(({ slug }) => slug)
  t.strictSame(
    SPECIFIED.map(({ slug }) => slug).filter((slug) => !measured.includes(slug)),
    [],
    'every tool has been measured',
  )
})
