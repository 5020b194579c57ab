import { isDeepStrictEqual } from 'node:util'
import type { ActorSystem } from '../../actors/aggregate-command-types.ts'
import {
  changeCommunityToolCommand,
  retireCommunityToolCommand,
  requestCommunityToolVerificationCommand,
  type CommunityToolView,
} from '../../actors/commands/community-tool-commands.ts'
import {
  registerCommunityToolWithinBuilderLimit,
  createCommunityToolLimitError,
  type RegisterCommunityToolDeps,
} from '../../actors/commands/register-community-tool-in-builder-slot.ts'
import {
  createNodeRateLimiter,
  type NodeRateLimiter,
} from '../../core/concurrency/node-rate-limiter.ts'
import { HOUR, SECOND, type Clock } from '../../core/clock.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Micros } from '../../core/money.ts'
import {
  communityToolAggregateId,
  type CommunityToolDefinition,
  type CommunityToolRecord,
} from '../../domain/community-tool-record.ts'
import { deriveCommunityToolSigningSecret } from '../../tools/community/forward-community-tool-call.ts'
import { assertCommunityToolSlugFree } from '../../tools/community/community-tool-slug-check.ts'
import type { ListedOwnTool, OwnCommunityTool } from '../../domain/community-tool-record.ts'
import type { UntrustedWork } from '../../tools/community/untrusted-work-pool.ts'
import { toCommunityToolSlug } from '../../tools/community/community-tool-registry.ts'

/** Registers, changes, submits and retires tools that agents sell. */

/** Reads of tools, as the store answers them. */
export interface CommunityToolReads extends Pick<
  RegisterCommunityToolDeps['store'],
  'placesOf' | 'lookAlikes'
> {
  find(slug: string): Promise<CommunityToolRecord | null>
  pageOf(builderId: string, limit: number, after: string | null): Promise<ListedOwnTool[]>
  ownOf(builderId: string, slugs: readonly string[]): Promise<readonly OwnCommunityTool[]>
}

/** The origin of an endpoint and whether it shows the token of its builder. */
export interface EndpointOriginCheck {
  readonly url: string
  readonly token: string
  readonly passed: boolean
  /** Why it has not passed; null if it has. */
  readonly problem: string | null
}

export interface CommunityToolServiceDeps {
  readonly actors: Pick<ActorSystem, 'ask'>
  readonly store: CommunityToolReads
  /** Slugs that the station uses itself. */
  readonly nativeSlugs: readonly string[]
  readonly production: boolean
  /** Throws `blocked_url` for an address that may not be called. */
  readonly checkUrl: (url: string) => Promise<void>
  readonly challenge: {
    tokenFor(agentId: string, url: string): { readonly url: string; readonly token: string }
    verify(agentId: string, url: string, signal: AbortSignal): Promise<void>
  }
  /** Checks what agents say of their tools. */
  readonly work: Pick<UntrustedWork, 'check'>
  /** Imports, registrations and changes of an agent. */
  readonly changes: NodeRateLimiter
  /** Makes the secrets of builders (purpose `builders`). */
  readonly key: Buffer
  /** Tells every node that a tool has changed. */
  readonly announce: (slug: string) => Promise<void>
}

/** Each may call addresses that the agent names, so their number has a limit on each node. */
export const createToolChangeLimiter = (clock: Pick<Clock, 'mono'>): NodeRateLimiter =>
  createNodeRateLimiter(clock, {
    name: 'tool_changes',
    subject: 'imports, registrations and changes of tools',
    max: LIMITS.communityToolChangesPerHour,
    per: 'agent',
    windowSeconds: HOUR / SECOND,
  })

/** Throws `rate_limited` above the limit. */
export function countToolChangeWithinLimit(changes: NodeRateLimiter, builderId: string): void {
  changes.assertWithinLimit(builderId)
  changes.recordHit(builderId)
}

/** Who asks, and from where. */
export interface RequestingToolBuilder {
  readonly builderId: string
  readonly builderName: string
  readonly builderVisitor: string
}

export interface NewCommunityTool {
  readonly slug: string
  readonly definition: CommunityToolDefinition
  readonly price: Micros
  readonly acceptsPromo: boolean
}

/** A tool after a change; `secret` only where it is new. */
export interface ChangedCommunityTool {
  readonly view: CommunityToolView
  readonly secret: string | null
  readonly challenge: EndpointOriginCheck | null
}

/** What a builder may change. A field that is absent stays. */
export interface CommunityToolPatch {
  readonly definition?: Partial<CommunityToolDefinition>
  readonly price?: Micros
  readonly acceptsPromo?: boolean
  readonly rotateSecret?: boolean
}

