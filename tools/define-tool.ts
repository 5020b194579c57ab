import type { Static, TSchema } from 'typebox'
import type { DomainEvent } from '../core/domain-events.ts'
import type { Micros } from '../core/money.ts'
import type { WorkerPlace } from '../core/concurrency/worker-pool.ts'
import type {
  PriceShare,
  OwnershipOrMemoryReorganization,
  HiveWatchListChange,
} from '../core/aggregate-commit-row-types.ts'
import type { CommunityToolRecord } from '../domain/community-tool-record.ts'
import type { ValidationIssue } from '../core/validation/validation-errors.ts'
import type { ToolAvailability, ToolPorts } from './tool-ports.ts'

/** The contract of a tool: its metadata, context and staged writes. */

export type ToolCategory =
  | 'perception'
  | 'web'
  | 'finance'
  | 'memory'
  | 'intelligence'
  | 'onchain'
  | 'compute'
  | 'comms'

/** The caller as tools see it, without keys, headers or addresses. */
export interface ToolCallerIdentity {
  readonly agentId: string | null
  readonly fleetId: string | null
  /** A pseudonym of the caller's address. */
  readonly visitor: string
  /** A pseudonym of the /48 of an IPv6 address. */
  readonly site: string | null
}

/** Returns the identity that shares capacity: the agent, or without a key the address or IPv6 /48. */
export const callerIdOf = ({ agentId, site, visitor }: ToolCallerIdentity): string =>
  agentId ?? site ?? visitor

/** The place of a call in the queues of worker processes: its caller's, until its deadline. */
export const workerPlaceOf = ({
  caller,
  signal,
}: Pick<ToolPreflightContext, 'caller' | 'signal'>): WorkerPlace => ({
  owner: callerIdOf(caller),
  signal,
})

/** What differs for a tool that an agent sells. */
export interface CommunityToolTraits {
  readonly record: CommunityToolRecord
  /** The price that is shown: it may have risen, while calls still cost what was quoted before. */
  readonly quotedPrice: Micros
  /** Whether the caller is its builder: such a call costs nothing, so it holds nothing either. */
  isFreeFor(caller: Pick<ToolCallerIdentity, 'agentId'>): boolean
  /** Whether promotional credits do not pay the call of this caller. */
  takesCashOnly(caller: Pick<ToolCallerIdentity, 'agentId'>): boolean
  /** Throws `tool_not_active` or `tool_retired`; costs nothing, so it comes before the input is looked at. */
  assertCallable(caller: Pick<ToolCallerIdentity, 'agentId'>): void
  /** Returns what is wrong with an input; `owner` is whose work that is. */
  validateInput(input: unknown, owner: string): Promise<readonly ValidationIssue[]>
}

/** A paid operation: its metadata, price, input and output. */
export interface Tool<I extends TSchema = TSchema, O extends TSchema = TSchema> {
  readonly slug: string
  readonly name: string
  readonly category: ToolCategory
  readonly description: string
  readonly tags: readonly string[]
  readonly useCases: readonly string[]
  /** Working bodies; a test runs each one. */
  readonly examples: readonly Static<I>[]
  readonly access: 'paid' | 'free' | 'free_with_key'
  /** Shares its price with another agent, so an on-chain payment settles before it runs, or before its answer is released. */
  readonly sharesPrice?: true
  /** Acts on the caller's own data: 401 without a key, also with a payment. */
  readonly keyRequired?: true
  /** Reports on all calls of the agent, so keys bound to a Backpack are refused. */
  readonly wholeAgent?: true
  readonly price: Micros | ((input: Static<I>) => Micros)
  /** Free calls per UTC day and address; after that the overage is charged, or 429 where it is null. */
  readonly free?: { readonly perDay: number; readonly overage: Micros | null }
  /** Free calls per agent, once; `free_tier_remaining` of the reply counts them down. */
  readonly allowance?: { readonly calls: number }
  /** Only deposited credits pay it: no promotional ones, and no task pass. */
  readonly cashOnly?: true
  /** Calls per agent and UTC day; failed calls do not count. */
  readonly quota?: { readonly callsPerDay: number }
  /** Has an address of its own and is not listed. */
  readonly unlisted?: true
  /** Price without a key of a tool that is free with one (decision 6). */
  readonly keyless?: Micros
  readonly input: I
  readonly output: O
  readonly effect: 'none' | 'internal' | 'external'
  /**
   * Affects other agents, people, sites or chains irreversibly; clients should confirm with a person first.
   */
  readonly actsOnOthers?: true
  /** Runs long: its charge is held in the ledger, visible to every node, until it ends or times out. */
  readonly slow?: true
  /**
   * Answers at once from its input and this node's memory, which it may have to fill, without external effects. The call is
   * admitted and charged in one command after the run, so a rejected call has run it for nothing.
   */
  readonly instant?: true
  readonly timeoutMs: number
  /** Set for a tool that an agent sells; absent for native tools. */
  readonly community?: CommunityToolTraits
  /** Rewrites older forms of the body before validation. */
  readonly normalise?: (body: Record<string, unknown>) => Record<string, unknown>
  readonly availability?: (ports: ToolPorts) => ToolAvailability
  /** Validates without side effects; a refusal here is not charged. */
  preflight?(input: Static<I>, context: ToolPreflightContext): void | Promise<void>
  run(input: Static<I>, context: ToolContext): Promise<Static<O>>
}

