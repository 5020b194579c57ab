import { html, type Html } from '../html-template-tag.ts'
import { renderInlineCode } from './inline-code.ts'

/**
 * Renders a form for the input of a tool from its JSON Schema; `assets/tool.js` reads it. Controls have no `name`: that
 * of a field, such as `elements`, would hide a property of the form.
 */

/** The parts of JSON Schema that inputs of tools use. */
export interface ToolInputJsonSchema {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, ToolInputJsonSchema>>
  readonly required?: readonly string[]
  readonly enum?: readonly unknown[]
  readonly items?: ToolInputJsonSchema
  readonly format?: string
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
}

/** Values for the required fields of a tool without an example: a request without them is refused. */
export const toSampleToolInput = ({
  properties = {},
  required = [],
}: ToolInputJsonSchema): Record<string, unknown> =>
  Object.fromEntries(required.map((name) => [name, toSampleValue(name, properties[name] ?? {})]))

function toSampleValue(name: string, schema: ToolInputJsonSchema): unknown {
  if (schema.default !== undefined) return schema.default
  if (schema.enum !== undefined) return schema.enum[0]
  switch ([schema.type].flat()[0]) {
    case 'string':
      return schema.format === 'uri' ? 'https://example.com/' : `a ${name.replaceAll('_', ' ')}`
    case 'integer':
    case 'number':
      return schema.minimum ?? 1
    case 'boolean':
      return true
    case 'array':
      return [toSampleValue(name, schema.items ?? {})]
    default:
      return toSampleToolInput(schema)
  }
}

interface FormField {
  readonly name: string
  readonly schema: ToolInputJsonSchema
  readonly required: boolean
  /** Its value in the first example. */
  readonly example: unknown
}

/** A text longer than this gets more than a line. */
const LONG_TEXT = 500

/** Renders one control for each field, filled in with the example. */
export function renderFormFields(
  { properties = {}, required = [] }: ToolInputJsonSchema,
  example: Readonly<Record<string, unknown>>,
): Html[] {
  const fields = Object.entries(properties).map(([name, schema]) => ({
    name,
    schema,
    required: required.includes(name),
    example: Object.hasOwn(example, name) ? example[name] : undefined,
  }))
  return fields
    .toSorted((one, other) => Number(other.required) - Number(one.required))
    .map(renderField)
}

function renderField(field: FormField): Html {
  const { name, schema, required } = field
  const id = `field-${name}`
  const hint = [schema.description, describeDefault(schema)].filter((part) => part !== undefined)
  return html`<div class="field">
    <label for="${id}">${name}</label
    >${!required && html` <span class="dim small">optional</span>`}${hint.length > 0 && html`<p class="dim small" id="${id}-hint">${renderInlineCode(hint.join(' '))}</p>`}
    ${renderControl(field, html`id="${id}" data-name="${name}" autocomplete="off"${required && html` required`}${hint.length > 0 && html` aria-describedby="${id}-hint"`}`)}
  </div>`
}

const describeDefault = ({ default: value }: ToolInputJsonSchema): string | undefined =>
  value === undefined ? undefined : `Default: ${toText(value)}.`

function renderControl({ schema, required, example }: FormField, common: Html): Html {
  const value = example === undefined ? '' : toText(example)
  if (schema.enum !== undefined) {
    const kind = schema.enum.every((one) => typeof one === 'string') ? 'string' : 'json'
    return renderSelect(
      html`${common} data-kind="${kind}"`,
      schema.enum.map(toText),
      value,
      required,
    )
  }
  switch (schema.type) {
    case 'boolean':
      return renderSelect(html`${common} data-kind="boolean"`, ['true', 'false'], value, required)
    case 'integer':
    case 'number':
      return html`<input
        ${common}
        data-kind="${schema.type}"
        inputmode="${schema.type === 'integer' ? 'numeric' : 'decimal'}"
        value="${value}"
      />`
    case 'string':
      return renderText(schema, common, value)
    case 'array':
      return isTextArray(schema)
        ? html`<textarea ${common} data-kind="lines" rows="3" placeholder="one a line">
${toLines(example)}</textarea>`
        : renderJson(common, example)
    default:
      return renderJson(common, example)
  }
}

const renderSelect = (
  attributes: Html,
  options: readonly string[],
  value: string,
  required: boolean,
): Html =>
  html`<select ${attributes}>
    ${!required && html`<option value="">as by default</option>`}${options.map((one) => html`<option value="${one}" ${one === value && html` selected`}>${one}</option>`)}
  </select>`

function renderText(
  { maxLength, minLength, format }: ToolInputJsonSchema,
  common: Html,
  value: string,
): Html {
  const limits = html`${minLength !== undefined && html` minlength="${minLength}"`}${maxLength !== undefined && html` maxlength="${maxLength}"`}`
  const isLong = (maxLength ?? 0) > LONG_TEXT && format !== 'uri'
  if (isLong || value.includes('\n'))
    return html`<textarea ${common} data-kind="string" rows="4" ${limits}>${value}</textarea>`
  return html`<input
    type="${format === 'uri' ? 'url' : 'text'}"
    ${common}
    data-kind="string"
    ${limits}
    value="${value}"
  />`
}

const renderJson = (common: Html, example: unknown): Html =>
  html`<textarea ${common} class="code" data-kind="json" rows="4" placeholder="JSON">
${example === undefined ? '' : JSON.stringify(example, null, 2)}</textarea>`

const isTextArray = ({ items }: ToolInputJsonSchema): boolean =>
  items?.type === 'string' || (items?.enum?.every((one) => typeof one === 'string') ?? false)

const toLines = (example: unknown): string =>
  Array.isArray(example) ? example.map(toText).join('\n') : ''

const toText = (value: unknown): string =>
  typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
