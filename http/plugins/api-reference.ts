import scalar from '@scalar/fastify-api-reference'
import type { FastifyInstance } from 'fastify'

/** Serves the API reference page with all its assets, so that it works offline. */
export async function installApiReference(app: FastifyInstance): Promise<void> {
  await app.register(scalar, {
    routePrefix: '/docs',
    configuration: {
      withDefaultFonts: false,
      hideClientButton: true,
      telemetry: false,
      showDeveloperTools: 'never',
      agent: { disabled: true },
    } as object,
    hooks: {
      onRequest(_request, reply, done) {
        reply.header(
          'content-security-policy',
          "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'",
        )
        done()
      },
    },
  })
}