export function createCommunityToolService(deps: CommunityToolServiceDeps) {
  const { actors, store, challenge, announce } = deps

  /** The tool of a builder; 404 for an unknown one, 403 for that of another agent. */
  async function requireOwn(name: string, builderId: string): Promise<CommunityToolRecord> {
    const tool = await store.find(toCommunityToolSlug(name))
    if (tool === null) throw new ServiceError('unknown_tool', { tool: name })
    if (tool.builderId !== builderId) throw new ServiceError('tool_not_yours', { tool: tool.slug })
    if (tool.state === 'retired') throw new ServiceError('tool_retired', { tool: tool.slug })
    return tool
  }

  async function assertEndpointCallable({ forward }: CommunityToolDefinition): Promise<void> {
    const pointer = '/endpoint_url'
    if (!URL.canParse(forward.url)) throw invalidInputError(pointer, 'must be an absolute URL')
    const url = new URL(forward.url)
    if (deps.production && url.protocol !== 'https:')
      throw invalidInputError(pointer, 'must be an https address')
    if (url.hash !== '') throw invalidInputError(pointer, 'must have no fragment')
    await deps.checkUrl(forward.url)
  }

  /** A failing challenge is no error: the tool waits for it. */
  async function proveEndpoint(builderId: string, url: string): Promise<EndpointOriginCheck> {
    const wanted = challenge.tokenFor(builderId, url)
    try {
      await challenge.verify(builderId, url, AbortSignal.timeout(LIMITS.communityCallMs))
      return { ...wanted, passed: true, problem: null }
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      const problem = String(error.details.detail ?? error.message)
      return { ...wanted, passed: false, problem }
    }
  }

  const secretOf = ({ toolId, context: { secretNumber } }: CommunityToolView): string =>
    deriveCommunityToolSigningSecret(deps.key, { toolId, secretNumber })

  return {
    /** Throws unless the tool may be registered. Changes nothing. */
    async admit({ builderId }: RequestingToolBuilder, wanted: NewCommunityTool): Promise<void> {
      countToolChangeWithinLimit(deps.changes, builderId)
      const { slug, definition } = wanted
      assertCommunityToolSlugFree(slug, deps.nativeSlugs, await store.lookAlikes([slug]))
      if ((await store.placesOf(builderId)).length >= LIMITS.communityTools)
        throw createCommunityToolLimitError()
      await deps.work.check(builderId, definition, null)
      await assertEndpointCallable(definition)
    },

    /** Registers a tool after `admit`. Repeating it with the same id changes nothing. */
    async register(
      builder: RequestingToolBuilder,
      wanted: NewCommunityTool,
      toolId: string,
    ): Promise<ChangedCommunityTool> {
      const { slug, definition } = wanted
      const proof = await proveEndpoint(builder.builderId, definition.forward.url)
      const input = { ...builder, ...wanted, toolId, proven: proof.passed }
      const view = await registerCommunityToolWithinBuilderLimit(deps, input)
      await announce(slug)
      return { view, secret: secretOf(view), challenge: proof }
    },

    /**
     * Changes a tool. Another endpoint has to pass the challenge first, and the same one may be proven again;
     * without a proof such a change is refused. Schemas may change only so that earlier inputs stay valid.
     */
    async change(
      name: string,
      { builderId, builderVisitor }: RequestingToolBuilder,
      patch: CommunityToolPatch,
    ): Promise<ChangedCommunityTool> {
      const before = await requireOwn(name, builderId)
      countToolChangeWithinLimit(deps.changes, builderId)
      const { slug } = before
      const definition =
        patch.definition === undefined ? null : { ...before.definition, ...patch.definition }
      let proof: EndpointOriginCheck | null = null
      if (definition !== null) {
        await deps.work.check(builderId, definition, before.definition)
        if (patch.definition?.forward !== undefined) {
          await assertEndpointCallable(definition)
          proof = await proveEndpoint(builderId, definition.forward.url)
          if (!proof.passed)
            throw new ServiceError('origin_unproven', {
              detail: proof.problem ?? '',
              challenge: { url: proof.url, token: proof.token },
            })
        }
      }
      const view = await actors.ask(communityToolAggregateId(slug), changeCommunityToolCommand, {
        builderId,
        builderVisitor,
        price: patch.price ?? null,
        noticeMs: LIMITS.communityPriceNoticeHours * HOUR,
        acceptsPromo: patch.acceptsPromo ?? null,
        // Only what the request names: a change at the same time may have changed the rest.
        definition: patch.definition ?? null,
        revised: definition !== null && !isDeepStrictEqual(definition, before.definition),
        proven: proof !== null,
        rotateSecret: patch.rotateSecret === true,
      })
      await announce(slug)
      return { view, secret: patch.rotateSecret === true ? secretOf(view) : null, challenge: proof }
    },

    async submit(name: string, builderId: string): Promise<CommunityToolView> {
      const { slug } = await requireOwn(name, builderId)
      const id = communityToolAggregateId(slug)
      const view = await actors.ask(id, requestCommunityToolVerificationCommand, { builderId })
      await announce(slug)
      return view
    },

    /** Ends a tool for good. Repeating it changes nothing. */
    async retire(name: string, builderId: string): Promise<CommunityToolView> {
      const slug = toCommunityToolSlug(name)
      if ((await store.find(slug)) === null) throw new ServiceError('unknown_tool', { tool: name })
      const id = communityToolAggregateId(slug)
      const view = await actors.ask(id, retireCommunityToolCommand, { builderId })
      await announce(slug)
      return view
    },

    pageOf: store.pageOf,

    /** Tells every node that public places name the builder of these tools, or no longer do. */
    async announceToolsOf(builderId: string): Promise<void> {
      for (const { slug } of await store.placesOf(builderId)) await announce(slug)
    },

    /** What the origin of an endpoint has to show. */
    tokenFor: (builderId: string, url: string) => challenge.tokenFor(builderId, url),
  }
}
export type CommunityToolService = ReturnType<typeof createCommunityToolService>
