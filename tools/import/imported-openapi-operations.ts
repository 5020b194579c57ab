import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  REST_PARAMETER_STYLES,
  type CommunityToolEndpoint,
  type RestParameter,
  type RestParameterStyle,
} from '../../domain/community-tool-record.ts'
import { isForbiddenRequestHeader } from './forbidden-request-headers.ts'
import {
  cutText,
  ImportedSchemaConverter,
  isUntrustedJsonObject,
  type UntrustedJson,
} from './imported-schema-converter.ts'
import { selectImportedTools, toPlainLine, type ImportedTool } from './imported-tool.ts'

/** Reads the operations of an OpenAPI 3.0 or 3.1 document as tools. */

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const
type Method = Uppercase<(typeof METHODS)[number]>
const BODY_FIELD = 'body'
const RESERVED_FIELDS = new Set([BODY_FIELD, 'tool', 'dry_run', 'params'])
const MAX_NAME_CHARS = 64
const MAX_DESCRIPTION_CHARS = 500
const MAX_PARAMETERS = 50
const MAX_SERVER_CHARS = 2_048

/** An operation whose schemas are not converted yet: only those that are imported have to be acceptable. */
export interface OpenApiOperationRef {
  readonly operation: string
  readonly alias: string
  readonly method: Method
  /** Converts it; throws `import_refused`. */
  toTool(): ImportedTool
}

export interface OpenApiService {
  readonly title: string
  readonly operations: readonly OpenApiOperationRef[]
}

/** A document, and the addresses of the request that names it. */
export interface OpenApiSource {
  readonly text: string
  readonly documentUrl: string
  readonly baseUrl: string | null
}

/** The operations that an import names, by their place in the document. */
export interface SelectedOperations {
  readonly title: string
  readonly operations: readonly { readonly at: number; readonly operation: string }[]
}

/** Without `include` these are the GET operations; throws `import_refused` for a name without an operation. */
export function selectOperations(
  { title, operations }: OpenApiService,
  include: readonly string[] | null,
): SelectedOperations {
  const chosen =
    include === null
      ? operations.filter(({ method }) => method === 'GET')
      : selectImportedTools(operations, include)
  return {
    title,
    operations: chosen.map((one) => ({
      at: operations.indexOf(one),
      operation: one.operation,
    })),
  }
}

/**
 * Parses a document. `documentUrl` and `baseUrl` come from the request: of `servers` only the path counts, and
 * only without `baseUrl`, so that a document cannot name another host.
 */
export function readOpenApiDocument({ text, documentUrl, baseUrl }: OpenApiSource): OpenApiService {
  const document = parseDocument(text)
  const { paths, info, openapi } = document
  if (typeof openapi !== 'string' || !/^3\.[01]\./.test(openapi))
    throw refuse('The document is no OpenAPI 3.0 or 3.1.')
  if (!isUntrustedJsonObject(paths)) throw refuse('The document has no paths.')
  const whole = baseUrl ?? toBaseUrl(document['servers'], documentUrl)
  const operations = Object.entries(paths).flatMap(([path, given]) => {
    const item = resolve(document, given)
    return METHODS.flatMap((method) => {
      const operation = item[method]
      if (!isUntrustedJsonObject(operation)) return []
      const servers = operation['servers'] ?? item['servers']
      const url =
        baseUrl === null && isServerNamed(servers) ? toBaseUrl(servers, documentUrl) : whole
      return [toOperationRef({ document, url, path, item, method, operation })]
    })
  })
  if (operations.length > LIMITS.importedOperations)
    throw refuse(`The document has more than ${LIMITS.importedOperations} operations.`)
  return {
    title: toPlainLine(isUntrustedJsonObject(info) ? info['title'] : null, 'api', MAX_NAME_CHARS),
    operations,
  }
}

const refuse = (detail: string, operation?: string) =>
  new ServiceError('import_refused', { detail, ...(operation === undefined ? {} : { operation }) })

function parseDocument(text: string): UntrustedJson {
  try {
    const value: unknown = JSON.parse(text)
    if (isUntrustedJsonObject(value)) return value
  } catch {
    // YAML, or nothing of the kind.
  }
  throw refuse('The document is no JSON object; YAML is not read.')
}

const isServerNamed = (servers: unknown): boolean => Array.isArray(servers) && servers.length > 0

/** The origin of the document with the path of the first server, whose variables have their defaults. */
function toBaseUrl(servers: unknown, documentUrl: string): string {
  const first: unknown = Array.isArray(servers) ? servers[0] : null
  const server = isUntrustedJsonObject(first) ? first : {}
  const given = typeof server['url'] === 'string' ? fillServerVariables(server['url'], server) : '/'
  const path = URL.canParse(given, documentUrl) ? new URL(given, documentUrl).pathname : '/'
  return `${new URL(documentUrl).origin}${path.replace(/\/+$/, '')}`
}

