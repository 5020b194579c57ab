import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import {
  sendPrecompressedContent,
  toPrecompressedContent,
  type PrecompressedContent,
} from '../../precompressed-content.ts'

/** Routes for the stylesheet and the scripts of the pages. */

const Name = Type.String({ maxLength: 64 })
const getAsset = {
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: { hide: true, params: Type.Object({ version: Name, name: Name }) },
} as const

/** Assets are read and compressed once. An address with their version never changes its content. */
export const pageAssetRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { pages } = app.services
  const kept = new Map<string, PrecompressedContent>()

  function assetOf(name: string): PrecompressedContent {
    const known = kept.get(name)
    if (known !== undefined) return known
    const file = pages.asset(name)
    if (file === null) throw new ServiceError('not_found')
    const content = toPrecompressedContent(file.type, file.body)
    kept.set(name, content)
    return content
  }

  app.get('/assets/:version/:name', getAsset, async (request, reply) => {
    const { version, name } = request.params
    const asset = assetOf(name)
    const isCurrent = version === pages.assetsVersion()
    reply
      .header('cache-control', isCurrent ? 'public, max-age=31536000, immutable' : 'no-cache')
      .header('x-content-type-options', 'nosniff')
    sendPrecompressedContent(request, reply, asset)
    return reply
  })
}
