import t from 'tap'
import { createOpenApiBodyValidator } from '../../support/http/openapi-body-validator.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** The catalogue as model APIs take tools. */

const { ask, call, onboard } = await startInProcessTestStation(t)
const read = async <T>(query: string) =>
  (await ask('GET', `/api/tools${query}`)).body as unknown as T

interface Entry {
  readonly slug: string
  readonly category: string
  readonly example_calls: readonly object[]
}
const { tools: listed } = await read<{ tools: readonly Entry[] }>('')
const slugs = listed.map(({ slug }) => slug)

/** Every schema in a schema, itself included. */
function* schemasIn(schema: object): Generator<Record<string, unknown>> {
  yield schema as Record<string, unknown>
  const {
    properties = {},
    items,
    anyOf = [],
  } = schema as {
    properties?: Record<string, object>
    items?: object
    anyOf?: object[]
  }
  for (const inner of [...Object.values(properties), ...anyOf, ...(items ? [items] : [])])
    yield* schemasIn(inner)
}

t.test(
  'Chat Completions functions have names, texts and schemas within their limits',
  async (t) => {
    interface Tool {
      type: string
      function: { name: string; description: string; parameters: object; strict: boolean }
    }
    const tools = await read<readonly Tool[]>('?format=openai')
    t.strictSame(
      tools.map((tool) => tool.function.name),
      slugs,
    )
    t.ok(tools.length <= 128)
    for (const { type, function: made, ...rest } of tools) {
      t.strictSame([type, Object.keys(rest)], ['function', []])
      t.strictSame(Object.keys(made), ['name', 'description', 'parameters', 'strict'])
      t.match(made.name, /^[a-zA-Z0-9_-]{1,64}$/)
      t.ok(made.description.length <= 1_024)
      t.match(made.parameters, { type: 'object' })
      if (!made.strict) continue
      for (const { type: kind, properties, required, additionalProperties } of schemasIn(
        made.parameters,
      ))
        if (kind === 'object') {
          t.equal(additionalProperties, false, made.name)
          t.strictSame(Object.keys(properties ?? {}), required ?? [], made.name)
        }
    }
    t.ok(tools.some((tool) => !tool.function.strict))
  },
)

t.test('Messages tools have three fields and an object as their schema', async (t) => {
  const tools = await read<readonly { name: string; input_schema: object }[]>('?format=anthropic')
  t.strictSame(
    tools.map(({ name }) => name),
    slugs,
  )
  for (const tool of tools) {
    t.strictSame(Object.keys(tool), ['name', 'description', 'input_schema'])
    t.match(tool.input_schema, { type: 'object' }, tool.name)
    t.notOk('anyOf' in tool.input_schema || 'oneOf' in tool.input_schema)
  }
  const validate = createOpenApiBodyValidator({
    components: { schemas: Object.fromEntries(tools.map((one) => [one.name, one.input_schema])) },
  })
  for (const { slug, example_calls } of listed)
    for (const { tool: _tool, ...example } of example_calls as Record<string, unknown>[])
      t.equal(validate(`#/components/schemas/${slug}`, example), '', slug)
})

t.test('Gemini declarations stay in its subset', async (t) => {
  interface Declaration {
    name: string
    parameters?: object
  }
  const [{ functionDeclarations: made } = { functionDeclarations: [] }] =
    await read<readonly { functionDeclarations: readonly Declaration[] }[]>('?format=gemini')
  t.strictSame(
    made.map(({ name }) => name),
    slugs,
  )
  const known =
    /^(type|description|properties|required|items|anyOf|enum|format|pattern|minimum|maximum|minItems|maxItems|minLength|maxLength)$/
  for (const { name, parameters } of made)
    for (const schema of schemasIn(
      parameters ?? { type: 'OBJECT', properties: { x: { type: 'STRING' } } },
    )) {
      for (const keyword of Object.keys(schema)) t.match(keyword, known, name)
      if (schema['anyOf'] === undefined)
        t.match(schema['type'], /^(OBJECT|STRING|NUMBER|INTEGER|BOOLEAN|ARRAY)$/, name)
      if (schema['type'] === 'OBJECT' && schema['properties'] !== undefined)
        t.ok(Object.keys(schema['properties'] as object).length > 0, name)
      if (schema['type'] === 'ARRAY') t.ok(schema['items'], name)
    }
})

t.test('the MCP form is the result of tools/list', async (t) => {
  const { tools } = await read<{ tools: readonly { name: string }[] }>('?format=mcp')
  const json = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  const headers = { accept: 'application/json, text/event-stream' }
  const { text } = await ask('POST', '/mcp', { json, headers })
  const listing = JSON.parse(text.replace(/^[^{]*/, '')) as { result: { tools: readonly object[] } }
  t.strictSame(tools, listing.result.tools)
})

t.test('a format is filtered, tagged and compressed like the catalogue', async (t) => {
  const web = await read<readonly { name: string }[]>('?format=anthropic&category=web')
  t.strictSame(
    web.map(({ name }) => name),
    listed.filter(({ category }) => category === 'web').map(({ slug }) => slug),
  )
  const { headers } = await ask('GET', '/api/tools?format=openai')
  const known = { 'if-none-match': String(headers['etag']) }
  t.match(await ask('GET', '/api/tools?format=openai', { headers: known }), { status: 304 })
  t.match(await ask('GET', '/api/tools?format=gpt'), { status: 400 })
})

t.test('what a model answers is the body of a call', async (t) => {
  const agent = await onboard()
  const [found] = (await read<readonly { name: string }[]>('?format=anthropic')).filter(
    (tool) => tool.name === 'hive_trending',
  )
  t.equal((await call(agent, found?.name ?? '', { limit: 1 })).status, 200)
})
