import { LEGACY_MCP_VERSIONS, MODERN_MCP_VERSION } from '../../mcp/mcp-protocol.ts'
import {
  SERVICE_NAME,
  SERVICE_TAGLINE,
  toReverseDnsName,
  type DiscoveryDocumentInput,
} from './discovery-document-input.ts'

/** How clients of MCP find the server: its card, and the catalogues that name the card. */

export const MCP_SERVER_CARD_MEDIA_TYPE = 'application/mcp-server-card+json'
export const AI_CATALOG_MEDIA_TYPE = 'application/ai-catalog+json'
const SERVER_CARD_SCHEMA =
  'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json'

type Address = Pick<DiscoveryDocumentInput, 'publicUrl' | 'version'>

/** The server card: where the server is and how it is reached. It lists no tools. */
export function describeMcpServerCard({ publicUrl, version }: Address) {
  const { hostname } = new URL(publicUrl)
  return {
    $schema: SERVER_CARD_SCHEMA,
    name: `${toReverseDnsName(hostname)}/gas-station`,
    title: SERVICE_NAME,
    description: SERVICE_TAGLINE,
    version,
    websiteUrl: `${publicUrl}/`,
    remotes: [
      {
        type: 'streamable-http',
        url: `${publicUrl}/mcp`,
        headers: [
          {
            name: 'X-API-Key',
            description:
              'The key of an agent. Without one, free tools and paid calls by x402 or MPP.',
            isRequired: false,
            isSecret: true,
          },
        ],
        supportedProtocolVersions: [MODERN_MCP_VERSION, ...LEGACY_MCP_VERSIONS],
      },
    ],
  }
}

/** The catalogue of MCP servers at this host (https://github.com/modelcontextprotocol/ext-server-card). */
export function describeMcpCatalog({ publicUrl }: Pick<Address, 'publicUrl'>) {
  return {
    specVersion: 'draft',
    entries: [
      {
        identifier: `urn:air:${toPublisher(publicUrl)}:gas-station`,
        displayName: SERVICE_NAME,
        type: MCP_SERVER_CARD_MEDIA_TYPE,
        url: `${publicUrl}/mcp/server-card`,
      },
    ],
  }
}

/** The catalogue of everything that agents find at this host (https://github.com/Agent-Card/ai-catalog). */
export function describeAiCatalog({ publicUrl }: Pick<Address, 'publicUrl'>) {
  const entry = (kind: string, type: string, path: string) => ({
    identifier: `urn:air:${toPublisher(publicUrl)}:${kind}:gas-station`,
    type,
    url: `${publicUrl}${path}`,
  })
  return {
    specVersion: '1.0',
    host: { displayName: SERVICE_NAME, documentationUrl: `${publicUrl}/docs` },
    entries: [
      entry('mcp', MCP_SERVER_CARD_MEDIA_TYPE, '/mcp/server-card'),
      entry('a2a', 'application/a2a-agent-card+json', '/.well-known/agent-card.json'),
      {
        ...entry('skill', 'application/agent-skills+md', '/skill.md'),
        displayName: SERVICE_NAME,
        description: SERVICE_TAGLINE,
      },
    ],
  }
}

/** The host in names of catalogue entries, whose parts are separated by colons. */
const toPublisher = (publicUrl: string): string =>
  new URL(publicUrl).hostname.replace(/[[\]]/g, '').replaceAll(':', '-')
