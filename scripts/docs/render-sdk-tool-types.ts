import { NATIVE_TOOLS } from '../../tools/tool-catalogue.ts'

/** Renders the types of the SDK's tools from the schemas of the catalogue. */

interface JsonSchema {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | JsonSchema
  readonly patternProperties?: Readonly<Record<string, JsonSchema>>
  readonly items?: JsonSchema
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
}

const NOTICE = '/** Generated from the catalogue by `npm run docs:sdk`. */\n'
const MAX_LINE = 90
const MAX_TOOLS_PER_FILE = 9
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/

const literal = (value: unknown) =>
  typeof value === 'string' ? `'${value.replaceAll("'", "\\'")}'` : JSON.stringify(value)

/** Returns the TypeScript type of values that a schema accepts. */
function toType(schema: JsonSchema, indent: string): string {
  const { enum: values, anyOf = schema.oneOf } = schema
  if ('const' in schema) return literal(schema.const)
  if (values !== undefined) return values.map(literal).join(' | ')
  if (anyOf !== undefined) return [...new Set(anyOf.map((one) => toType(one, indent)))].join(' | ')
  if (Array.isArray(schema.type))
    return schema.type.map((type: string) => toType({ ...schema, type }, indent)).join(' | ')
  switch (schema.type) {
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type
    case 'number':
    case 'integer':
      return 'number'
    case 'array':
      return `readonly ${grouped(toType(schema.items ?? {}, indent))}[]`
    case 'object':
      return toObjectType(schema, indent)
    default:
      return 'unknown'
  }
}

/** The type as the item of an array: with parentheses around a union. */
function grouped(type: string): string {
  const outermost = type.replace(/<[^]*>|\{[^]*\}/g, '')
  return / \| |^readonly /.test(outermost) ? `(${type})` : type
}

function toObjectType(schema: JsonSchema, indent: string): string {
  const { properties = {}, required = [], additionalProperties: rest } = schema
  const inner = `${indent}  `
  const fields = Object.entries(properties).map(([name, field]) => {
    const key = IDENTIFIER.test(name) ? name : JSON.stringify(name)
    const optional = required.includes(name) ? '' : '?'
    const note =
      field.description === undefined ? '' : `${inner}/** ${comment(field.description)} */\n`
    return `${note}${inner}readonly ${key}${optional}: ${toType(field, inner)}`
  })
  const line = `{ ${fields.map((field) => field.trim()).join('; ')} }`
  if (fields.length > 0 && line.length + indent.length <= MAX_LINE && !/\n|\/\*/.test(line))
    return line
  if (fields.length > 0) return `{\n${fields.join('\n')}\n${indent}}`
  const [pattern] = Object.values(schema.patternProperties ?? {})
  const values = pattern ?? (typeof rest === 'object' ? rest : null)
  if (values === null)
    return rest === false ? 'Record<string, never>' : 'Readonly<Record<string, unknown>>'
  return `Readonly<Record<string, ${toType(values, indent)}>>`
}

const comment = (text: string) => text.replaceAll('*/', '*\\/').replace(/\s+/g, ' ')

const listed = NATIVE_TOOLS.filter((tool) => tool.unlisted !== true)
const categories = [...new Set(listed.map(({ category }) => category))].sort()
/** A file of one category; a large category has several. */
const groups = categories.flatMap((category) => {
  const tools = listed.filter((tool) => tool.category === category)
  const parts = Math.ceil(tools.length / MAX_TOOLS_PER_FILE)
  return Array.from({ length: parts }, (_, part) => {
    const name = part === 0 ? category : `${category}-${part + 1}`
    return {
      file: `${name}-tool-types.ts`,
      type: `${name[0]?.toUpperCase()}${name.slice(1).replace('-', '')}ToolTypes`,
      tools: tools.slice(part * MAX_TOOLS_PER_FILE, (part + 1) * MAX_TOOLS_PER_FILE),
    }
  })
})

/** Returns the files of the types, by their paths from the repository's root. */
export function renderSdkToolTypes(): Map<string, string> {
  const files = new Map<string, string>()
  for (const { file, type, tools } of groups) {
    const lines = tools.map(({ slug, description, input, output }) => {
      const [takes, gives] = [input, output].map((one) => toType(one as JsonSchema, '    '))
      return `  /** ${comment(description)} */\n  ${slug}: {\n    input: ${takes}\n    output: ${gives}\n  }`
    })
    const text = `${NOTICE}export interface ${type} {\n${lines.join('\n')}\n}\n`
    files.set(`sdk/tools/${file}`, text)
  }
  const imports = groups.map(({ type, file }) => `import type { ${type} } from './${file}'`)
  const types = groups.map(({ type }) => type).join(', ')
  const text = `${imports.join('\n')}\n\n${NOTICE}export interface ToolTypes extends ${types} {}\n`
  return files.set('sdk/tools/tool-types.ts', text)
}
