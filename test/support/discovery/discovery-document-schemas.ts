/**
 * JSON Schemas of discovery documents, written after their specifications. They refuse members that a specification
 * does not name, so that a misspelt one is found.
 */

type Schema = Readonly<Record<string, unknown>>

const text: Schema = { type: 'string', minLength: 1 }
const url: Schema = { type: 'string', pattern: '^https?://[^\\s]+$' }
const list = (items: Schema, minItems = 0): Schema => ({ type: 'array', items, minItems })
const mapOf = (additionalProperties: Schema): Schema => ({ type: 'object', additionalProperties })
/** An object of these members and no others; a name with `?` is optional. */
const record = (members: Readonly<Record<string, Schema>>): Schema => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(members).filter((name) => !name.endsWith('?')),
  properties: Object.fromEntries(
    Object.entries(members).map(([name, schema]) => [name.replace(/\?$/, ''), schema]),
  ),
})

/** A2A 1.0, `AgentCard` of https://a2a-protocol.org/latest/specification/. */
const AGENT_CARD = record({
  name: text,
  description: text,
  supportedInterfaces: list(
    record({ url, protocolBinding: text, protocolVersion: text, 'tenant?': text }),
    1,
  ),
  'provider?': record({ organization: text, url }),
  version: text,
  'documentationUrl?': url,
  'iconUrl?': url,
  capabilities: record({
    'streaming?': { type: 'boolean' },
    'pushNotifications?': { type: 'boolean' },
    'extendedAgentCard?': { type: 'boolean' },
    'extensions?': list(mapOf({})),
  }),
  'securitySchemes?': mapOf({
    type: 'object',
    minProperties: 1,
    maxProperties: 1,
    additionalProperties: false,
    properties: {
      apiKeySecurityScheme: record({
        'description?': text,
        location: { enum: ['query', 'header', 'cookie'] },
        name: text,
      }),
      httpAuthSecurityScheme: record({ 'description?': text, scheme: text, 'bearerFormat?': text }),
    },
  }),
  'securityRequirements?': list(record({ schemes: mapOf(record({ list: list(text) })) })),
  defaultInputModes: list(text, 1),
  defaultOutputModes: list(text, 1),
  skills: list(
    record({
      id: text,
      name: text,
      description: text,
      tags: list(text, 1),
      'examples?': list(text),
      'inputModes?': list(text),
      'outputModes?': list(text),
    }),
    1,
  ),
})

