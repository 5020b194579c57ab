/** The API catalogue of RFC 9727: which address describes which part of the service. */

export const API_CATALOG_MEDIA_TYPE =
  'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'

/** A link set (RFC 9264) of the HTTP API and the MCP server. */
export function describeApiCatalog({ publicUrl }: { readonly publicUrl: string }) {
  const at = (path: string, type: string) => [{ href: `${publicUrl}${path}`, type }]
  return {
    linkset: [
      {
        anchor: `${publicUrl}/`,
        'service-desc': at('/api/openapi.json', 'application/json'),
        'service-doc': at('/docs', 'text/html'),
        'service-meta': at('/api/standard', 'application/json'),
        status: at('/api/network/health', 'application/json'),
      },
      {
        anchor: `${publicUrl}/mcp`,
        'service-desc': at('/mcp/server-card', 'application/mcp-server-card+json'),
      },
    ],
  }
}