/** A context with some fields replaced. It inherits the rest: a spread would lose the ports. */
export const deriveToolContext = (
  context: ToolContext,
  changes: Partial<ToolContext>,
): ToolContext => ({ __proto__: context, ...changes }) as unknown as ToolContext

/** The context of `preflight`, which may read but not act. */
export interface ToolPreflightContext extends ToolPorts {
  readonly caller: ToolCallerIdentity
  readonly ghost: 'off' | 'stealth' | 'observe'
  /** Aborted by the deadline or a shutdown; in `preflight` also when the caller disconnects. */
  readonly signal: AbortSignal
  readonly now: () => Date
}

export interface ToolContext extends ToolPreflightContext {
  readonly callId: string
  /** What the call costs for the tool itself, without the fee of a schedule. */
  readonly price: Micros
  /**
   * Identifies the call for claims made before its commit. A retry with the same Idempotency-Key has the same
   * claimant, so only one of them can commit.
   */
  readonly claimant: string
  /**
   * Emits an event. Progress is sent at once. Output (`partial`, `text`) is sent after the call is charged
   * and before its result, and never for a failed call.
   */
  readonly emit: (event: ToolStreamEvent) => void
  /**
   * Aborted when the caller disconnects. It ends only the wait for capacity: work that has started is
   * finished and charged.
   */
  readonly callerGone: AbortSignal
  readonly meter: ToolProviderAndWaiverReporter
  readonly stage: StagedWrites
  /**
   * For `external` tools: marks that side effects follow, so nothing aborts the call from here on. If it then
   * times out, it is answered with `outcome_unknown` and `known`.
   */
  readonly seal: (known?: Readonly<Record<string, unknown>>) => void
}

export interface ToolProviderAndWaiverReporter {
  /** Sets `_meta.provider` and `_meta.mode`. */
  served(provider: string, mode: ProviderMode): void
  /** Makes a successful call free. */
  waive(reason: string): void
}
export type ProviderMode = 'live' | 'fixture' | 'cache'

/** Collects writes for the commit of the call; nothing is written when the call fails. */
export interface StagedWrites {
  /** Stages a row, with every column, of a table listed in `stageable`. */
  row(table: string, row: Record<string, unknown>): void
  event(event: DomainEvent): void
  /** Credits a share of the price to another agent; nothing where the call is free. */
  credit(share: PriceShare): void
  /** Starts or ends a watch of the caller; the call fails above its limit. */
  watch(change: HiveWatchListChange): void
  /**
   * Registers the release of a claim made outside the commit. It runs, best effort, when the call has failed
   * and nothing is committed. Where the outcome is unknown, the claim must expire by itself.
   */
  undo(claimed: () => Promise<void>): void
  /**
   * Changes an entitlement or the order of the caller's memories; the call fails if another call changed it
   * first.
   */
  changeEntitlement(change: OwnershipOrMemoryReorganization): void
}

export type ToolStreamEvent =
  | { readonly type: 'text'; readonly delta: string }
  | { readonly type: 'partial'; readonly path: string; readonly value: unknown }
  | {
      readonly type: 'progress'
      readonly step: string
      readonly fraction?: number
      readonly note?: string
    }

/** Infers a tool's types from its schemas; used for the default export of a tool file only. */
export const defineTool = <I extends TSchema, O extends TSchema>(tool: Tool<I, O>): Tool<I, O> =>
  tool
