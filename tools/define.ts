import type { Static, TSchema } from 'typebox'
import type { DomainEvent } from '../core/events.ts'
import type { Micros } from '../core/money.ts'
import type { Availability, Ports } from './ports.ts'

export type Category =
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

/** One operation that is sold: what it is, what it costs, what it takes and gives. */
export interface Tool<I extends TSchema = TSchema, O extends TSchema = TSchema> {
  readonly slug: string
  readonly name: string
  readonly category: Category
  readonly description: string
  readonly tags: readonly string[]
  readonly useCases: readonly string[]
  /** Bodies that work; a test runs every one. */
  readonly examples: readonly Static<I>[]
  readonly access: 'paid' | 'free' | 'free_with_key'
  /** Acts on the caller's own data: 401 without a key, whatever pays. */
  readonly keyRequired?: true
  readonly price: Micros | ((input: Static<I>) => Micros)
  /** Free calls a UTC day and address; then the overage is charged, or 429 where it is null. */
  readonly free?: { readonly perDay: number; readonly overage: Micros | null }
  /** What a caller without a key pays for a tool that is free with one (decision 6). */
  readonly keyless?: Micros
  readonly input: I
  readonly output: O
  readonly effect: 'none' | 'internal' | 'external'
  readonly timeoutMs: number
  /** Rewrites older spellings of the body before it is validated. */
  readonly normalise?: (body: Record<string, unknown>) => Record<string, unknown>
  readonly availability?: (ports: Ports) => Availability
  /** Looks, refuses, changes nothing: a refusal here costs nothing. */
  preflight?(input: Static<I>, context: Asking): void | Promise<void>
  run(input: Static<I>, context: ToolContext): Promise<Static<O>>
}

/** What preflight gets: it can look, not act. */
export interface Asking extends Ports {
  readonly caller: ToolCaller
  readonly ghost: 'off' | 'stealth' | 'observe'
  /** Deadline, client gone and shutdown in one. */
  readonly signal: AbortSignal
  readonly now: () => Date
}

export interface ToolContext extends Asking {
  readonly callId: string
  readonly emit: (event: ToolEvent) => void
  readonly meter: Meter
  readonly stage: Stage
}

export interface Meter {
  /** Who answered and how, for `_meta.provider` and `_meta.mode`. */
  served(provider: string, mode: ServedMode): void
  /** The call answers but costs nothing. */
  waive(reason: string): void
}
export type ServedMode = 'live' | 'fixture' | 'cache'

/** Collects what rides in the commit of the call; nothing is written when the call fails. */
export interface Stage {
  /** A whole row, every column named, of a table listed in `stageable`. */
  row(table: string, row: Record<string, unknown>): void
  event(event: DomainEvent): void
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
