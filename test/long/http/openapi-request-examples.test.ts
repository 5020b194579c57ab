import t, { type Test } from 'tap'
import { decideCommunityToolVerificationCommand } from '../../../actors/commands/community-tool-commands.ts'
import { OPENAPI_EXAMPLE_IDS, hasExample } from '../../../http/openapi/openapi-request-examples.ts'
import type {
  OpenApiDocument,
  OpenApiOperation,
  OpenApiParameter,
} from '../../../http/openapi/openapi-document-types.ts'
import { NATIVE_TOOLS } from '../../../tools/tool-catalogue.ts'
import { addFleetMember } from '../../support/agents/create-test-fleets.ts'
import { createWriteRouteFixtures } from '../../support/agents/write-route-fixtures.ts'
import {
  createOpenApiBodyValidator,
  openApiRefByKeys,
  webhookBodyRef,
} from '../../support/http/openapi-body-validator.ts'
import { createScheduleSlotDriver } from '../../support/schedules/make-schedule-slots-due.ts'
import { createAnswerExampleChecker } from '../../support/http/openapi-answer-example-comparison.ts'
import { openSseReader } from '../../support/http/websocket-and-sse-clients.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { seedDataForCatalogueExamples } from '../../support/tools/seed-data-for-tool-examples.ts'
import { startAllTestUpstreams } from '../../support/upstreams/all-test-upstreams.ts'
import { startTestLlmApi } from '../../support/upstreams/test-llm-api.ts'
import {
  fetchWebhookDeliveries,
  registerTestWebhook,
  waitForWebhookDeliveries,
} from '../../support/webhooks/test-webhook-registration-and-deliveries.ts'
import { startWebhookReceivers } from '../../support/webhooks/test-webhook-receivers.ts'

/** Sends every example of the served document, with the ids of real objects, and validates the answers. */

/** Examples that cannot succeed here, and the problem that they get instead. */
const REFUSED: Readonly<Record<string, string>> = {
  // The station has no chain.
  topUp: 'rail_disabled',
  topUpFleet: 'rail_disabled',
  // No payment was made.
  getSettlement: 'settlement_not_found',
  // Nothing answers at the address of the example.
  registerPayableApi: 'not_payable',
  getPayableApi: 'api_not_found',
  verifyPayableApi: 'api_not_found',
  removePayableApi: 'api_not_found',
  // The owner has not connected a chat.
  pingOwner: 'no_owner_contact',
  // No origin shows the token of the agent.
  importTools: 'origin_unproven',
  submitTool: 'tool_not_active',
  // It needs the token of the operator.
  listActors: 'unauthenticated',
}

const OPERATOR_TOKEN = 'o'.repeat(32)
const { RPC_URL_BASE: _chain, ...upstreams } = (await startAllTestUpstreams(t, '')).settings
const models = await startTestLlmApi(t)
const house = await startWebhookReceivers(t)
const main = await startInProcessTestStation(t, {
  ...upstreams,
  LLM_PROVIDERS: models.providers({ small: {} }),
  STARTER_CREDITS_USDC: '10',
  OPERATOR_TOKEN,
})
const self = await main.onboard()
const mate = await main.onboard()
const make = async (key: string | null, path: string, json: object, status = 300) => {
  const reply = await main.ask('POST', path, { key: key ?? undefined, json })
  if (reply.status >= status) throw new Error(`${path} answered ${reply.status}: ${reply.text}`)
  return reply.body
}

const translate = await seedDataForCatalogueExamples(make, self, house.base)
const everything = await registerTestWebhook(main, house, self, '/all')
const owned = await createWriteRouteFixtures(main, self)
await addFleetMember(main, self, owned.fleet, mate)
const { body: document } = (await main.ask('GET', '/openapi.json')) as unknown as {
  body: OpenApiDocument
}
const misfitOf = createOpenApiBodyValidator(document)

interface Documented extends OpenApiOperation {
  readonly method: string
  readonly path: string
}
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]): Documented => ({ ...operation, method, path })),
)
const bodyOf = ({ requestBody }: OpenApiOperation) => requestBody?.content['application/json']
const parametersOf = ({ parameters = [] }: OpenApiOperation) =>
  parameters.filter((one): one is OpenApiParameter => 'name' in one && one.in !== 'header')

