import type { Tool } from '../../tools/define-tool.ts'
import type { CatalogueEntry } from '../../tools/tool-ports.ts'
import type { JsonSchema, OpenApiDocument, OpenApiOperation } from './openapi-document-types.ts'
import { openApiSchemaComponentRef, toOpenApiComponentName } from './openapi-document-types.ts'
import { toToolPaymentInfo, type PaymentOfferSource } from './openapi-payment-info.ts'
import { openApiReplyOrQuoteContent, SHARED_TOOL_REPLY_FIELDS } from './openapi-tool-schemas.ts'

/** Adds an operation for each tool that agents sell, with the schemas of its builder. */

export interface CommunityToolOpenApiOperationsInput {
  /** The document of the native tools; it stays as it is. */
  readonly document: OpenApiDocument
  /** As models may read them; the document is built in one piece, so their number and size are bounded. */
  readonly entries: readonly CatalogueEntry[]
  readonly find: (slug: string) => Tool | undefined
  readonly paying: PaymentOfferSource
}

const GENERIC_CALL_PATH = '/api/t/{slug}'

/** Returns the document with an operation for each of these tools that is not native. */
export function withCommunityToolOperations(
  input: CommunityToolOpenApiOperationsInput,
): OpenApiDocument {
  const { document, entries } = input
  const generic = document.paths[GENERIC_CALL_PATH]?.['post']
  const community = entries.filter(({ type }) => type === 'community')
  if (generic === undefined || community.length === 0) return document
  const { paths, components } = document
  const added = Object.assign({}, ...community.map(communitySchemas)) as Record<string, JsonSchema>
  return {
    ...document,
    paths: {
      ...paths,
      ...Object.fromEntries(
        community.map((entry) => [
          `/api/t/${entry.slug}`,
          { post: communityOperation(entry, generic, input) },
        ]),
      ),
    },
    components: { ...components, schemas: { ...components.schemas, ...added } },
  }
}

/** No native component begins so. */
const communityName = (slug: string): string => `Community${toOpenApiComponentName(slug)}`

function communitySchemas({ slug, input_schema, output_schema }: CatalogueEntry) {
  const name = communityName(slug)
  const [input, output] = [asObject(input_schema), asObject(output_schema)]
  return {
    [`${name}Input`]: withReferencesInto(`${name}Input`, {
      ...input,
      properties: {
        ...asObject(input['properties']),
        dry_run: openApiSchemaComponentRef('DryRun'),
      },
    }),
    [`${name}Reply`]: withReferencesInto(`${name}Reply`, {
      ...output,
      properties: { ...asObject(output['properties']), ...SHARED_TOOL_REPLY_FIELDS },
      ...(output['additionalProperties'] === false ? {} : { additionalProperties: true }),
    }),
  }
}

const asObject = (value: unknown): JsonSchema =>
  typeof value === 'object' && value !== null ? (value as JsonSchema) : {}

/** A builder's schema refers to its own `$defs`, which are inside of the component here. */
function withReferencesInto(component: string, schema: JsonSchema): JsonSchema {
  const { $schema: _dialect, ...rest } = schema
  const move = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(move)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [
        name,
        name === '$ref' && typeof inner === 'string' && /^#\/(\$defs|definitions)\//.test(inner)
          ? `#/components/schemas/${component}${inner.slice(1)}`
          : move(inner),
      ]),
    )
  }
  return move(rest) as JsonSchema
}

function communityOperation(
  entry: CatalogueEntry,
  generic: OpenApiOperation,
  { find, paying }: CommunityToolOpenApiOperationsInput,
): OpenApiOperation {
  const { slug, name, description, category, price_usdc: price, builder } = entry
  const { '200': success, ...refusals } = generic.responses
  const tool = find(slug)
  const payment = tool === undefined ? null : toToolPaymentInfo(tool, paying)
  const { tool: _slug, ...example } = entry.example_calls[0] ?? { tool: slug }
  return {
    operationId: `callCommunity${toOpenApiComponentName(slug)}`,
    summary: name,
    description: `${description} Costs ${price} USDC.`,
    tags: [...generic.tags],
    ...(generic.security === undefined ? {} : { security: [...generic.security] }),
    parameters: (generic.parameters ?? []).filter((one) => !('name' in one) || one.name !== 'slug'),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: openApiSchemaComponentRef(`${communityName(slug)}Input`),
          ...(entry.example_calls.length === 0 ? {} : { example }),
        },
      },
    },
    responses: {
      '200': {
        ...(success as object),
        content: openApiReplyOrQuoteContent(`${communityName(slug)}Reply`),
      } as never,
      ...refusals,
    },
    ...(payment === null ? {} : { 'x-payment-info': payment }),
    'x-tool': { slug, category, builder: builder?.name, verified: builder?.verified === true },
  }
}
