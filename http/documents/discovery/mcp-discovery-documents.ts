import { LEGACY_MCP_VERSIONS, MODERN_MCP_VERSION } from '../../mcp/mcp-protocol.ts'
import {
  SERVICE_NAME,
  SERVICE_SUMMARY,
  toReverseDnsName,
  type ServiceDescriptor,
} from './service-descriptor.ts'

/** How clients of MCP find the server: its card, and the catalogue of cards. */

export const MCP_SERVER_CARD_TYPE = 'application/mcp-server-card+json'
const SERVER_CARD_SCHEMA =
  'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json'

type Address = Pick<ServiceDescriptor, 'publicUrl' | 'version'>

/** The server card: where the server is and how it is reached. It lists no tools. */
export function describeMcpServerCard({ publicUrl, version }: Address) {
  const { hostname } = new URL(publicUrl)
  return {
    $schema: SERVER_CARD_SCHEMA,
    name: `${toReverseDnsName(hostname)}/gas-station`,
    title: SERVICE_NAME,
    description: SERVICE_SUMMARY,
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

/** The catalogue of cards at this host. */
export function describeMcpCatalog({ publicUrl }: Pick<Address, 'publicUrl'>) {
  const { hostname } = new URL(publicUrl)
  return {
    specVersion: 'draft',
    entries: [
      {
        identifier: `urn:air:${hostname}:gas-station`,
        displayName: SERVICE_NAME,
        type: MCP_SERVER_CARD_TYPE,
        url: `${publicUrl}/mcp/server-card`,
      },
    ],
  }
}
