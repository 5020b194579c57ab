import type {
  PreflightContext,
  ToolProviderAndFeeWaiver,
  StagedWrites,
  ToolContext,
  ToolEvent,
} from '../tools/define-tool.ts'
import type { Micros } from '../core/money.ts'
import { ZERO } from '../core/money.ts'
import type { DomainEvent } from '../core/domain-events.ts'
import type { PriceShare, EntitlementChange, HiveWatchListChange } from '../core/commit-rows.ts'
import type { CallDeps, CallRequest } from './call-request-and-reply-types.ts'

/** Effects staged by a running tool. The commit of the call writes all or none of them. */
export interface StagedEffects {
  readonly rows: { table: string; row: Record<string, unknown> }[]
  readonly events: DomainEvent[]
  readonly shares: PriceShare[]
  readonly watches: HiveWatchListChange[]
  readonly tallies: EntitlementChange[]
  readonly undos: (() => Promise<void>)[]
  provider: string | null
  mode: string
  waived: string | null
}

export const createStagedEffects = (): StagedEffects => ({
  rows: [],
  events: [],
  shares: [],
  watches: [],
  tallies: [],
  undos: [],
  provider: null,
  mode: 'native',
  waived: null,
})

/** The context of a tool's preflight check. */
export function createPreflightContext(
  parts: CallDeps,
  request: CallRequest,
  signal: AbortSignal,
): PreflightContext {
  const { caller, backpackId, ghost } = request
  return {
    ...parts.ports,
    caller: { agentId: caller.agentId, fleetId: null, visitor: caller.visitorId },
    ghost,
    signal,
    now: () => new Date(parts.clock.now()),
    secrets: {
      async resolve(name, host) {
        if (caller.agentId === null || backpackId === null) return null
        const kept = await parts.keyring.reveal({ agentId: caller.agentId, backpackId, name })
        return kept !== null && isListed(kept.hosts, host) ? kept.secret : null
      },
    },
  }
}

/** A host without a port matches any port. */
const isListed = (hosts: readonly string[], host: string): boolean =>
  hosts.includes(host) || hosts.includes(host.replace(/:\d+$/, ''))

export function createToolContext(
  parts: CallDeps,
  request: CallRequest,
  callId: string,
  signal: AbortSignal,
  traces: StagedEffects,
  emit: (event: ToolEvent) => void,
  seal: ToolContext['seal'],
): ToolContext {
  return {
    ...createPreflightContext(parts, request, signal),
    callId,
    claimant: request.idempotency === null ? callId : `key ${request.idempotency.key}`,
    emit,
    callerGone: request.signal,
    seal,
    meter: createMeter(traces),
    stage: createStage(traces),
  }
}

const createMeter = (traces: StagedEffects): ToolProviderAndFeeWaiver => ({
  served(provider, mode) {
    traces.provider = provider
    traces.mode = mode
  },
  waive(reason) {
    traces.waived = reason
  },
})

const createStage = (traces: StagedEffects): StagedWrites => ({
  row: (table, row) => void traces.rows.push({ table, row }),
  event: (event) => void traces.events.push(event),
  credit: (share) => void traces.shares.push(share),
  watch: (change) => void traces.watches.push(change),
  changeEntitlement: (change) => void traces.tallies.push(change),
  undo: (claimed) => void traces.undos.push(claimed),
})

/** Undoes claims of a failed call. A claim that cannot be undone expires by itself. */
export async function releaseToolClaims(
  { log }: Pick<CallDeps, 'log'>,
  { undos }: Pick<StagedEffects, 'undos'>,
): Promise<void> {
  for (const undo of undos.splice(0))
    await undo().catch((error: unknown) => log('a claim was not taken back', error))
}

/** The price to charge. */
export const chargeableCost = (traces: StagedEffects, amount: Micros): Micros =>
  traces.waived === null ? amount : ZERO
