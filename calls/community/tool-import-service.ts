import type { ActorSystem } from '../../actors/aggregate-command-types.ts'
import {
  registerCommunityToolWithinBuilderLimit,
  createCommunityToolLimitError,
} from '../../actors/commands/register-community-tool-in-builder-slot.ts'
import { SECOND } from '../../core/clock.ts'
import type { NodeRateLimiter } from '../../core/concurrency/node-rate-limiter.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Micros } from '../../core/money.ts'
import type {
  CommunityToolDefinition,
  CommunityToolState,
} from '../../domain/community-tool-record.ts'
import {
  RequestNotSentError,
  type EgressClient,
} from '../../providers/egress/egress-client-port.ts'
import { listMcpTools } from '../../providers/mcp/mcp-streamable-http-client.ts'
import { assertCommunityToolSlugFree } from '../../tools/community/community-tool-slug-check.ts'
import type { ConvertedDefinition } from '../../tools/community/untrusted-worker.ts'
import type { UntrustedWork } from '../../tools/community/untrusted-work-pool.ts'
import {
  nameImportedTools,
  selectImportedTools,
  toSlugPrefix,
} from '../../tools/import/imported-tool.ts'
import {
  countToolChangeWithinLimit,
  type RequestingToolBuilder,
  type CommunityToolReads,
} from './community-tool-service.ts'

/** Imports the operations of an OpenAPI document, or the tools of an MCP server, as priced tools. */

/** What is imported, and from where. Every address comes from the request. */
export interface ToolImport {
  readonly openApiUrl: string | null
  /** Where operations are called; by default the origin of the document and the path of its server. */
  readonly baseUrl: string | null
  readonly mcpUrl: string | null
  readonly prefix: string | null
  /** Operation ids, `METHOD /path`, or names of MCP tools; null for every tool, or every GET. */
  readonly include: readonly string[] | null
  readonly price: Micros
  readonly category: string
  readonly acceptsPromo: boolean
  /** A header that the service itself asks for. */
  readonly credential: { readonly header: string; readonly value: string } | null
}

export interface ImportedToolResult {
  readonly slug: string
  readonly toolId: string
  readonly operation: string
  readonly state: CommunityToolState
  /** False where an earlier import has made it. */
  readonly isNew: boolean
}

export interface ToolImportServiceDeps {
  readonly actors: Pick<ActorSystem, 'ask'>
  readonly store: CommunityToolReads
  readonly nativeSlugs: readonly string[]
  readonly production: boolean
  readonly egress: EgressClient
  /** Throws `blocked_url` for an address that may not be called. */
  readonly checkUrl: (url: string) => Promise<void>
  readonly challenge: {
    verify(agentId: string, url: string, signal: AbortSignal): Promise<void>
  }
  readonly credentials: {
    put(
      builderId: string,
      origin: string,
      credential: ToolImport['credential'],
      at: Date,
    ): Promise<void>
  }
  readonly clock: { now(): number }
  /** Imports, registrations and changes of an agent. */
  readonly changes: NodeRateLimiter
  /** Reads documents and converts them. */
  readonly work: UntrustedWork
  readonly announce: (slug: string) => Promise<void>
  /** What an agent keeps a day; rejects with `daily_bytes_exceeded`. */
  readonly keptBytes: { take(agentId: string, bytes: number): Promise<void> | undefined }
}

/** A tool of a document or server, which is converted only if it is imported. */
interface ReadTool {
  readonly operation: string
  convert(): Promise<ConvertedDefinition>
}

interface ReadService {
  readonly title: string
  readonly origin: string
  readonly tools: readonly ReadTool[]
}

const FETCH_TIMEOUT_MS = 10_000
/** Later than the time of a request, so that the request is the one to say that nobody answers. */
const ABORT_MS = FETCH_TIMEOUT_MS + SECOND