function fillServerVariables(url: string, { variables }: UntrustedJson): string {
  const named = isUntrustedJsonObject(variables) ? variables : {}
  return url.slice(0, MAX_SERVER_CHARS).replace(/\{([^{}]+)\}/g, (whole, name: string) => {
    const variable = Object.hasOwn(named, name) ? named[name] : null
    const value = isUntrustedJsonObject(variable) ? variable['default'] : null
    return typeof value === 'string' || typeof value === 'number' ? String(value) : whole
  })
}

interface OperationPlace {
  readonly document: UntrustedJson
  readonly url: string
  readonly path: string
  readonly item: UntrustedJson
  readonly method: (typeof METHODS)[number]
  readonly operation: UntrustedJson
}

function toOperationRef(place: OperationPlace): OpenApiOperationRef {
  const { path, operation } = place
  const method = place.method.toUpperCase() as Method
  const alias = `${method} ${path}`
  const id = operation['operationId']
  const name = typeof id === 'string' && id !== '' && id.length <= 200 ? id : alias
  return { operation: name, alias, method, toTool: () => toTool(place, name, alias, method) }
}

function toTool(
  place: OperationPlace,
  operation: string,
  alias: string,
  method: Method,
): ImportedTool {
  const { document, url, path, operation: given } = place
  const components = isUntrustedJsonObject(document['components']) ? document['components'] : {}
  const named = isUntrustedJsonObject(components['schemas']) ? components['schemas'] : {}
  const inputs = new ImportedSchemaConverter(named, operation)
  const fields = readParameters(place, operation)
  const properties: Record<string, unknown> = {}
  for (const { parameter, schema, description } of fields) {
    const converted = inputs.convert(schema)
    properties[parameter.field] =
      typeof converted === 'boolean' || description === null
        ? converted
        : { ...converted, description }
  }
  const required = fields.filter((one) => one.isRequired).map((one) => one.parameter.field)
  const body = readBody(place, operation)
  if (body !== null) properties[BODY_FIELD] = inputs.convert(body.schema)
  if (body?.isRequired === true) required.push(BODY_FIELD)
  const forward: CommunityToolEndpoint = {
    kind: 'rest-operation',
    url,
    method,
    path,
    parameters: fields.map(({ parameter }) => parameter),
    hasBody: body !== null,
  }
  assertPathFilled(path, forward.parameters, operation)
  const title = toPlainLine(given['summary'], operation, MAX_NAME_CHARS)
  const output = readOutput(place, named, operation)
  return {
    operation,
    alias,
    name: title,
    description: toPlainLine(
      given['description'],
      toPlainLine(given['summary'], alias, MAX_DESCRIPTION_CHARS),
      MAX_DESCRIPTION_CHARS,
    ),
    inputSchema: toObjectSchema(properties, required, inputs.definitions),
    outputSchema: output.schema,
    sourceChars: inputs.sourceChars + output.sourceChars,
    forward,
  }
}

const toObjectSchema = (
  properties: Record<string, unknown>,
  required: readonly string[],
  definitions: Record<string, unknown>,
): UntrustedJson => ({
  type: 'object',
  properties,
  required: [...required],
  additionalProperties: false,
  ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions }),
})

interface ReadParameter {
  readonly parameter: RestParameter
  readonly schema: unknown
  readonly isRequired: boolean
  readonly description: string | null
}

/** Parameters of the operation and of its path; headers that a buyer must not set are left out. */
function readParameters(place: OperationPlace, operation: string): ReadParameter[] {
  const { document, item } = place
  const all = new Map<string, UntrustedJson>()
  for (const list of [item['parameters'], place.operation['parameters']]) {
    if (Array.isArray(list) && list.length > MAX_PARAMETERS) throw tooManyParameters(operation)
    for (const given of Array.isArray(list) ? list : []) {
      const one = resolve(document, given)
      all.set(`${String(one['in'])} ${String(one['name'])}`, one)
    }
  }
  if (all.size > MAX_PARAMETERS) throw tooManyParameters(operation)
  const fields = new Set<string>()
  return [...all.values()].flatMap((one): ReadParameter[] => {
    const { name, in: where } = one
    if (typeof name !== 'string' || (where !== 'path' && where !== 'query' && where !== 'header'))
      return []
    if (where === 'header' && isForbiddenRequestHeader(name)) return []
    const field = toFieldName(name, fields)
    const { description } = one
    return [
      {
        ...toRestParameter(one, { field, name, in: where }, operation),
        isRequired: where === 'path' || one['required'] === true,
        description: typeof description === 'string' ? cutText(description, 300) : null,
      },
    ]
  })
}

