import { setMaxListeners } from 'node:events'
import type { CallDeps, CallService } from '../../calls/call-request-and-reply-types.ts'
import { createCallReceipts, type CallReceipts } from '../../calls/call-receipts.ts'
import {
  createFailedCallLimiter,
  NOOP_FAILED_CALL_LIMITER,
} from '../../calls/failed-call-limiter.ts'
import { createCallService } from '../../calls/call-service.ts'
import { isDatabaseUnavailableError } from '../../http/detect-database-unavailable-error.ts'
import type { StationKeys } from '../../persistence/encrypted-station-key-store.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import type { Config } from '../config.ts'
import type { StationStores } from './compose-stores.ts'

/** Composes the call service. */

export interface ComposeCallServiceDeps extends Pick<
  CallDeps,
  'clock' | 'actors' | 'publicUrl' | 'refusals' | 'explained' | 'log'
> {
  readonly config: Pick<Config, 'promoTransferable' | 'rateLimits'> & {
    readonly chain: Pick<CallDeps, 'deposits'>
  }
  readonly own: Pick<StationKeys, 'receipts'>
  readonly stores: StationStores
  readonly tools: Pick<CallDeps, 'catalogue' | 'ports'>
  readonly chain: { readonly served: Pick<CallDeps, 'paying'> }
  readonly hive: Pick<CallDeps, 'lookInHive'>
}

/** Creates the call service. `cutShort` aborts running calls. */
export function composeCallService(parts: ComposeCallServiceDeps): {
  calls: CallService
  receipts: CallReceipts
  cutShort(): void
} {
  const { config, clock, actors, publicUrl, own, tools, chain, hive, log } = parts
  const { callLog, keyring, keptBytes } = parts.stores.served
  const { explained, refusals } = parts
  const shutdown = new AbortController()
  // Every running call adds a listener.
  setMaxListeners(0, shutdown.signal)
  const calls = createCallService({
    clock,
    actors,
    paying: chain.served.paying,
    promoTransferable: config.promoTransferable,
    refusals,
    explained,
    catalogue: tools.catalogue,
    ports: tools.ports,
    callLog: {
      findAnswer: (owner, key) => withDatabaseAnswerTimeout(callLog.findAnswer(owner, key)),
    },
    keyring: { reveal: (place) => withDatabaseAnswerTimeout(keyring.reveal(place)) },
    publicUrl,
    deposits: config.chain.deposits,
    receiptKey: own.receipts,
    keptBytes,
    lookInHive: hive.lookInHive,
    shutdown: shutdown.signal,
    failedVisits: config.rateLimits ? createFailedCallLimiter(clock) : NOOP_FAILED_CALL_LIMITER,
    isOutage: isDatabaseUnavailableError,
    log,
  })
  const receipts = createCallReceipts(own.receipts, callLog)
  return { calls, receipts, cutShort: () => shutdown.abort() }
}
