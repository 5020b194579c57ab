import { LIMITS } from '../../../core/limits.ts'

/** The dearest requests of an operation, derived from its description in the OpenAPI document. */

interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly items?: Schema
  readonly maxItems?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly properties?: Readonly<Record<string, Schema>>
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly schema?: Schema
}

export interface DescribedOperation {
  readonly operationId: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: Schema }>>
  }
  readonly responses: Readonly<Record<string, { readonly content?: object }>>
}

export interface OperationDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DescribedOperation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

export interface DearRequest {
  readonly name: string
  readonly path: string
  readonly raw?: string
}

const SOME_ID = '018f6f7a-0000-7000-8000-000000000000'
/** Where a schema names no maximum. */
const LONG_TEXT = 4_000
const MANY = 1_000
const MAX_DEPTH = 8

/** A value with the longest texts, the most entries and all fields that a schema allows. */
export function dearestValue({ components }: OperationDocument, given: Schema): unknown {
  const make = (schema: Schema, depth: number): unknown => {
    if (depth > MAX_DEPTH) return null
    if (schema.$ref !== undefined)
      return make(components.schemas[schema.$ref.split('/').at(-1) ?? ''] ?? {}, depth + 1)
    if (schema.const !== undefined) return schema.const
    if (schema.enum !== undefined) return schema.enum[0]
    const [first] = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? []
    if (first !== undefined) return make(first, depth + 1)
    switch ([schema.type].flat()[0]) {
      case 'string':
        return textOf(schema)
      case 'integer':
      case 'number':
        return schema.maximum ?? schema.minimum ?? 1
      case 'boolean':
        return true
      case 'array':
        return Array.from({ length: Math.min(schema.maxItems ?? MANY, MANY) }, () =>
          make(schema.items ?? {}, depth + 1),
        )
      default:
        return Object.fromEntries(
          Object.entries(schema.properties ?? {}).map(([name, one]) => [
            name,
            make(one, depth + 1),
          ]),
        )
    }
  }
  return make(given, 0)
}

const textOf = ({ format, maxLength = LONG_TEXT }: Schema): string => {
  switch (format) {
    case 'uuid':
      return SOME_ID
    case 'uri':
      return 'https://example.com/'
    case 'date-time':
      return '2026-01-01T00:00:00Z'
    default:
      return 'word '.repeat(maxLength).slice(0, maxLength).trimEnd()
  }
}

/** As many values as a body may have, in the most expensive shapes. */
const crowds = (values: number, bytes: number): Readonly<Record<string, string>> => {
  const fill = (part: string, most = values) =>
    part.repeat(Math.max(1, Math.min(most, Math.floor((bytes - 100) / part.length))))
  const names = Array.from({ length: Math.floor(values / 3) - 10 }, (_, at) => `"k${at}":1`).join(
    ',',
  )
  return {
    numbers: `{"y":[${fill('1,', values - 10)}1]}`,
    objects: `{"y":[${fill('{},', values / 2 - 10)}{}]}`,
    'unknown fields': `{${names}}`,
    'fields within': `{"y":{${names}}}`,
    'few unknown fields': `{${Array.from({ length: LIMITS.jsonFields }, (_, at) => `"k${at}":1`).join(',')}}`,
    'one text': `{"y":"${fill('\\u0041', bytes)}"}`,
    levels: `{"y":${'['.repeat(bytes / 2 - 100)}${']'.repeat(bytes / 2 - 100)}}`,
    'long numbers': `{"y":[${fill('9007199254740993,', values - 10)}1]}`,
  }
}

/** The requests of an operation that cost most; bodies as large as a caller may send. */
export function dearestRequests(
  document: OperationDocument,
  path: string,
  { parameters = [], requestBody }: DescribedOperation,
  hasKey: boolean,
): DearRequest[] {
  const at = path.replace(/\{\w+\}/g, SOME_ID)
  const fields = parameters.filter((one) => one.in === 'query')
  const query = fields.map(({ name, schema = {} }) => {
    const value = String(dearestValue(document, schema))
    return `${name}=${encodeURIComponent(value)}`
  })
  const searched = query.length === 0 ? at : `${at}?${query.join('&')}`
  const unknown = `${at}?${Array.from({ length: 3_000 }, (_, n) => `k${n}=1`).join('&')}`
  if (requestBody === undefined)
    return [
      { name: 'plain', path: at },
      { name: 'all parameters', path: searched },
      { name: 'unknown parameters', path: unknown },
    ]
  const schema = requestBody.content['application/json']?.schema ?? {}
  const values = hasKey ? LIMITS.jsonValuesWithKey : LIMITS.jsonValues
  return [
    { name: 'all fields', path: at, raw: JSON.stringify(dearestValue(document, schema)) },
    ...Object.entries(crowds(values, LIMITS.bodyBytes)).map(([name, raw]) => ({
      name,
      path: at,
      raw,
    })),
  ]
}
