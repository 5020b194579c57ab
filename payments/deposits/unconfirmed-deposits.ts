import type { IncomingTransferLog } from '../../chain/evm/incoming-transfers.ts'
import { LIMITS } from '../../core/limits.ts'
import { micros, ZERO, type Micros } from '../../core/money.ts'
import type { WalletStore } from '../../persistence/payments/wallet-store.ts'
import type { DepositChainSource } from './deposit-scanner.ts'

/** A transfer to a wallet that has too few confirmations to be credited. */
export interface UnconfirmedDeposit {
  readonly tx: string
  readonly logIndex: number
  readonly amount: Micros
  /** Blocks from its own to the newest, both included. */
  readonly confirmations: number
}

export interface UnconfirmedDepositsDeps {
  readonly source: Pick<DepositChainSource, 'transfersTo'>
  readonly wallets: Pick<WalletStore, 'watched'>
  readonly log: (message: string, error: unknown) => void
}

/**
 * Remembers the transfers in the newest blocks of a chain, so that people see a deposit before it is
 * credited. Every node reads them for itself and keeps nothing: the chain is the truth, and a node
 * that has just started shows none until its first look.
 */
export function createUnconfirmedDeposits({ source, wallets, log }: UnconfirmedDepositsDeps) {
  let seen: readonly IncomingTransferLog[] = []
  let head = 0n
  let failing = false

  return {
    /** Reads the blocks above `read`, the last one whose deposits are booked. Never throws. */
    async refresh(read: bigint, latest: bigint): Promise<void> {
      if (latest === head) return
      try {
        seen = await source.transfersTo(await wallets.watched(), read + 1n, latest)
        ;[head, failing] = [latest, false]
      } catch (error) {
        // A node behind a load balancer may lack its newest block: the next look reads it again.
        if (!failing) log('the newest blocks cannot be read for deposits', error)
        failing = true
      }
    },

    /** Transfers to an address that are not credited yet, the oldest first. */
    to(address: string): UnconfirmedDeposit[] {
      const receiver = address.toLowerCase()
      return seen
        .filter(({ from, to, value }) => to === receiver && from !== to && value > ZERO)
        .map(({ tx, logIndex, block, value }) => ({
          tx,
          logIndex,
          amount: micros(value),
          confirmations: Math.min(Number(head - block) + 1, LIMITS.depositConfirmations - 1),
        }))
    },
  }
}
export type UnconfirmedDeposits = ReturnType<typeof createUnconfirmedDeposits>
