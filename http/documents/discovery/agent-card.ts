import {
  SERVICE_NAME,
  SERVICE_SUMMARY,
  toToolsByCategory,
  type DiscoveryDocumentInput,
} from './discovery-document-input.ts'

/**
 * The agent card of A2A 1.0, https://a2a-protocol.org/latest/specification/. The service speaks REST and
 * MCP, not the JSON-RPC of A2A: the binding of its interface is the address of its own conventions.
 */
export function describeAgentCard({ publicUrl, version, tools }: DiscoveryDocumentInput) {
  return {
    name: SERVICE_NAME,
    description: SERVICE_SUMMARY,
    version,
    documentationUrl: `${publicUrl}/docs`,
    supportedInterfaces: [
      {
        url: `${publicUrl}/api/refuel`,
        protocolBinding: `${publicUrl}/api/standard`,
        protocolVersion: '1.0',
      },
    ],
    capabilities: { streaming: true, pushNotifications: true },
    securitySchemes: {
      ApiKey: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } },
    },
    securityRequirements: [{ schemes: { ApiKey: { list: [] } } }, { schemes: {} }],
    defaultInputModes: ['application/json'],
    defaultOutputModes: ['application/json'],
    skills: toToolsByCategory(tools).map(({ category, tools: members }) => ({
      id: category,
      name: category,
      description: members.map(({ slug, description }) => `${slug}: ${description}`).join('\n'),
      tags: [...new Set([category, ...members.flatMap(({ tags }) => tags)])],
    })),
  }
}
