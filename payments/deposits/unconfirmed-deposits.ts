import type { IncomingTransferLog } from '../../chain/evm/incoming-token-transfers.ts'
import { LIMITS } from '../../core/limits.ts'
import { asMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { WalletStore } from '../../persistence/payments/wallet-store.ts'
import type { DepositChainSource } from './deposit-scanner.ts'

/** A transfer to a wallet with too few confirmations to be credited. */
export interface UnconfirmedDeposit {
  readonly tx: string
  readonly logIndex: number
  readonly amount: Micros
  /** Blocks from its own to the newest, both included. */
  readonly confirmations: number
}

export interface UnconfirmedDepositCacheDeps {
  readonly source: Pick<DepositChainSource, 'transfersTo'>
  readonly wallets: Pick<WalletStore, 'watched'>
  readonly log: (message: string, error: unknown) => void
}

/**
 * Keeps the transfers in the newest blocks in memory, so that deposits are visible before they are
 * credited. Every node reads them for itself and stores nothing; after a start there are none until
 * the first read.
 */
export function createUnconfirmedDepositCache({
  source,
  wallets,
  log,
}: UnconfirmedDepositCacheDeps) {
  let seen: readonly IncomingTransferLog[] = []
  let head = 0n
  let failing = false

  return {
    /** Reads the blocks above `read`, the last booked block. Never throws. */
    async refresh(read: bigint, latest: bigint): Promise<void> {
      if (latest === head) return
      try {
        seen = await source.transfersTo(await wallets.watched(), read + 1n, latest)
        ;[head, failing] = [latest, false]
      } catch (error) {
        // A node behind a load balancer may lack its newest block: the next refresh reads it again.
        if (!failing) log('the newest blocks cannot be read for deposits', error)
        failing = true
      }
    },

    /** Uncredited transfers to an address, oldest first. */
    to(address: string): UnconfirmedDeposit[] {
      const receiver = address.toLowerCase()
      return seen
        .filter(({ from, to, value }) => to === receiver && from !== to && value > ZERO_MICROS)
        .map(({ tx, logIndex, block, value }) => ({
          tx,
          logIndex,
          amount: asMicros(value),
          confirmations: Math.min(Number(head - block) + 1, LIMITS.depositConfirmations - 1),
        }))
    },
  }
}
export type UnconfirmedDepositCache = ReturnType<typeof createUnconfirmedDepositCache>
