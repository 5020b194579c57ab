import type {
  Tool,
  ToolPreflightContext,
  ToolProviderAndWaiverReporter,
  StagedWrites,
  ToolCallerIdentity,
  ToolContext,
  ToolStreamEvent,
} from '../tools/define-tool.ts'
import type { Micros } from '../core/money.ts'
import { ZERO_MICROS } from '../core/money.ts'
import type { DomainEvent } from '../core/domain-events.ts'
import type {
  PriceShare,
  OwnershipOrMemoryReorganization,
  HiveWatchListChange,
} from '../core/aggregate-commit-row-types.ts'
import type { CallDeps, CallRequest } from './call-request-and-reply-types.ts'

/** Effects staged by a running tool. The commit of the call writes all or none of them. */
export interface ToolStagedEffects {
  readonly rows: { table: string; row: Record<string, unknown> }[]
  readonly events: DomainEvent[]
  readonly shares: PriceShare[]
  readonly watches: HiveWatchListChange[]
  readonly tallies: OwnershipOrMemoryReorganization[]
  readonly undos: (() => Promise<void>)[]
  provider: string | null
  /** `native` and `community` without a provider; else that of the provider. */
  mode: string
  waived: string | null
}

export const createStagedEffects = ({ community }: Pick<Tool, 'community'>): ToolStagedEffects => ({
  rows: [],
  events: [],
  shares: [],
  watches: [],
  tallies: [],
  undos: [],
  provider: null,
  mode: community === undefined ? 'native' : 'community',
  waived: null,
})

/** The context of a tool's preflight check. Its signal is that of the caller's connection. */
export const createPreflightContext = (
  parts: CallDeps,
  request: CallRequest,
): ToolPreflightContext => new (contextsOver(parts).Preflight)(request)

const toToolCaller = ({ caller }: CallRequest): ToolCallerIdentity => ({
  agentId: caller.agentId,
  fleetId: null,
  visitor: caller.visitorId,
  site: caller.siteId,
})

const createSecretResolver = (
  { keyring }: CallDeps,
  { caller, backpackId }: CallRequest,
): ToolPreflightContext['secrets'] => ({
  async resolve(name, host) {
    if (caller.agentId === null || backpackId === null) return null
    const kept = await keyring.reveal({ agentId: caller.agentId, backpackId, name })
    return kept !== null && isListed(kept.hosts, host) ? kept.secret : null
  },
})

/** A host without a port matches any port. */
const isListed = (hosts: readonly string[], host: string): boolean =>
  hosts.includes(host) || hosts.includes(host.replace(/:\d+$/, ''))

/** The end of a running call. The signal costs something, so it is created when it is read. */
export interface ToolRunAbortAndSeal {
  readonly signal: AbortSignal
  readonly seal: ToolContext['seal']
}

export const createToolContext = (
  parts: CallDeps,
  request: CallRequest,
  call: Pick<ToolContext, 'callId' | 'price'>,
  end: ToolRunAbortAndSeal,
  traces: ToolStagedEffects,
  emit: (event: ToolStreamEvent) => void,
): ToolContext => new (contextsOver(parts).Running)(request, call, end, traces, emit)

interface ToolContexts {
  readonly Preflight: new (request: CallRequest) => ToolPreflightContext
  readonly Running: new (
    request: CallRequest,
    call: Pick<ToolContext, 'callId' | 'price'>,
    end: ToolRunAbortAndSeal,
    traces: ToolStagedEffects,
    emit: (event: ToolStreamEvent) => void,
  ) => ToolContext
}

const contextsByParts = new WeakMap<CallDeps, ToolContexts>()

function contextsOver(parts: CallDeps): ToolContexts {
  const known = contextsByParts.get(parts)
  if (known !== undefined) return known
  const made = createToolContexts(parts)
  contextsByParts.set(parts, made)
  return made
}

/**
 * The contexts of a node, as classes over its ports: copying or linking thirty ports would cost every call,
 * and so would the parts of a context that its tool does not read.
 */
function createToolContexts(parts: CallDeps): ToolContexts {
  const readNow = () => new Date(parts.clock.now())

  class Preflight {
    readonly request: CallRequest

    constructor(request: CallRequest) {
      this.request = request
    }

    get caller(): ToolCallerIdentity {
      return toToolCaller(this.request)
    }

    get ghost(): CallRequest['ghost'] {
      return this.request.ghost
    }

    get signal(): AbortSignal {
      return this.request.connection.closeSignal
    }

    get now(): () => Date {
      return readNow
    }

    get secrets(): ToolPreflightContext['secrets'] {
      return createSecretResolver(parts, this.request)
    }
  }

  class Running extends Preflight {
    readonly callId: string
    readonly price: Micros
    readonly emit: (event: ToolStreamEvent) => void
    readonly end: ToolRunAbortAndSeal
    readonly traces: ToolStagedEffects

    constructor(
      request: CallRequest,
      { callId, price }: Pick<ToolContext, 'callId' | 'price'>,
      end: ToolRunAbortAndSeal,
      traces: ToolStagedEffects,
      emit: (event: ToolStreamEvent) => void,
    ) {
      super(request)
      this.callId = callId
      this.price = price
      this.emit = emit
      this.end = end
      this.traces = traces
    }

    override get signal(): AbortSignal {
      return this.end.signal
    }

    get claimant(): string {
      const { idempotency } = this.request
      return idempotency === null ? this.callId : `key ${idempotency.key}`
    }

    get callerGone(): AbortSignal {
      return this.request.connection.closeSignal
    }

    get seal(): ToolContext['seal'] {
      return this.end.seal
    }

    get meter(): ToolProviderAndWaiverReporter {
      return createMeter(this.traces)
    }

    get stage(): StagedWrites {
      return createStage(this.traces)
    }
  }

  Object.setPrototypeOf(Preflight.prototype, parts.ports)
  return { Preflight, Running } as unknown as ToolContexts
}

const createMeter = (traces: ToolStagedEffects): ToolProviderAndWaiverReporter => ({
  served(provider, mode) {
    traces.provider = provider
    traces.mode = mode
  },
  waive(reason) {
    traces.waived = reason
  },
})

const createStage = (traces: ToolStagedEffects): StagedWrites => ({
  row: (table, row) => void traces.rows.push({ table, row }),
  event: (event) => void traces.events.push(event),
  credit: (share) => void traces.shares.push(share),
  watch: (change) => void traces.watches.push(change),
  changeEntitlement: (change) => void traces.tallies.push(change),
  undo: (claimed) => void traces.undos.push(claimed),
})

/** Undoes claims of a failed call. A claim that cannot be undone expires by itself. */
export async function undoFailedCallClaims(
  { log }: Pick<CallDeps, 'log'>,
  { undos }: Pick<ToolStagedEffects, 'undos'>,
): Promise<void> {
  for (const undo of undos.splice(0))
    await undo().catch((error: unknown) => log('a claim was not taken back', error))
}

/** The price to charge. */
export const chargeableCost = (traces: ToolStagedEffects, amount: Micros): Micros =>
  traces.waived === null ? amount : ZERO_MICROS
