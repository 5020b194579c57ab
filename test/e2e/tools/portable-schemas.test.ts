import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import type { GasStation } from '../../../sdk/gas-station-client.ts'
import { createAiSdkTools } from '../../../sdk/ai.ts'
import { createLangChainTools } from '../../../sdk/langchain.ts'
import { createOpenAiTools } from '../../../sdk/openai.ts'
import { startTestCommunityToolMarket } from '../../support/tools/test-community-tool-market.ts'
import { sendJson } from '../../support/tools/test-tool-builder-server.ts'

/** Every schema that leaves the station, against the rules of the clients that read it. */

/** What some client refuses: `jsonschema` of Python, RE2, llama.cpp, model APIs. */
const HOSTILE = {
  type: 'object',
  $defs: {
    Id: { anyOf: [{ type: 'string', pattern: '\\p{L}', format: 'uuid' }, { type: 'integer' }] },
    Pair: { allOf: [{ $ref: '#/$defs/A' }, { type: 'object', properties: { b: { const: 1 } } }] },
    A: { type: 'object', properties: { a: { $ref: '#/$defs/Id' } }, required: ['a'] },
  },
  properties: {
    city: { type: 'string', pattern: '^[A-Z]', maxLength: 99_999 },
    id: { $ref: '#/$defs/Id' },
    pair: { $ref: '#/$defs/Pair' },
    kind: { enum: ['x', '', null, 3] },
    mode: { oneOf: [{ const: 'a' }, { const: 'b', title: 'B' }] },
    when: { type: ['string', 'null'], format: 'date-time' },
    list: { type: 'array' },
    tuple: { type: 'array', prefixItems: [{ type: 'string' }], items: false, maxItems: 90_000 },
    map: { type: 'object', patternProperties: { '^[^\\n]+': { type: 'string' } } },
    page: { type: 'integer', exclusiveMinimum: 0, multipleOf: 5 },
    digits: { type: 'string', pattern: '^\\d{2,4}(?:-\\w+)?$' },
    ends: { type: 'string', pattern: '^a|b$' },
    '@odd:name': { type: 'string', not: { const: 'x' } },
    deep: Array.from({ length: 4 }).reduce<object>(
      (inner) => ({ type: 'object', properties: { n: inner } }),
      { type: 'string' },
    ),
  },
  required: ['city'],
  anyOf: [{ required: ['id'] }, { required: ['city'] }],
}

const market = await startTestCommunityToolMarket(t)
const { ask, builder } = market
builder.on('/odd', (_request, reply) => sendJson(reply, { city: 'Rome' }))
await market.open('odd-schemas', '/odd', {
  input_schema: HOSTILE,
  output_schema: { ...HOSTILE, required: [] },
  example: { city: 'Rome', when: null },
})

type Json = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** What is wrong with one pattern, in any dialect. */
function faultOfPattern(pattern: string): string | null {
  if (!pattern.startsWith('^') || !pattern.endsWith('$')) return 'is not anchored'
  if (/\\[^.^$[\]()|{}*+?x\\]|\(\?|\[\^?\]|[^\x20-\x7e]/.test(pattern)) return 'is of one dialect'
  if (/[*+?}][?+]/.test(pattern.replace(/\[[^\]]*\]/g, '')))
    return 'has a lazy or possessive quantifier'
  if (/\{(\d{4,})/.test(pattern)) return 'repeats too often'
  for (const flags of ['', 'u']) new RegExp(pattern, flags)
  return null
}

const KEYWORDS =
  /^(type|title|description|default|properties|required|additionalProperties|items|anyOf|enum|minimum|maximum|minItems|maxItems|minLength|maxLength|pattern|format|nullable)$/

