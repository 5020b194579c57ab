import t, { type Test } from 'tap'
import { startLocalBase } from '../../support/chain/local-chain.ts'
import { NATIVE_TOOLS } from '../../../tools/tool-catalogue.ts'
import {
  seedDataForCatalogueExamples,
  type ExampleJson,
} from '../../support/tools/seed-data-for-tool-examples.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  isToolOutputSseFrame,
  isProgressEventOfStep,
  openRefuelStream,
} from '../../support/http/refuel-stream-test-reader.ts'
import { startTestLlmApi } from '../../support/upstreams/test-llm-api.ts'
import { startAllTestUpstreams } from '../../support/upstreams/all-test-upstreams.ts'

/** A tool delivers only after its charge has committed (decision 149), as read from the database. */

const base = await startLocalBase()
t.teardown(() => base.stop())
const here = await startAllTestUpstreams(t, base.rpcUrl)
const models = await startTestLlmApi(t)
const on = await startInProcessTestStation(t, {
  ...here.settings,
  LLM_PROVIDERS: models.providers({ small: {} }),
  STARTER_CREDITS_USDC: '10',
  PATH: process.env['PATH'] ?? '',
})
const self = await on.onboard()
// Promotional credits send no mail (decision 373).
await insertArrivedDeposit(on, self.id, 2)
await on.balance(self)
const translate = await seedDataForCatalogueExamples(
  async (key, path, json) => {
    const { status, body, text } = await on.ask('POST', path, { key: key ?? undefined, json })
    if (status >= 300) throw new Error(`${path} answered ${status}: ${text}`)
    return body
  },
  self,
  here.site,
)

/** Those that deliver something before their result. */
const DELIVERING: ReadonlySet<string> = new Set([
  'agent_act',
  'code_sandbox',
  'deep_search',
  'hallucination_pill',
  'llm_routing',
  'onchain_insight',
  'social_oracle',
  'wallet_investigate',
  'web_search',
])

const isKept = async (callId: unknown): Promise<boolean> =>
  (await on.sql`select from calls where call_id = ${String(callId)}`).length === 1

/**
 * Streams a call while no row of calls can be written, until the tool has ended: nothing of what it
 * delivers has come by then. Then the row may be written, and has been when the first piece comes.
 */
async function watched(t: Test, told: string, json: ExampleJson): Promise<boolean> {
  const begun = await on.sql.begin(async (tx) => {
    await tx`lock table calls in share row exclusive mode`
    const stream = await openRefuelStream(on, self, json)
    const ended = await stream.until(
      (frame) =>
        isProgressEventOfStep('settle')(frame) || ['error', 'result', 'done'].includes(frame.event),
    )
    t.ok(
      ended !== undefined && isProgressEventOfStep('settle')(ended),
      `${told} runs to its charge`,
    )
    t.strictSame(
      stream.frames.filter(isToolOutputSseFrame),
      [],
      `${told} has delivered nothing yet`,
    )
    t.notOk(await isKept(stream.frames[0]?.data['call_id']), told)
    return stream
  })
  const callId = begun.frames[0]?.data['call_id']
  const first = await begun.until(
    (frame) => isToolOutputSseFrame(frame) || frame.event === 'result',
  )
  t.ok(await isKept(callId), `${told} is in the ledger when its first piece comes`)
  await begun.rest()
  t.equal(begun.frames.at(-2)?.event, 'result', told)
  return first !== undefined && isToolOutputSseFrame(first)
}

t.test('no tool of the catalogue delivers anything before its charge has committed', async (t) => {
  const delivering = new Set<string>()
  for (const { slug, examples } of NATIVE_TOOLS) {
    for (const example of examples as ExampleJson[]) {
      const json = { tool: slug, ...translate(example) }
      const told = `${slug} ${JSON.stringify(example)}`
      if (await watched(t, told, json)) delivering.add(slug)
    }
  }
  t.strictSame([...delivering].sort(), [...DELIVERING].sort())
  await on.verify()
})

t.test('partial results of a failed tool are not delivered', async (t) => {
  models.behaviours['small'] = 'cut'
  const before = await on.balance(self)
  const stream = await openRefuelStream(on, self, { tool: 'llm_routing', prompt: 'a word or two' })
  await stream.rest()
  t.match(stream.frames.at(-2), { event: 'error', data: { refunded: true } })
  t.strictSame(stream.frames.filter(isToolOutputSseFrame), [])
  t.equal(await on.balance(self), before)
})
