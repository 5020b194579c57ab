import type { FastifyInstance, FastifyRequest } from 'fastify'
import { getBackpackCommand } from '../../actors/commands/backpacks-commands.ts'
import { findClosestWord } from '../../core/validation/did-you-mean.ts'
import { backpackPermits } from '../../domain/backpack-spending-permissions.ts'
import { hasKeyScope } from '../auth/api-key-permissions.ts'
import { resolveRequestBackpackId } from '../auth/request-backpack-and-key-binding-check.ts'
import { TOOL_CATEGORIES } from '../routes/tools/tool-categories.ts'
import { JSON_RPC_CODES, McpProtocolError } from './mcp-protocol.ts'
import { toToolSlug, type McpEndpointToolSelection } from './mcp-tool-list.ts'
import type { McpRequest } from './parse-mcp-message.ts'

/** Which tools a client sees: those that its address names, and that its key may call (decision 402). */

/** Returns what the address selects; throws `McpProtocolError` for a tool or category that does not exist. */
export function parseMcpToolSelection(
  { catalogue }: Pick<FastifyInstance['services'], 'catalogue'>,
  { id }: McpRequest,
  { query }: FastifyRequest,
  discoveryOnly: boolean,
): McpEndpointToolSelection {
  const { community, tools, category } = query as Record<string, unknown>
  const fail = (name: string, value: string, near: string | null) => {
    const hint = near === null ? '' : ` Did you mean ${near}?`
    const message = `There is no ${name} ${JSON.stringify(value.slice(0, 100))}.${hint}`
    return new McpProtocolError(JSON_RPC_CODES.invalidParams, message, { status: 200, id })
  }
  const slugs = parseNames(tools).map((name) => {
    const tool = catalogue.find(toToolSlug(name))
    if (tool === undefined) throw fail('tool', name, catalogue.suggestSlug(name))
    return tool.slug
  })
  const categories = parseNames(category)
  for (const one of categories)
    if (!TOOL_CATEGORIES.includes(one as never))
      throw fail('category', one, findClosestWord(one, TOOL_CATEGORIES))
  return {
    discoveryOnly,
    community: community === '1',
    slugs: slugs.length === 0 ? null : new Set(slugs),
    categories: categories.length === 0 ? null : new Set(categories),
  }
}

/** The names of a parameter, which may be repeated, or have several separated by commas. */
const parseNames = (given: unknown): string[] =>
  [given]
    .flat()
    .flatMap((text) => (typeof text === 'string' ? text.split(',') : []))
    .map((name) => name.trim())
    .filter((name) => name !== '')

/**
 * Returns whether the key of a request may call a tool; null where it may call all. Throws what a call would
 * throw for a Backpack that is not there or not the key's.
 */
export async function toolPermissionOf(
  { services }: Pick<FastifyInstance, 'services'>,
  request: FastifyRequest,
): Promise<((slug: string) => boolean) | null> {
  const { apiKey, agentId } = request
  if (apiKey === null) return null
  if (!hasKeyScope(apiKey, 'tools')) return () => false
  const backpackId = resolveRequestBackpackId(request)
  if (backpackId === null) return null
  const touch = [{ kind: 'backpack', id: backpackId }] as const
  const { state, tools } = await services.actors.ask(
    agentId,
    getBackpackCommand,
    { backpackId },
    { touch },
  )
  if (state === 'revoked' || state === 'expired') return () => false
  const isBound = apiKey.backpackId !== null
  return (slug) =>
    backpackPermits(tools, slug) && !(isBound && services.catalogue.find(slug)?.wholeAgent === true)
}