/** What is wrong with a schema, with the place of each fault. */
function* faultsIn(schema: unknown, at: string, depth = 0): Generator<string> {
  if (typeof schema === 'boolean') return
  if (!isObject(schema)) return yield `${at} is no schema`
  const { type, properties = {}, required = [], items, enum: values, anyOf, pattern } = schema
  for (const keyword of Object.keys(schema))
    if (!KEYWORDS.test(keyword)) yield `${at}/${keyword} is no common keyword`
  if (depth > 9) yield `${at} is too deep`
  if (depth === 0 && (type !== 'object' || anyOf !== undefined)) yield `${at} is no plain object`
  if (type !== undefined && typeof type !== 'string') yield `${at}/type is a list`
  if (typeof pattern === 'string' && faultOfPattern(pattern) !== null)
    yield `${at}/pattern ${pattern} ${faultOfPattern(pattern)}`
  if (schema['format'] !== undefined && schema['format'] !== 'date-time') yield `${at}/format`
  for (const name of ['minLength', 'maxLength', 'minItems', 'maxItems'])
    if (Number(schema[name] ?? 0) > 2_000) yield `${at}/${name} unrolls a grammar`
  if (type === 'array' && items === undefined) yield `${at} has no items`
  if (Array.isArray(values)) {
    const kinds = new Set(values.map((value) => typeof value))
    if (kinds.size !== 1 || values.includes('') || values.length > 250) yield `${at}/enum`
  }
  for (const name of required as string[])
    if (!Object.hasOwn(properties as object, name)) yield `${at}/required ${name}`
  for (const [name, inner] of Object.entries(properties as object)) {
    if (!/^[A-Za-z0-9_.-]{1,64}$/.test(name)) yield `${at}/properties ${name}`
    yield* faultsIn(inner, `${at}/${name}`, depth + 1)
  }
  for (const inner of [items, schema['additionalProperties'], ...((anyOf as unknown[]) ?? [])])
    if (inner !== undefined) yield* faultsIn(inner, `${at}/…`, depth + 1)
}

/** Every pattern in a document, wherever it is. */
function* patternsIn(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) return
  const { pattern, type } = value as Json
  if (typeof pattern === 'string' && type !== undefined) yield pattern
  for (const inner of Object.values(value)) yield* patternsIn(inner)
}

const read = async (path: string): Promise<unknown> =>
  JSON.parse((await ask('GET', path)).text) as unknown
const readMcp = async () => {
  const json = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const headers = { accept: 'application/json' }
  const { text } = await ask('POST', '/mcp?community=1', { json, headers })
  return (JSON.parse(text) as { result: { tools: Json[] } }).result.tools
}
const gas = {
  catalogue: async () => ((await read('/api/tools')) as { tools: unknown }).tools,
  request: (_method: string, path: string) => read(path),
} as unknown as GasStation
const everyTool = { community: true, actsOnOthers: true }

const lists: [name: string, schemas: () => Promise<[string, unknown][]>][] = [
  [
    'tools/list of MCP',
    async () =>
      (await readMcp()).flatMap(({ name, inputSchema, outputSchema = { type: 'object' } }) => [
        [String(name), inputSchema],
        [`${String(name)} output`, outputSchema],
      ]),
  ],
  [
    'the catalogue',
    async () =>
      ((await read('/api/tools')) as { tools: Json[] }).tools
        .filter(({ type }) => type === 'native')
        .flatMap((tool) => [
          [String(tool['slug']), tool['input_schema']],
          [`${String(tool['slug'])} output`, tool['output_schema']],
        ]),
  ],
  [
    'one tool',
    async () => [['odd', ((await read('/api/tools/odd-schemas')) as Json)['input_schema']]],
  ],
  [
    'format=mcp',
    async () =>
      ((await read('/api/tools?format=mcp&community=1')) as { tools: Json[] }).tools.map((one) => [
        String(one['name']),
        one['inputSchema'],
      ]),
  ],
  [
    'format=openai',
    async () =>
      ((await read('/api/tools?format=openai&community=1')) as { function: Json }[]).map((one) => [
        String(one.function['name']),
        one.function['parameters'],
      ]),
  ],
  [
    'format=anthropic',
    async () =>
      ((await read('/api/tools?format=anthropic&community=1')) as Json[]).map((one) => [
        String(one['name']),
        one['input_schema'],
      ]),
  ],
  [
    'crews',
    async () =>
      ((await read('/api/agent/crew')) as { crews: Json[] }).crews.map((crew) => [
        String(crew['type']),
        crew['input_schema'],
      ]),
  ],
  [
    'mech metadata',
    async () =>
      Object.entries(((await read('/mech/metadata')) as { toolMetadata: Json }).toolMetadata).map(
        ([name, tool]) => [name, (tool as { input: Json }).input['schema']],
      ),
  ],
  [
    'the adapter for OpenAI',
    async () =>
      (await createOpenAiTools(gas, everyTool)).map((one) => [
        one.function.name,
        one.function.parameters,
      ]),
  ],
  [
    'the adapter for the AI SDK',
    async () =>
      Object.entries(
        await createAiSdkTools(
          gas,
          { jsonSchema: (schema) => schema, tool: ({ inputSchema }) => inputSchema },
          everyTool,
        ),
      ),
  ],
  [
    'the adapter for LangChain',
    () =>
      createLangChainTools(
        gas,
        { tool: (_run, { name, schema }): [string, unknown] => [name, schema] },
        everyTool,
      ),
  ],
]