/** How a parameter is written, and its schema. One with content of JSON is written as JSON text. */
function toRestParameter(
  given: UntrustedJson,
  named: Pick<RestParameter, 'field' | 'name' | 'in'>,
  operation: string,
): Pick<ReadParameter, 'parameter' | 'schema'> {
  const { content, explode, schema = { type: 'string' } } = given
  const styles: readonly string[] = REST_PARAMETER_STYLES[named.in]
  const style = given['style'] ?? styles[0]
  if (typeof style !== 'string' || !styles.includes(style))
    throw refuse(
      `${operation} writes ${named.name} in a style that ${named.in} does not have.`,
      operation,
    )
  const parameter: RestParameter = {
    ...named,
    style: style as RestParameterStyle,
    isExploded: typeof explode === 'boolean' ? explode : style === 'form',
    ...(given['allowReserved'] === true ? { isReservedKept: true } : {}),
  }
  if (content === undefined) return { parameter, schema }
  const media = isUntrustedJsonObject(content) ? jsonMediaOf(content) : null
  if (media === null) return { parameter, schema: { type: 'string' } }
  return { parameter: { ...parameter, isJson: true }, schema: media['schema'] ?? true }
}

const tooManyParameters = (operation: string) =>
  refuse(`${operation} has more than ${MAX_PARAMETERS} parameters.`, operation)

/** The name of an input field: that of the parameter where it can be one. */
function toFieldName(name: string, taken: Set<string>): string {
  const plain = name
    .replace(/[^A-Za-z0-9_]/g, '_')
    .replace(/^(?=[0-9])/, '_')
    .slice(0, 56)
  const base = RESERVED_FIELDS.has(plain) ? `${plain}_` : plain
  let field = base
  for (let n = 2; taken.has(field); n += 1) field = `${base}_${n}`
  taken.add(field)
  return field
}

function readBody({ document, operation }: OperationPlace, name: string) {
  if (operation['requestBody'] === undefined) return null
  const body = resolve(document, operation['requestBody'])
  const content = isUntrustedJsonObject(body['content']) ? body['content'] : {}
  const media = jsonMediaOf(content)
  if (media === null) throw refuse(`${name} takes a body that is not JSON.`, name)
  return { schema: media['schema'] ?? true, isRequired: body['required'] === true }
}

const jsonMediaOf = (content: UntrustedJson): UntrustedJson | null => {
  const found = Object.entries(content).find(([type]) =>
    /^application\/([\w.-]+\+)?json\b/i.test(type),
  )
  return found !== undefined && isUntrustedJsonObject(found[1]) ? found[1] : null
}

/** What a success has; answers in a form that cannot be checked may be anything. */
function readOutput(
  { document, operation }: OperationPlace,
  named: UntrustedJson,
  name: string,
): { readonly schema: UntrustedJson; readonly sourceChars: number } {
  const responses = isUntrustedJsonObject(operation['responses']) ? operation['responses'] : {}
  const [, success] = Object.entries(responses).find(([status]) => /^2/.test(status)) ?? []
  const response = success === undefined ? {} : resolve(document, success)
  const media = jsonMediaOf(isUntrustedJsonObject(response['content']) ? response['content'] : {})
  const outputs = new ImportedSchemaConverter(named, name)
  let data: unknown = true
  try {
    if (media?.['schema'] !== undefined) data = outputs.convert(media['schema'])
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return { schema: toRestOperationOutputSchema(true, {}), sourceChars: outputs.sourceChars }
  }
  const schema = toRestOperationOutputSchema(data, outputs.definitions)
  return { schema, sourceChars: outputs.sourceChars }
}

/** The output of a REST operation. */
export const toRestOperationOutputSchema = (
  data: unknown,
  definitions: Record<string, unknown>,
): UntrustedJson => ({
  type: 'object',
  properties: { status: { type: 'integer' }, data },
  required: ['status', 'data'],
  ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions }),
})

function assertPathFilled(
  path: string,
  parameters: readonly RestParameter[],
  operation: string,
): void {
  if (!path.startsWith('/'))
    throw refuse(`The path of ${operation} does not begin with /.`, operation)
  const names = new Set(parameters.filter((one) => one.in === 'path').map(({ name }) => name))
  for (const [, name = ''] of path.matchAll(/\{([^{}]+)\}/g))
    if (!names.has(name)) throw refuse(`${operation} does not declare {${name}}.`, operation)
}

/** Follows references within `components`, a few at most. */
function resolve(document: UntrustedJson, given: unknown): UntrustedJson {
  let found: unknown = given
  for (let hops = 0; hops < 5; hops += 1) {
    if (!isUntrustedJsonObject(found)) throw refuse('The document has a part that is no object.')
    if (found['$ref'] === undefined) return found
    const reference = typeof found['$ref'] === 'string' ? found['$ref'] : ''
    const [, ...parts] = reference.split('/')
    if (!reference.startsWith('#/'))
      throw refuse(`The document refers to ${reference.slice(0, 100)}, and nothing is fetched.`)
    found = parts.reduce<unknown>((at, part) => {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
      return isUntrustedJsonObject(at) && Object.hasOwn(at, name) ? at[name] : undefined
    }, document)
  }
  throw refuse('The document has references that refer to each other.')
}