/** Tools of the agent that operations act on. */
for (const slug of ['weather-later', 'weather-gone'])
  await make(self.key, '/api/tools/register', {
    slug,
    name: slug,
    description: slug,
    endpoint_url: 'https://agents.example/weather',
    price_per_call_usdc: 0.01,
  })

const ids: Record<string, string> = { ...(await idsOfObjects()) }

/** The objects that the examples act on, by the ids in their place. */
async function idsOfObjects(): Promise<Record<string, string>> {
  const call = await main.call(self, 'hive_trending')
  const { task_id: small } = await make(self.key, '/api/task/start', {
    name: 'x',
    budget_usdc: 0.000_001,
  })
  const refused = await main.call(self, 'hive_trending', {}, { 'x-task-id': small })
  const why = new URL(String(refused.body['why_url']), main.url).pathname
  await eventually(
    async () => (await main.ask('GET', why, { key: self.key })).status === 200,
    'the explanation of the refusal',
  )
  await eventually(
    async () => Number((await main.ask('GET', '/api/attestations/head')).body['tree_size']) > 0,
    'the first head of the tree of fees',
  )
  await make(self.key, '/api/webhook/test', { webhook_id: everything.id })
  await waitForWebhookDeliveries(main, self, everything)
  // Deliveries of earlier calls may come after it.
  const deliveries = await fetchWebhookDeliveries(main, self, everything)
  const delivery = deliveries.find(({ type }) => type === 'test')
  return {
    [OPENAPI_EXAMPLE_IDS.agent]: owned.friend.id,
    [OPENAPI_EXAMPLE_IDS.strategy]: owned.foreignStrategy,
    [OPENAPI_EXAMPLE_IDS.fleet]: owned.fleet,
    [OPENAPI_EXAMPLE_IDS.bounty]: owned.foreignBounty,
    [OPENAPI_EXAMPLE_IDS.listing]: owned.foreignListing,
    [OPENAPI_EXAMPLE_IDS.keyId]: owned.spareKey,
    [OPENAPI_EXAMPLE_IDS.task]: owned.task,
    [OPENAPI_EXAMPLE_IDS.schedule]: owned.schedule,
    [OPENAPI_EXAMPLE_IDS.message]: owned.message,
    [OPENAPI_EXAMPLE_IDS.call]: call.body._meta.call_id,
    [OPENAPI_EXAMPLE_IDS.receipt]: call.body._meta.receipt,
    [OPENAPI_EXAMPLE_IDS.refusal]: why.replace(/^.*\//, ''),
    [OPENAPI_EXAMPLE_IDS.backpack]: owned.backpack,
    [OPENAPI_EXAMPLE_IDS.webhook]: everything.id,
    [OPENAPI_EXAMPLE_IDS.delivery]: String(delivery?.['id']),
    [OPENAPI_EXAMPLE_IDS.apiKey]: owned.friend.key,
    [OPENAPI_EXAMPLE_IDS.dropCode]: owned.drop,
    [OPENAPI_EXAMPLE_IDS.operatorToken]: OPERATOR_TOKEN,
  }
}

/** Objects of their own for operations that end them. */
const OWN_IDS: Readonly<Record<string, Record<string, string>>> = {
  revokeKey: { [OPENAPI_EXAMPLE_IDS.keyId]: owned.keyToRevoke },
  endTask: { [OPENAPI_EXAMPLE_IDS.task]: owned.taskToEnd },
  cancelTask: { [OPENAPI_EXAMPLE_IDS.task]: owned.taskToCancel },
  cancelSchedule: { [OPENAPI_EXAMPLE_IDS.schedule]: owned.scheduleToCancel },
  revokeBackpack: { [OPENAPI_EXAMPLE_IDS.backpack]: owned.backpackToRevoke },
  removeWebhook: { [OPENAPI_EXAMPLE_IDS.webhook]: owned.webhookToDelete },
  withdrawListing: { [OPENAPI_EXAMPLE_IDS.listing]: owned.listingToWithdraw },
  cancelBounty: { [OPENAPI_EXAMPLE_IDS.bounty]: owned.bountyToCancel },
  removeAgentFromFleet: { [OPENAPI_EXAMPLE_IDS.agent]: mate.id },
  changeTool: { 'weather-now': 'weather-later' },
  submitTool: { 'weather-now': 'weather-later' },
  retireTool: { 'weather-now': 'weather-gone' },
  // Named in public since `updateMe`.
  getAgentBadge: { [OPENAPI_EXAMPLE_IDS.agent]: self.id },
  getActorHistory: { [OPENAPI_EXAMPLE_IDS.agent]: self.id },
}
/** Who sends what the owner of the objects cannot. */
const SENDERS: Readonly<Record<string, TestAgent>> = { leaveFleet: owned.friend }

/** A text or the JSON of a body, with real ids. */
function withRealIds(operationId: string, text: string): string {
  const all = { ...ids, ...OWN_IDS[operationId] }
  return Object.entries(all).reduce((done, [id, real]) => done.replaceAll(id, real), text)
}

function addressOf(operation: Documented): string {
  const { operationId, path } = operation
  const query = new URLSearchParams()
  let address = path
  for (const { name, in: place, example } of parametersOf(operation)) {
    if (example === undefined) continue
    const value = withRealIds(operationId, String(example as string | number))
    if (place === 'query') query.set(name, value)
    else address = address.replace(`{${name}}`, encodeURIComponent(value))
  }
  return query.size === 0 ? address : `${address}?${query.toString()}`
}

/** Sends the example of an operation. */
function send(operation: Documented) {
  const { operationId, method } = operation
  const media = bodyOf(operation)
  const example = media?.example ?? Object.values(media?.examples ?? {})[0]?.value
  const json = translate(
    JSON.parse(withRealIds(operationId, JSON.stringify(example ?? {}))) as Record<string, unknown>,
  )
  const key = (SENDERS[operationId] ?? self).key
  const asked = example === undefined ? { key } : { key, json }
  return main.ask(method.toUpperCase(), addressOf(operation), asked)
}

/** Sends an example and validates its answer. */
async function walk(t: Test, operation: Documented): Promise<void> {
  const { operationId, method, path, responses } = operation
  const { status, body, text, headers } = await send(operation)
  const told = `${operationId}: ${status} ${text.slice(0, 300)}`
  const refusal = REFUSED[operationId]
  if (refusal !== undefined) {
    t.equal(body.code, refusal, told)
    t.equal(misfitOf('#/components/schemas/Problem', body), '', told)
    return
  }
  const response = status < 300 ? responses[status] : undefined
  if (response === undefined || '$ref' in response) {
    t.fail(`not a documented success: ${told}`)
    return
  }
  if (operationId === 'exportWallet')
    ids[OPENAPI_EXAMPLE_IDS.wallet] = String(body['wallet_address'])
  const type = String(headers['content-type']).replace(/;.*$/, '')
  if (type !== 'application/json' || response.content?.[type]?.schema === undefined) return
  const keys = ['paths', path, method, 'responses', String(status), 'content', type, 'schema']
  t.equal(misfitOf(openApiRefByKeys(...keys), body), '', told)
  const fault = answerExamples.faultOf(operationId, {
    answer: body,
    shown: response.content[type].example,
    misfitOf: (value) => misfitOf(openApiRefByKeys(...keys), value),
    toExampleId,
  })
  t.equal(fault, null, `the example of ${operationId}`)
}

const answerExamples = createAnswerExampleChecker('http/openapi/answer-examples.json')
/** The ids of examples in the place of those of real objects. */
const toExampleId = (text: string): string =>
  [...Object.entries(ids), [OPENAPI_EXAMPLE_IDS.agent, self.id] as const].reduce(
    (done, [id, real]) => (real === '' ? done : done.replaceAll(real, id)),
    text,
  )

t.test('every body and every parameter that is required has an example', async (t) => {
  const silent = operations.flatMap((operation) => {
    const media = bodyOf(operation)
    const { operationId } = operation
    return [
      ...(media === undefined || hasExample(media) ? [] : [operationId]),
      ...parametersOf(operation)
        .filter(({ required, example }) => required === true && example === undefined)
        .map(({ name }) => `${operationId} ${name}`),
    ]
  })
  t.strictSame(silent, [])
})

t.test('calls of tools show the examples of the catalogue', async (t) => {
  const listed = NATIVE_TOOLS.filter(({ unlisted }) => unlisted !== true)
  const refuel = document.paths['/api/refuel']?.['post']
  const shown = refuel === undefined ? {} : (bodyOf(refuel)?.examples ?? {})
  t.equal(Object.keys(shown).length, listed.length)
  for (const { slug, examples } of listed) {
    const call = { tool: slug, ...(examples[0] as object) }
    t.strictSame(shown[slug]?.value, call, slug)
    const own = document.paths[`/api/t/${slug}`]?.['post']
    t.strictSame(own && bodyOf(own)?.example, examples[0], `${slug} at its own address`)
  }
})

/** A stream of events, or a connection that becomes a WebSocket. */
const isEndless = ({ responses }: Documented): boolean =>
  Object.entries(responses).some(
    ([status, response]) =>
      status === '101' ||
      ('content' in response && response.content?.['text/event-stream'] !== undefined),
  )

t.test('every example succeeds, and its answer is as documented', async (t) => {
  let sent = 0
  for (const operation of operations) {
    // The examples of single tools are those of the catalogue, and a stream of signals has no end.
    if (operation['x-tool'] !== undefined) continue
    if (operation.method === 'get' && isEndless(operation)) continue
    await walk(t, operation)
    sent += 1
  }
  t.ok(sent > 150, `${sent} examples`)
  answerExamples.save()
  const known = new Set(operations.map(({ operationId }) => operationId))
  for (const table of [REFUSED, OWN_IDS, SENDERS])
    for (const id of Object.keys(table)) t.ok(known.has(id), `${id} is an operation`)
})

t.test('the example of a stream opens it', async (t) => {
  const stream = operations.find(({ operationId }) => operationId === 'streamSignals')
  if (stream === undefined) throw new Error('no stream')
  const reader = await openSseReader(t, `${main.url}${addressOf(stream)}`, self.key)
  t.match(reader, { status: 200, type: /^text\/event-stream/ })
  reader.close()
})

t.test('deliveries are as the section `webhooks` says', async (t) => {
  const gift = { to_agent_id: self.id, amount_usdc: 0.01 }
  await make(owned.friend.key, '/api/tip', gift)
  await make(owned.friend.key, '/api/messages', { to: self.id, message: 'The report is ready.' })
  await main.call(owned.friend, 'agent_ping', { target_agent_id: self.id, message: 'hello' })
  // A run of a schedule, and one that has lost its key.
  const { key_id: keyId, api_key: spare } = await make(self.key, '/api/keys', {
    scopes: ['tasks', 'tools', 'read'],
  })
  const plan = { interval: '5m', tool: 'hive_trending' }
  const { schedule_id: ran } = await make(self.key, '/api/task/schedule', plan)
  await make(String(spare), '/api/task/schedule', plan)
  await createScheduleSlotDriver(t, main.database).pass(String(ran))
  await main.ask('DELETE', `/api/keys/${String(keyId)}`, { key: self.key })
  // The operator reviews a tool that it sells.
  const verdict = { accepted: false, reason: 'The description names another city.' }
  await main.station.actors.ask(
    'tool:weather-later',
    decideCommunityToolVerificationCommand,
    verdict,
  )
  // Another webhook that is gone.
  house.answers('/gone', 410)
  await registerTestWebhook(main, house, self, '/gone', ['tool_call'])
  await main.call(self, 'hive_trending')
  const wanted = [
    ...['tool_call', 'topup', 'agent_ping', 'bounty_received', 'backpack.created'],
    ...['schedule.result', 'schedule.paused', 'tool.judged', 'webhook.disabled'],
  ]
  const types = () => new Set(house.got.map(({ type }) => type))
  await house.until(() => wanted.every((type) => types().has(type)), wanted.join())
  // The registry has probed the same server without a body.
  for (const { type, body } of house.got.filter((one) => one.body !== ''))
    t.equal(misfitOf(webhookBodyRef(type), JSON.parse(body)), '', body)
  await main.verify()
})
