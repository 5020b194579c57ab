import { setMaxListeners } from 'node:events'
import type { CallParts, Calls } from '../calls/calls.ts'
import { createReceipts, type Receipts } from '../calls/receipts.ts'
import { createFailedVisits, UNBOUNDED } from '../calls/failed-visits.ts'
import { callService } from '../calls/service.ts'
import { isDatabaseLost } from '../http/database-lost.ts'
import type { StationKeys } from '../persistence/station-keys.ts'
import { answered } from '../persistence/within.ts'
import type { Config } from './config.ts'
import type { Stores } from './compose-stores.ts'

export interface CallsParts extends Pick<
  CallParts,
  'clock' | 'actors' | 'publicUrl' | 'refusals' | 'log'
> {
  readonly config: Pick<Config, 'promoTransferable' | 'rateLimits'> & {
    readonly chain: Pick<CallParts, 'deposits'>
  }
  readonly own: Pick<StationKeys, 'receipts'>
  readonly stores: Stores
  readonly tools: Pick<CallParts, 'catalogue' | 'ports'>
  readonly chain: { readonly served: Pick<CallParts, 'paying'> }
  readonly hive: Pick<CallParts, 'lookInHive'>
}

/** The one way of every call, and the end of the patience with those that run. */
export function composeCalls(parts: CallsParts): {
  calls: Calls
  receipts: Receipts
  cutShort(): void
} {
  const { config, clock, actors, publicUrl, own, tools, chain, hive, log } = parts
  const { callLog, keyring } = parts.stores.served
  const { refusals } = parts
  const shutdown = new AbortController()
  // Every running call listens to it.
  setMaxListeners(0, shutdown.signal)
  const calls = callService({
    clock,
    actors,
    paying: chain.served.paying,
    promoTransferable: config.promoTransferable,
    refusals,
    catalogue: tools.catalogue,
    ports: tools.ports,
    callLog: { findAnswer: (owner, key) => answered(callLog.findAnswer(owner, key)) },
    keyring: { reveal: (place) => answered(keyring.reveal(place)) },
    publicUrl,
    deposits: config.chain.deposits,
    receiptKey: own.receipts,
    lookInHive: hive.lookInHive,
    shutdown: shutdown.signal,
    failedVisits: config.rateLimits ? createFailedVisits(clock) : UNBOUNDED,
    isOutage: isDatabaseLost,
    log,
  })
  const receipts = createReceipts(own.receipts, callLog)
  return { calls, receipts, cutShort: () => shutdown.abort() }
}
