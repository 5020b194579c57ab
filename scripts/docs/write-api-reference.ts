import { ERROR_DEFINITIONS as errors } from '../../core/errors.ts'
import { toUsdc, ZERO_MICROS } from '../../core/money.ts'
import { NATIVE_TOOLS } from '../../tools/tool-catalogue.ts'
import type { Tool } from '../../tools/define-tool.ts'
import { writeGeneratedFile, writeGeneratedSection, markdownTable } from './write-generated-docs.ts'
import { renderLimitsDocument } from './render-limits-document.ts'
import { listRegisteredRoutes, type RegisteredRoute } from './list-routes.ts'

/** Writes the API reference from the OpenAPI document. */

const CALLER_LABELS = {
  none: 'anybody',
  optional: 'anybody, or a key',
  key: 'a key',
  operator: 'the operator',
}

function endpointTable(routes: readonly RegisteredRoute[]): string {
  const shown = routes.filter(({ hidden }) => !hidden)
  const rows = shown.map(({ method, path, auth, summary }) => [
    `\`${method} ${path}\``,
    CALLER_LABELS[auth],
    summary,
  ])
  return markdownTable(['Endpoint', 'Access', 'Effect'], rows)
}

const BOUND_KEY_CELLS = {
  pays: 'pays from its Backpack',
  acts: 'while its Backpack is active',
  reads: 'reads',
  refused: 'refused',
}

/** What keys with less than all rights may do: every operation that takes a key has a row. */
function narrowKeyTable(routes: readonly RegisteredRoute[]): string {
  const rows = routes
    .filter(({ auth, hidden }) => !hidden && (auth === 'key' || auth === 'optional'))
    .map(({ method, path, scope, boundKeyAccess, refusesCappedKey }) => [
      `\`${method} ${path}\``,
      scope === null ? 'none' : `\`${scope}\``,
      BOUND_KEY_CELLS[boundKeyAccess],
      refusesCappedKey
        ? 'refused'
        : boundKeyAccess === 'pays'
          ? 'pays within its cap'
          : 'as others',
    ])
  const columns = ['Operation', 'Scope', 'Key bound to a Backpack', 'Unbound key with a cap']
  return markdownTable(columns, rows)
}

function toolTable(tools: readonly Tool[]): string {
  const rows = tools.map((tool) => [
    `\`${tool.slug}\``,
    priceOf(tool),
    fieldsOf(tool),
    tool.description,
  ])
  return markdownTable(['Tool', 'Price (USDC)', 'Fields', 'Effect'], rows)
}

function priceOf({ access, price, free, keyless, keyRequired }: Tool): string {
  const parts = [
    typeof price === 'function' ? 'by input' : price === ZERO_MICROS ? 'free' : `${toUsdc(price)}`,
  ]
  if (free !== undefined) {
    const { perDay, overage } = free
    const beyond = overage === null ? 'then rejected' : `then ${toUsdc(overage)}`
    parts.splice(0, parts[0] === 'free' ? 1 : 0, `${perDay} free a day`, beyond)
  }
  if (access === 'free_with_key' && keyless !== undefined)
    parts.push(`${toUsdc(keyless)} without a key`)
  if (keyRequired) parts.push('needs a key')
  return parts.join(', ')
}

function fieldsOf({ input }: Tool): string {
  const { properties = {}, required = [] } = input as {
    properties?: Record<string, unknown>
    required?: string[]
  }
  return Object.keys(properties)
    .map((name) => `\`${name}\`${required.includes(name) ? '*' : ''}`)
    .join(', ')
}

interface ErrorEntry {
  readonly status: number
  readonly title: string
  readonly remedy?: { readonly action: string; readonly method?: string; readonly url?: string }
}

function errorTable(): string {
  const rows = Object.entries<ErrorEntry>(errors).map(([code, { status, title, remedy }]) => {
    const address = remedy?.url === undefined ? '' : ` (\`${remedy.method} ${remedy.url}\`)`
    return [`\`${code}\``, String(status), title, remedy ? `${remedy.action}${address}` : '']
  })
  return markdownTable(['Code', 'Status', 'Meaning', 'Remedy'], rows)
}

const operations = NATIVE_TOOLS.filter(({ unlisted }) => unlisted === true)
const listed = NATIVE_TOOLS.filter((tool) => !operations.includes(tool))

const routes = await listRegisteredRoutes()
const document = `# Reference

Generated from the code by \`npm run docs:reference\`. Schemas of every body and answer are in the
OpenAPI description, \`GET /api/openapi.json\`.

## Endpoints

${endpointTable(routes)}

## Tools

The ${listed.length} tools of \`GET /api/tools\`. \`POST /api/refuel\` takes the name as \`tool\`, beside the tool's fields. A star
marks a required field.

${toolTable(listed)}

### Other priced operations

Each has its own endpoint above and is not listed in \`GET /api/tools\`. \`POST /api/refuel\` accepts these names
too.

${toolTable(operations)}

## Errors

Every error is \`application/problem+json\`; \`code\` is one of these, and \`GET /problems/{code}\`
describes it.

${errorTable()}
`

writeGeneratedFile('docs/reference.md', document)
writeGeneratedSection('docs/keys.md', 'narrow-keys', `\n${narrowKeyTable(routes)}\n`)
writeGeneratedFile('docs/limits.md', renderLimitsDocument(routes))
