import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type {
  OpenApiDocument,
  OpenApiOperation,
} from '../../../http/openapi/openapi-document-types.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import {
  createOpenApiBodyValidator,
  openApiRefByKeys,
} from '../../support/http/openapi-body-validator.ts'
import type { TestReply } from '../../support/http/test-http-client.ts'
import { openSseReader } from '../../support/http/websocket-and-sse-clients.ts'
import { AGENT_AND_FUND_API_CONFORMANCE_CASES } from '../../support/api-conformance/agent-and-fund-api-conformance-cases.ts'
import { DISCOVERY_API_CONFORMANCE_CASES } from '../../support/api-conformance/discovery-api-conformance-cases.ts'
import { MEMORY_API_CONFORMANCE_CASES } from '../../support/api-conformance/memory-api-conformance-cases.ts'
import { PUBLIC_API_CONFORMANCE_CASES } from '../../support/api-conformance/public-api-conformance-cases.ts'
import { REALTIME_API_CONFORMANCE_CASES } from '../../support/api-conformance/realtime-api-conformance-cases.ts'
import {
  readJsonFieldByPath,
  resolveConformanceCaseValue,
  withoutRouteParameterNames,
  type ApiConformanceCase,
} from '../../support/api-conformance/api-conformance-case.ts'
import { API_CONFORMANCE_REFUSALS } from '../../support/api-conformance/api-conformance-refusals.ts'
import { startApiConformanceStation } from '../../support/api-conformance/start-api-conformance-station.ts'
import { WORK_API_CONFORMANCE_CASES } from '../../support/api-conformance/bounty-task-schedule-conformance-cases.ts'

/** Every operation of the specified interface stands in the document and answers as specified. */

const SECTIONS: Readonly<Record<string, readonly ApiConformanceCase[]>> = {
  'agents, payment and funds': AGENT_AND_FUND_API_CONFORMANCE_CASES,
  'discovery, tools, strategies': DISCOVERY_API_CONFORMANCE_CASES,
  'Hive, vault, packs': MEMORY_API_CONFORMANCE_CASES,
  'bounties, tasks, schedules': WORK_API_CONFORMANCE_CASES,
  'signals, messages, webhooks, Backpacks': REALTIME_API_CONFORMANCE_CASES,
  'public endpoints': PUBLIC_API_CONFORMANCE_CASES,
}

const { specified } = JSON.parse(
  readFileSync(join(REPOSITORY_ROOT, 'test/fixtures/spec-routes.json'), 'utf8'),
) as { specified: { method: string; path: string; auth: 'none' | 'optional' | 'key' }[] }
const authOf = new Map(
  specified.map(({ method, path, auth }) => [
    withoutRouteParameterNames(`${method} ${path}`),
    auth,
  ]),
)

const world = await startApiConformanceStation(t)
const { main } = world
const { body } = await main.ask('GET', '/api/openapi.json')
const document = body as unknown as OpenApiDocument
const misfitOf = createOpenApiBodyValidator(document)

interface DocumentedOperation {
  readonly path: string
  readonly method: string
  readonly operation: OpenApiOperation
}
const documented = new Map(
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]): [string, DocumentedOperation] => [
      withoutRouteParameterNames(`${method.toUpperCase()} ${path}`),
      { path, method, operation },
    ]),
  ),
)

t.test('the table has every operation of the specification', async (t) => {
  const asked = Object.values(SECTIONS).flatMap((requests) =>
    requests.map(({ at }) => withoutRouteParameterNames(at)),
  )
  t.strictSame([...new Set(asked)].toSorted(), [...authOf.keys()].toSorted())
})

t.test('every operation of the specification stands in the document', async (t) => {
  for (const at of authOf.keys()) t.ok(documented.has(at), at)
})

for (const [section, requests] of Object.entries(SECTIONS))
  t.test(section, async (t) => {
    for (const request of requests) await walk(t, request)
  })