for (const [name, schemas] of lists)
  t.test(`${name} has no schema that a client refuses`, async (t) => {
    const found = await schemas()
    t.ok(found.length > 0)
    if (!['crews', 'one tool', 'the catalogue'].includes(name))
      t.ok(
        found.some(([slug]) => /^odd[-_]schemas/.test(slug)),
        'with the tool of a stranger',
      )
    t.strictSame(
      found.flatMap(([slug, schema]) => [...faultsIn(schema, slug)]),
      [],
    )
    for (const [slug, schema] of found) t.ok(JSON.stringify(schema).length <= 33_000, slug)
  })

t.test('no document has a pattern of one dialect, or one that is not anchored', async (t) => {
  const documents = ['/openapi.json', '/.well-known/mcp.json', '/.well-known/agent-card.json']
  for (const path of [...documents, '/.well-known/x402', '/discovery/resources', '/api/store']) {
    const { status, text } = await ask('GET', path)
    if (status !== 200) continue
    const patterns = [...patternsIn(JSON.parse(text))]
    if (path === '/openapi.json') t.ok(patterns.length > 10, 'plain ones stay')
    t.strictSame(
      patterns.filter((one) => faultOfPattern(one) !== null),
      [],
      path,
    )
  }
})

t.test('Gemini declarations have types, plain alternatives and lists of texts only', async (t) => {
  const [{ functionDeclarations: made } = { functionDeclarations: [] }] = (await read(
    '/api/tools?format=gemini&community=1',
  )) as { functionDeclarations: { name: string; parameters?: Json }[] }[]
  const walk = function* (schema: Json, at: string): Generator<string> {
    const { type, anyOf, properties, items, enum: values } = schema
    if (anyOf !== undefined ? Object.keys(schema).length > 1 : type === undefined) yield at
    if (values !== undefined && type !== 'STRING') yield `${at}/enum`
    for (const [name, inner] of Object.entries(properties ?? {}))
      yield* walk(inner as Json, `${at}/${name}`)
    for (const inner of [...((anyOf as Json[]) ?? []), ...(items === undefined ? [] : [items])])
      yield* walk(inner as Json, `${at}/…`)
  }
  t.ok(made.length > 38)
  t.strictSame(
    made.flatMap(({ name, parameters }) => (parameters ? [...walk(parameters, name)] : [])),
    [],
  )
})

t.test('a shown schema accepts each example, and a call is checked by the real one', async (t) => {
  const ajv = new Ajv2020({ strict: false, logger: false })
  const listed = ((await read('/api/tools')) as { tools: Json[] }).tools
  const odd = (await read('/api/tools/odd-schemas')) as Json
  for (const { slug, input_schema, example_calls } of [
    ...listed.filter(({ type }) => type === 'native'),
    odd,
  ])
    for (const { tool: _tool, ...example } of example_calls as Json[])
      t.ok(ajv.validate(input_schema as object, example), `${String(slug)} ${ajv.errorsText()}`)
  t.match(odd['input_schema'], {
    properties: {
      city: { type: 'string', description: 'Must match ^[A-Z] At most 99999 characters.' },
      digits: { pattern: '^[0-9]{2,4}(-[A-Za-z0-9_]+)?$' },
      mode: { type: 'string', enum: ['a', 'b'] },
      pair: { type: 'object', required: ['a'], properties: { b: { type: 'number', enum: [1] } } },
      map: { type: 'object', additionalProperties: { type: 'string' } },
      page: { type: 'integer', minimum: 1 },
    },
    description: /@odd:name/,
  })
  for (const [fields, pointer] of [
    [{ city: 'rome' }, '/city'],
    [{ city: 'Rome', ends: 'c' }, '/ends'],
    [{ city: 'Rome', '@odd:name': 'x' }, '/@odd:name'],
  ] as const) {
    const refused = await market.invoke(market.buyer, 'odd-schemas', fields)
    t.match(refused, { status: 400, body: { errors: [{ pointer }] } }, refused.text)
  }
})