export function createToolImportService(deps: ToolImportServiceDeps) {
  const { store, egress, challenge, clock, changes, work } = deps

  async function assertCallable(url: string, pointer: string): Promise<void> {
    if (!URL.canParse(url)) throw invalidInputError(pointer, 'must be an absolute URL')
    const { protocol, search, hash } = new URL(url)
    if (deps.production && protocol !== 'https:')
      throw invalidInputError(pointer, 'must be an https address')
    if (hash !== '' || (pointer === '/base_url' && search !== ''))
      throw invalidInputError(pointer, 'must have no query and no fragment')
    await deps.checkUrl(url)
  }

  async function readOpenApi(
    builderId: string,
    documentUrl: string,
    { baseUrl, include, category }: ToolImport,
  ): Promise<ReadService> {
    const source = { text: await fetchDocument(egress, documentUrl), documentUrl, baseUrl }
    const { title, operations } = await work.listOperations(builderId, source, include)
    return {
      title,
      origin: new URL(baseUrl ?? documentUrl).origin,
      tools: operations.map(({ at, operation }) => ({
        operation,
        convert: () => work.convertOperation(builderId, { source, at, category }),
      })),
    }
  }

  async function readMcp(
    builderId: string,
    url: string,
    { include, credential, category }: ToolImport,
  ): Promise<ReadService> {
    const connection = {
      url,
      headers: credential === null ? {} : { [credential.header]: credential.value },
      maxBytes: LIMITS.importedDocumentBytes,
      timeoutMs: FETCH_TIMEOUT_MS,
      signal: AbortSignal.timeout(ABORT_MS),
    }
    const { server, tools } = await listMcpTools(
      egress,
      connection,
      LIMITS.importedOperations,
      (reply) => work.readMcpPage(builderId, reply),
    ).catch(toImportRefusal)
    const chosen = include === null ? tools : selectImportedTools(tools, include)
    return {
      title: server,
      origin: new URL(url).origin,
      tools: chosen.map(({ operation, text }) => ({
        operation,
        convert: () => work.convertMcpTool(builderId, { url, tool: text, category }),
      })),
    }
  }

  /**
   * One operation at a time becomes the text that is kept; all together have a bound. They are counted as writes of
   * their builder: no body of a request has them (decision 486).
   */
  async function convertAll(
    builderId: string,
    tools: readonly { readonly slug: string; readonly tool: ReadTool }[],
  ): Promise<Map<string, CommunityToolDefinition>> {
    const definitions = new Map<string, CommunityToolDefinition>()
    let left = LIMITS.importedSourceChars
    let kept = 0
    for (const { slug, tool } of tools) {
      const { text, sourceChars } = await tool.convert()
      left -= sourceChars
      if (left < 0)
        throw new ServiceError('import_refused', {
          detail: `The schemas have more than ${LIMITS.importedSourceChars} characters together: import fewer operations with include.`,
        })
      kept += LIMITS.keptBytesPerWrite + LIMITS.keptCopies * Buffer.byteLength(text)
      definitions.set(slug, JSON.parse(text) as CommunityToolDefinition)
    }
    await deps.keptBytes.take(builderId, kept)
    return definitions
  }

  /**
   * Decides what is called before anything is read: an origin that is not proven gets one request of a fixed path,
   * and no header of the caller's choice (decision 380).
   */
  async function proveCalledOrigin(
    { builderId }: RequestingToolBuilder,
    { openApiUrl, baseUrl, mcpUrl }: ToolImport,
    isOperator: boolean,
  ): Promise<void> {
    if (openApiUrl !== null) await assertCallable(openApiUrl, '/openapi_url')
    else await assertCallable(mcpUrl ?? '', '/mcp_url')
    if (openApiUrl !== null && baseUrl !== null) await assertCallable(baseUrl, '/base_url')
    const called = openApiUrl === null ? mcpUrl : (baseUrl ?? openApiUrl)
    if (!isOperator) await challenge.verify(builderId, called ?? '', AbortSignal.timeout(ABORT_MS))
  }

  return {
    /**
     * Imports all tools or none: nothing is registered before each of them is acceptable. Tools that an earlier
     * import has made stay as they are. `isOperator`: the origin needs no proof, and the number of tools no limit.
     */
    async run(
      builder: RequestingToolBuilder,
      wanted: ToolImport,
      isOperator: boolean,
    ): Promise<ImportedToolResult[]> {
      const { openApiUrl, mcpUrl } = wanted
      if (!isOperator) countToolChangeWithinLimit(changes, builder.builderId)
      await proveCalledOrigin(builder, wanted, isOperator)
      const { builderId } = builder
      const { title, origin, tools } =
        openApiUrl !== null
          ? await readOpenApi(builderId, openApiUrl, wanted)
          : await readMcp(builderId, mcpUrl ?? '', wanted)
      if (tools.length === 0)
        throw new ServiceError('import_refused', { detail: 'There is nothing to import.' })
      const most = isOperator ? Infinity : LIMITS.communityTools
      if (tools.length > most) throw createCommunityToolLimitError()
      const named = nameImportedTools(wanted.prefix ?? toSlugPrefix(title), tools)
      const own = await store.ownOf(builderId, toSlugs(named))
      const known = new Map(own.map((tool) => [tool.slug, tool]))
      const fresh = named.filter(({ slug }) => !known.has(slug))
      const places = await store.placesOf(builderId)
      if (places.length + fresh.length > most) throw createCommunityToolLimitError()
      const taken = await store.lookAlikes(toSlugs(fresh))
      for (const { slug } of fresh) assertCommunityToolSlugFree(slug, deps.nativeSlugs, taken)
      const definitions = await convertAll(builderId, fresh)
      if (wanted.credential !== null) {
        const at = new Date(clock.now())
        await deps.credentials.put(builderId, origin, wanted.credential, at)
      }
      const results: ImportedToolResult[] = []
      for (const { slug, tool } of named) {
        const before = known.get(slug)
        const definition = definitions.get(slug)
        const { operation } = tool
        if (before !== undefined || definition === undefined) {
          const { toolId = '', state = 'retired' } = before ?? {}
          results.push({ slug, toolId, operation, state, isNew: false })
          continue
        }
        const { price, acceptsPromo } = wanted
        const toolId = newUuidV7(clock.now())
        const input = { ...builder, toolId, slug, definition, price, acceptsPromo, proven: true }
        const view = await registerCommunityToolWithinBuilderLimit(deps, input, isOperator)
        await deps.announce(slug)
        results.push({ slug, toolId: view.toolId, operation, state: view.state, isNew: true })
      }
      return results
    },
  }
}
export type ToolImportService = ReturnType<typeof createToolImportService>

const toSlugs = (named: readonly { readonly slug: string }[]): string[] =>
  named.map(({ slug }) => slug)

async function fetchDocument(egress: EgressClient, url: string): Promise<string> {
  const { status, body } = await egress
    .fetch({
      url,
      headers: { accept: 'application/json' },
      maxBytes: LIMITS.importedDocumentBytes,
      timeoutMs: FETCH_TIMEOUT_MS,
      maxRedirects: 0,
      signal: AbortSignal.timeout(ABORT_MS),
    })
    .catch(toImportRefusal)
  if (status === 200) return body.toString('utf8')
  throw new ServiceError('import_refused', { detail: `The document answers ${status}.` })
}

/** What is wrong with an address of the caller is the fault of the request. */
function toImportRefusal(error: unknown): never {
  const reason = error instanceof RequestNotSentError ? error.reason : error
  if (!(reason instanceof ServiceError) || reason.code === 'blocked_url') throw reason
  if (reason.code === 'import_refused') throw reason
  const { limit_bytes: limit } = reason.details
  const size = typeof limit === 'number' ? ` It may have ${limit} bytes.` : ''
  throw new ServiceError(
    'import_refused',
    { reason: reason.code, detail: `${reason.message}${size}` },
    reason,
  )
}