t.test('what the specification refuses is refused as it says', async (t) => {
  for (const { what, send, status, body = {} } of API_CONFORMANCE_REFUSALS) {
    const reply = await send(world)
    t.match(reply, { status, body }, `${what}: ${reply.status} ${reply.text.slice(0, 300)}`)
    t.equal(misfitOf('#/components/schemas/Problem', reply.body), '', what)
  }
})

t.test('gas verify finds no difference afterwards', () => main.verify())

/** Sends a request of the table, without a key first where one is needed, and checks the answer. */
async function walk(t: Test, request: ApiConformanceCase): Promise<void> {
  const at = withoutRouteParameterNames(request.at)
  await request.before?.(world)
  if (authOf.get(at) === 'key') {
    const { status } = await send(request, null)
    t.equal(status, 401, `${request.at} without a key`)
  }
  const sender = request.as ?? (authOf.get(at) === 'key' ? 'self' : 'nobody')
  const key = sender === 'nobody' ? null : world[sender].key
  if (request.endless === true) return assertStream(t, request, key)
  const reply = await send(request, key)
  assertAnswer(t, request, reply)
  for (const [name, field] of Object.entries(request.keeps ?? {}))
    world.ids[name] = String(readJsonFieldByPath(reply.body, field))
}

const addressOf = (request: ApiConformanceCase): string =>
  resolveConformanceCaseValue(request.path ?? request.at.replace(/^\w+ /, ''), world)

function send(request: ApiConformanceCase, key: string | null): Promise<TestReply> {
  const [method = 'GET'] = request.at.split(' ')
  return main.ask(method, addressOf(request), {
    key: key ?? undefined,
    headers: resolveConformanceCaseValue(request.headers ?? {}, world),
    ...(request.body === undefined
      ? {}
      : { json: resolveConformanceCaseValue(request.body, world) }),
  })
}

/** The status, the media type, the documented schema, and the fields and values of the specification. */
function assertAnswer(t: Test, request: ApiConformanceCase, reply: TestReply): void {
  const { at, fields, status = 200, type = 'application/json', match } = request
  const told = `${at}: ${reply.status} ${reply.text.slice(0, 300)}`
  t.equal(reply.status, status, told)
  t.equal(String(reply.headers['content-type']).replace(/;.*$/, ''), type, told)
  t.equal(findMisfit(request, reply), '', told)
  const absent = fields.split(' ').filter((field) => field !== '' && isAbsent(reply.body, field))
  t.strictSame(absent, [], told)
  if (match === undefined) return
  const wanted = resolveConformanceCaseValue<object | RegExp>(match, world)
  t.match(wanted instanceof RegExp ? reply.text : reply.body, wanted, told)
}

const isAbsent = (answer: unknown, field: string): boolean =>
  readJsonFieldByPath(answer, field) === undefined

/** Returns how an answer differs from what the document says of it. */
function findMisfit({ at, status = 200 }: ApiConformanceCase, reply: TestReply): string {
  const known = documented.get(withoutRouteParameterNames(at))
  if (known === undefined) return 'it is not in the document'
  const { path, method, operation } = known
  const response = operation.responses[status]
  if (response === undefined || '$ref' in response) return `${status} is not in the document`
  const type = String(reply.headers['content-type']).replace(/;.*$/, '')
  if (response.content?.[type] === undefined) return `${type} is not in the document`
  if (type !== 'application/json') return ''
  return misfitOf(
    openApiRefByKeys(
      ...['paths', path, method, 'responses', String(status), 'content', type, 'schema'],
    ),
    reply.body,
  )
}

async function assertStream(
  t: Test,
  request: ApiConformanceCase,
  key: string | null,
): Promise<void> {
  const reader = await openSseReader(t, `${main.url}${addressOf(request)}`, key)
  t.match(reader, { status: 200, type: /^text\/event-stream/ }, request.at)
  reader.close()
}
