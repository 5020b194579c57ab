import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { ServiceError } from '../../../core/errors.ts'
import { COOKBOOK_RECIPES } from '../../../domain/cookbook-recipes.ts'
import { isVerifiedTool } from '../../../tools/tool-catalogue.ts'
import { selectToolsForModels } from '../../../tools/tools-shown-to-models.ts'
import { createCachedDocumentHandler } from '../../cached-http-document.ts'
import { describeAgentCard } from '../../documents/discovery/agent-card.ts'
import {
  API_CATALOG_MEDIA_TYPE,
  describeApiCatalog,
} from '../../documents/discovery/api-catalog.ts'
import { writeRobotsText, writeSitemap } from '../../documents/discovery/crawler-files.ts'
import {
  writeFullLlmsText,
  writeLlmsText,
  writeAgentSkillPage,
} from '../../documents/discovery/llms-text.ts'
import {
  AI_CATALOG_MEDIA_TYPE,
  describeAiCatalog,
  describeMcpCatalog,
  describeMcpServerCard,
  MCP_SERVER_CARD_MEDIA_TYPE,
} from '../../documents/discovery/mcp-discovery-documents.ts'
import {
  describeAiPlugin,
  writeSecurityText,
  type OperatorContact,
} from '../../documents/discovery/operator-contact-files.ts'
import type { DiscoveryDocumentInput } from '../../documents/discovery/discovery-document-input.ts'
import { describeX402Resources } from '../../documents/discovery/x402-resources.ts'

/** Routes for the documents by which agents, crawlers and models find the station. */

const JSON_TYPE = 'application/json; charset=utf-8'
const MARKDOWN = 'text/markdown; charset=utf-8'
const PLAIN_TEXT = 'text/plain; charset=utf-8'

const documentRoute = {
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: { hide: true },
}

interface DiscoveryDocument {
  readonly paths: readonly string[]
  readonly type: string
  readonly write: () => string
}

/** All documents come from one descriptor and the catalogue: none can say something else than the others. */
export const discoveryDocumentRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { catalogue, clock, config, pages, paying } = app.services
  const { publicUrl, version } = config
  /** Models read these: native and verified tools, and the words of builders marked as theirs. */
  const describe = (): DiscoveryDocumentInput => ({
    publicUrl,
    version,
    tools: selectToolsForModels(catalogue.short(isVerifiedTool), { community: false }),
  })
  const contact = (): OperatorContact => {
    if (config.operatorContact !== null) return { publicUrl, email: config.operatorContact }
    const detail =
      'The operator of this station has published no contact: the setting OPERATOR_CONTACT is not set.'
    throw new ServiceError('not_found', { detail })
  }
  const json = (paths: readonly string[], read: () => unknown, type = JSON_TYPE) => ({
    ...{ paths, type },
    write: () => JSON.stringify(read()),
  })
  const text = (path: string, type: string, write: () => string) => ({ paths: [path], type, write })

  const documents: DiscoveryDocument[] = [
    json(['/.well-known/agent-card.json', '/.well-known/agent.json'], () =>
      describeAgentCard(describe()),
    ),
    json(
      ['/mcp/server-card', '/.well-known/mcp/server-card.json', '/.well-known/mcp.json'],
      () => describeMcpServerCard(config),
      MCP_SERVER_CARD_MEDIA_TYPE,
    ),
    json(['/.well-known/mcp/catalog.json'], () => describeMcpCatalog(config)),
    json(['/.well-known/ai-catalog.json'], () => describeAiCatalog(config), AI_CATALOG_MEDIA_TYPE),
    json(['/.well-known/x402'], () =>
      describeX402Resources({ publicUrl, tools: catalogue.tools, paying }),
    ),
    json(['/.well-known/api-catalog'], () => describeApiCatalog(config), API_CATALOG_MEDIA_TYPE),
    text('/llms.txt', MARKDOWN, () => writeLlmsText(describe())),
    text('/llms-full.txt', MARKDOWN, () => writeFullLlmsText(describe())),
    text('/skill.md', MARKDOWN, () => writeAgentSkillPage(describe())),
    text('/.well-known/security.txt', PLAIN_TEXT, () => writeSecurityText(contact(), clock.now())),
    json(['/.well-known/ai-plugin.json'], () => describeAiPlugin(contact(), describe())),
    text('/robots.txt', PLAIN_TEXT, () => writeRobotsText(publicUrl)),
    text('/sitemap.xml', 'application/xml; charset=utf-8', () =>
      writeSitemap(
        publicUrl,
        pagesOf(
          catalogue.short(),
          pages.guides().map(({ slug }) => slug),
        ),
      ),
    ),
  ]
  for (const { paths, type, write } of documents) {
    const send = createCachedDocumentHandler({ clock, type, read: write })
    for (const path of paths)
      app.get(path, documentRoute, (request, reply) => {
        reply
          .header('cache-control', 'public, max-age=3600')
          .header('x-content-type-options', 'nosniff')
        send(request, reply)
      })
  }
}

/** The pages for people, by their paths. What agents write is left to their own links. */
const pagesOf = (tools: DiscoveryDocumentInput['tools'], guides: readonly string[]): string[] => [
  ...['/', '/docs', '/docs/reference', ...guides.map((slug) => `/docs/${slug}`)],
  ...['/cookbook', ...COOKBOOK_RECIPES.map(({ slug }) => `/cookbook/${slug}`)],
  ...['/bounties', '/marketplace', '/hall-of-agents', '/problems'],
  ...tools.map(({ slug }) => `/tools/${slug}`),
]