/** https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json. */
const MCP_SERVER_CARD = record({
  $schema: { const: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json' },
  name: { type: 'string', maxLength: 200, pattern: '^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$' },
  'title?': { ...text, maxLength: 100 },
  description: { ...text, maxLength: 100 },
  version: { type: 'string', pattern: '^\\d+\\.\\d+\\.\\d+(-[\\w.]+)?$' },
  'websiteUrl?': url,
  'remotes?': list(
    record({
      type: { enum: ['sse', 'streamable-http'] },
      url,
      'headers?': list(
        record({
          name: text,
          'description?': text,
          'isRequired?': { type: 'boolean' },
          'isSecret?': { type: 'boolean' },
        }),
      ),
      'supportedProtocolVersions?': list({ type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\d$' }, 1),
    }),
    1,
  ),
})

/** The catalogue of MCP servers: its draft has no namespace in the names of entries. */
const MCP_CATALOG = record({
  specVersion: { const: 'draft' },
  entries: list(
    record({
      identifier: { type: 'string', pattern: '^urn:air:[^:]+:[^:]+$' },
      displayName: text,
      type: { const: 'application/mcp-server-card+json' },
      url,
    }),
    1,
  ),
})

/** https://github.com/Agent-Card/ai-catalog, version 1.0. */
const AI_CATALOG = record({
  specVersion: { type: 'string', pattern: '^\\d+\\.\\d+$' },
  'host?': record({ displayName: text, 'identifier?': text, 'documentationUrl?': url }),
  entries: list(
    record({
      identifier: { type: 'string', pattern: '^urn:air:[^:]+(:[^:]+)+:[^:]+$' },
      type: { type: 'string', pattern: '^application/[a-z0-9-]+\\+(json|md|zip|gzip)$' },
      url,
      'displayName?': text,
      'description?': text,
    }),
    1,
  ),
})

/** RFC 9727 and RFC 9264: contexts with an anchor, and targets by their relation. */
const API_CATALOG = record({
  linkset: list(
    {
      type: 'object',
      required: ['anchor'],
      properties: { anchor: url },
      propertyNames: { enum: ['anchor', 'service-desc', 'service-doc', 'service-meta', 'status'] },
      additionalProperties: list(record({ href: url, 'type?': text }), 1),
    },
    1,
  ),
})

/** DID Core 1.0 with Multikey. */
const DID_DOCUMENT = record({
  '@context': list(url, 2),
  id: { type: 'string', pattern: '^did:web:[^:/]+(:[^:/]+)*$' },
  verificationMethod: list(
    record({
      id: { type: 'string', pattern: '^did:web:[^#]+#[\\w-]+$' },
      type: { const: 'Multikey' },
      controller: { type: 'string', pattern: '^did:web:' },
      publicKeyMultibase: { type: 'string', pattern: '^z6Mk[1-9A-HJ-NP-Za-km-z]{44}$' },
    }),
    1,
  ),
  assertionMethod: list({ type: 'string', pattern: '^did:web:[^#]+#[\\w-]+$' }, 1),
  service: list(record({ id: text, type: text, serviceEndpoint: url })),
})

/** x402 version 2: each resource with the terms of its 402. */
const X402_RESOURCES = record({
  version: { const: 1 },
  x402Version: { const: 2 },
  resources: list(url),
  items: list(
    record({
      resource: url,
      type: { const: 'http' },
      method: { const: 'POST' },
      description: text,
      accepts: list(
        record({
          scheme: text,
          network: { type: 'string', pattern: '^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}$' },
          amount: { type: 'string', pattern: '^\\d+$' },
          asset: text,
          payTo: text,
          maxTimeoutSeconds: { type: 'integer', minimum: 1 },
          'extra?': mapOf({}),
        }),
        1,
      ),
    }),
  ),
  instructions: text,
})

/** The plugin manifest of 2023. */
const AI_PLUGIN = record({
  schema_version: { const: 'v1' },
  name_for_human: { ...text, maxLength: 20 },
  name_for_model: { type: 'string', pattern: '^[A-Za-z_]{1,50}$' },
  description_for_human: { ...text, maxLength: 100 },
  description_for_model: { ...text, maxLength: 8_000 },
  auth: record({ type: { const: 'user_http' }, authorization_type: { enum: ['bearer', 'basic'] } }),
  api: record({ type: { const: 'openapi' }, url }),
  logo_url: url,
  contact_email: { type: 'string', pattern: '^[^@\\s]+@[^@\\s]+$' },
  legal_info_url: url,
})

/** The schema of each discovery document that is JSON, by its address. */
export const DISCOVERY_DOCUMENT_SCHEMAS: Readonly<Record<string, Schema>> = {
  '/.well-known/agent-card.json': AGENT_CARD,
  '/.well-known/agent.json': AGENT_CARD,
  '/mcp/server-card': MCP_SERVER_CARD,
  '/.well-known/mcp/server-card.json': MCP_SERVER_CARD,
  '/.well-known/mcp.json': MCP_SERVER_CARD,
  '/.well-known/mcp/catalog.json': MCP_CATALOG,
  '/.well-known/ai-catalog.json': AI_CATALOG,
  '/.well-known/api-catalog': API_CATALOG,
  '/.well-known/did.json': DID_DOCUMENT,
  '/.well-known/x402': X402_RESOURCES,
  '/.well-known/ai-plugin.json': AI_PLUGIN,
}

/** The grammar of each discovery document that is text, by its address. */
export const DISCOVERY_TEXT_DOCUMENT_GRAMMARS: Readonly<Record<string, RegExp>> = {
  // https://llmstxt.org: a title, a summary, then sections of links with notes.
  '/llms.txt': /^# .+\n\n> .+\n\n(## .+\n\n(- \[[^\]\n]+\]\(https?:\/\/[^)\s]+\): .+\n)+(\n|$))+$/,
  '/llms-full.txt': /^# .+\n\n> .+\n\n## [^]+\n## Every tool\n/,
  // https://agentskills.io: name and description in the front matter.
  '/skill.md': /^---\nname: [a-z0-9-]{1,64}\ndescription: .{20,1024}\n---\n\n# .+\n/,
  // RFC 9309.
  '/robots.txt': /^User-agent: \*\nAllow: \/\n\nSitemap: https?:\/\/\S+\/sitemap\.xml\n$/,
  // RFC 9116: one Expires, a Contact, and fields that it names.
  '/.well-known/security.txt':
    /^Contact: mailto:\S+\n(?!(?:[^]*\nExpires:){2})((Expires|Preferred-Languages|Canonical): \S+\n)+$/,
  // https://www.sitemaps.org/protocol.html.
  '/sitemap.xml':
    /^<\?xml version="1\.0" encoding="UTF-8"\?>\n<urlset xmlns="http:\/\/www\.sitemaps\.org\/schemas\/sitemap\/0\.9">\n( {2}<url><loc>https?:\/\/[^<>&\s]+<\/loc><\/url>\n)+<\/urlset>\n$/,
}
