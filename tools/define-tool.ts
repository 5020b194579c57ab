import type { Static, TSchema } from 'typebox'
import type { DomainEvent } from '../core/domain-events.ts'
import type { Micros } from '../core/money.ts'
import type { PriceShare, EntitlementChange, WatchListChange } from '../core/commit-rows.ts'
import type { ToolAvailability, ToolPorts } from './tool-ports.ts'

export type ToolCategory =
  | 'perception'
  | 'web'
  | 'finance'
  | 'memory'
  | 'intelligence'
  | 'onchain'
  | 'compute'
  | 'comms'

/** Whoever asks, as far as a tool may know: no key, no header, no address. */
export interface ToolCaller {
  readonly agentId: string | null
  readonly fleetId: string | null
  /** A pseudonym of the caller's address. */
  readonly visitor: string
}

/** By whom places are shared out: the agent, or the address without a key. */
export const callerIdOf = ({ agentId, visitor }: ToolCaller): string => agentId ?? visitor

/** One operation that is sold: what it is, what it costs, what it takes and gives. */
export interface Tool<I extends TSchema = TSchema, O extends TSchema = TSchema> {
  readonly slug: string
  readonly name: string
  readonly category: ToolCategory
  readonly description: string
  readonly tags: readonly string[]
  readonly useCases: readonly string[]
  /** Bodies that work; a test runs every one. */
  readonly examples: readonly Static<I>[]
  readonly access: 'paid' | 'free' | 'free_with_key'
  /** Gives a part of its price to somebody else: a payment on a chain settles before it runs. */
  readonly sharesPrice?: true
  /** Acts on the caller's own data: 401 without a key, whatever pays. */
  readonly keyRequired?: true
  /** Tells about all calls of the agent: a key bound to a Backpack may not see them. */
  readonly wholeAgent?: true
  readonly price: Micros | ((input: Static<I>) => Micros)
  /** Free calls a UTC day and address; then the overage is charged, or 429 where it is null. */
  readonly free?: { readonly perDay: number; readonly overage: Micros | null }
  /** The first calls of an agent's life are free; the answer's `free_tier_remaining` counts them. */
  readonly allowance?: { readonly calls: number }
  /** How often an agent may call it a UTC day; a call that fails does not count. */
  readonly quota?: { readonly callsPerDay: number }
  /** An operation with an address of its own: called like any tool, but not in the list of them. */
  readonly unlisted?: true
  /** What a caller without a key pays for a tool that is free with one (decision 6). */
  readonly keyless?: Micros
  readonly input: I
  readonly output: O
  readonly effect: 'none' | 'internal' | 'external'
  /** Reaches other agents, people, sites or chains, and cannot be taken back: a program asks a person first. */
  readonly actsOnOthers?: true
  /** Takes long: what it costs is held in the ledger, by every node, until it ends or its time is over. */
  readonly slow?: true
  readonly timeoutMs: number
  /** Rewrites older spellings of the body before it is validated. */
  readonly normalise?: (body: Record<string, unknown>) => Record<string, unknown>
  readonly availability?: (ports: ToolPorts) => ToolAvailability
  /** Looks, refuses, changes nothing: a refusal here costs nothing. */
  preflight?(input: Static<I>, context: PreflightContext): void | Promise<void>
  run(input: Static<I>, context: ToolContext): Promise<Static<O>>
}

/** What preflight gets: it can look, not act. */
export interface PreflightContext extends ToolPorts {
  readonly caller: ToolCaller
  readonly ghost: 'off' | 'stealth' | 'observe'
  /** Deadline and shutdown in one; in `preflight` also a caller who has left. */
  readonly signal: AbortSignal
  readonly now: () => Date
}

export interface ToolContext extends PreflightContext {
  readonly callId: string
  /**
   * Names the call for what it claims before its commit. A repetition with its Idempotency-Key has the
   * same name: of the two only one can be committed.
   */
  readonly claimant: string
  /**
   * Progress leaves at once. What the tool delivers (`partial`, `text`) leaves when the call has been
   * charged, before its result, and never when it failed.
   */
  readonly emit: (event: ToolEvent) => void
  /**
   * Aborted when the caller has left. It ends the wait for a place and nothing else: work that has
   * begun is finished and paid for.
   */
  readonly callerGone: AbortSignal
  readonly meter: ToolCallMeter
  readonly stage: StagedWrites
  /**
   * For `external`: what follows may change the world, so nothing aborts it from here on. A call that
   * then runs out of time is answered with `outcome_unknown`, and with what is known of it here.
   */
  readonly seal: (known?: Readonly<Record<string, unknown>>) => void
}

export interface ToolCallMeter {
  /** Who answered and how, for `_meta.provider` and `_meta.mode`. */
  served(provider: string, mode: ProviderMode): void
  /** The call answers but costs nothing. */
  waive(reason: string): void
}
export type ProviderMode = 'live' | 'fixture' | 'cache'

/** Collects what rides in the commit of the call; nothing is written when the call fails. */
export interface StagedWrites {
  /** A whole row, every column named, of a table listed in `stageable`. */
  row(table: string, row: Record<string, unknown>): void
  event(event: DomainEvent): void
  /** A part of this price for another agent; nothing where the call costs nothing. */
  credit(share: PriceShare): void
  /** Begins or ends a watch of the caller; the call fails where it has too many. */
  watch(change: WatchListChange): void
  /**
   * Takes back what was claimed outside the commit: it runs when the call has failed and nothing of it is
   * committed, as well as can be. Where that is not known the claim has to end by itself.
   */
  undo(claimed: () => Promise<void>): void
  /** Something the caller owns once, or an order of its memories; the call fails where another was first. */
  changeEntitlement(change: EntitlementChange): void
}

export type ToolEvent =
  | { readonly type: 'text'; readonly delta: string }
  | { readonly type: 'partial'; readonly path: string; readonly value: unknown }
  | {
      readonly type: 'progress'
      readonly step: string
      readonly fraction?: number
      readonly note?: string
    }

/** Types a tool by its own schemas; a tool file's default export is the only use. */
export const defineTool = <I extends TSchema, O extends TSchema>(tool: Tool<I, O>): Tool<I, O> =>
  tool
