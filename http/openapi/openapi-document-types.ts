/** The parts of an OpenAPI document that this service writes. */

/** A JSON Schema, or a reference to one. */
export type JsonSchema = Readonly<Record<string, unknown>>

export interface OpenApiMediaType {
  schema?: JsonSchema
  example?: unknown
  examples?: Record<string, { summary?: string; value: unknown }>
}

export interface OpenApiResponse {
  description: string
  headers?: Record<string, object>
  content?: Record<string, OpenApiMediaType>
}

export interface OpenApiParameter {
  name: string
  in: string
  required?: boolean
  description?: string
  schema: JsonSchema
  example?: unknown
}

export interface OpenApiOperation {
  operationId: string
  summary: string
  description?: string
  tags: string[]
  security?: object[]
  parameters?: (OpenApiParameter | { $ref: string })[]
  requestBody?: { required?: boolean; content: Record<string, OpenApiMediaType> }
  responses: Record<string, OpenApiResponse | { $ref: string }>
  [extension: `x-${string}`]: unknown
}

export type OpenApiPathItem = Record<string, OpenApiOperation>

export interface OpenApiDocument {
  openapi: string
  info: Record<string, unknown>
  servers: { url: string }[]
  tags: { name: string; description: string }[]
  paths: Record<string, OpenApiPathItem>
  webhooks: Record<string, OpenApiPathItem>
  components: {
    schemas: Record<string, JsonSchema>
    responses: Record<string, OpenApiResponse>
    headers: Record<string, object>
    parameters: Record<string, OpenApiParameter>
    securitySchemes: Record<string, object>
  }
  [extension: `x-${string}`]: unknown
}

export const openApiSchemaComponentRef = (name: string) => ({
  $ref: `#/components/schemas/${name}`,
})
export const openApiJsonContent = (schema: JsonSchema): Record<string, OpenApiMediaType> => ({
  'application/json': { schema },
})

/** `web_search` and `getWallet` as `WebSearch` and `GetWallet`. */
export const toOpenApiComponentName = (name: string): string =>
  name.replace(/(?:^|[_-])(\w)/g, (_all, letter: string) => letter.toUpperCase())
