import { setTimeout as pause } from 'node:timers/promises'
import type { Hex } from '../chain/payment.ts'
import { createWallet, openWallet } from '../chain/wallets.ts'
import { HOUR, type Clock } from '../core/clock.ts'
import type { SealingKeys } from '../core/crypto.ts'
import { ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { SweepStore } from '../persistence/sweeps.ts'
import type { WalletExport, WalletStore } from '../persistence/wallets.ts'
import type { ChainName } from './ledger.ts'
import type { Sweeper } from './sweep.ts'

/** A wallet that belongs to its owner alone now, and the one that took its place. */
export interface Exported {
  readonly address: string
  readonly newAddress: string
  /** What was credited to it and went to the treasury before. */
  readonly swept: Micros
}

export interface ExportParts {
  readonly chain: ChainName
  readonly wallets: WalletStore
  readonly sweeps: SweepStore
  /** Null where nothing can be submitted to the chain. */
  readonly sweeper: Pick<Sweeper, 'empty'> | null
  readonly sealing: SealingKeys
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  readonly waitMs?: number
}

/** Who asks for a wallet's key, and under which Idempotency-Key. */
interface Asker {
  readonly agentId: string
  readonly keyId: string
  readonly key: string | null
}

const POLL_MS = 250

/**
 * Hands a wallet over to its owner (decision 32). The order is what protects us: what was credited
 * leaves the wallet before its key does, else it could be taken back from under the credits.
 */
export function walletExports(parts: ExportParts) {
  const { chain, wallets, sweeps, sweeper, sealing, clock } = parts
  const { waitMs = LIMITS.settleWaitMs } = parts
  const at = () => new Date(clock.now())

  /** The audit row and the end of all crediting, in one commit. */
  async function start({ agentId, keyId, key }: Asker): Promise<WalletExport> {
    const id = newId(clock.now())
    const name = key === null ? `by ${keyId}` : `key ${key}`
    const request = { id, agentId, keyId, name, most: LIMITS.walletExportsPerHour, at: at() }
    const started = await wallets.startExport(request, async (tx, address) => {
      if (sweeper !== null) return
      const owed = await sweeps.owedIn(tx, chain, address)
      if (owed > ZERO) throw cannotSweep(owed)
    })
    if (started === null) throw new ServiceError('wallet_not_found')
    if (!('retryAfter' in started)) return started
    const detail = `A wallet may be exported ${LIMITS.walletExportsPerHour} times an hour.`
    throw new ServiceError('rate_limited', { detail, retry_after: started.retryAfter })
  }

  /** Resolves once the chain says that the wallet holds nothing any more that we have credited. */
  async function sweepOut(agentId: string, address: string): Promise<void> {
    const until = clock.mono() + waitMs
    let owed = await sweeps.owed(chain, address)
    while (owed > ZERO) {
      if (sweeper === null) throw cannotSweep(owed)
      owed = await sweeper.empty({ agentId, address }).catch((error: unknown) => {
        parts.log('a wallet was not emptied for its export', error)
        throw underWay()
      })
      if (owed <= ZERO) return
      if (clock.mono() >= until) throw underWay()
      await pause(POLL_MS)
    }
  }

  return {
    /**
     * Empties the agent's wallet and gives it a new one. What stops on the way is gone on with by the
     * next request; meanwhile nothing is credited to the wallet any more. The same request again, on any
     * node, is told of the same wallet until its key is forgotten.
     */
    async handOver(asker: Asker): Promise<Exported> {
      const { agentId } = asker
      const started = await start(asker)
      const { id, address, state, newAddress, swept } = started
      if (state === 'done' && newAddress !== null) return { address, newAddress, swept }
      await sweepOut(agentId, address.toLowerCase())
      const fresh = createWallet(sealing, agentId)
      const done = await wallets.finishExport({ id, agentId, at: at() }, fresh)
      if (done?.newAddress == null) throw new Error(`export ${id} of ${agentId} is gone`)
      return { address, newAddress: done.newAddress, swept: done.swept }
    },

    /** The private key of a wallet that was handed over, to its owner; null for any other, or once it is forgotten. */
    async keyOf(agentId: string, address: string): Promise<Hex | null> {
      const wallet = await wallets.find(agentId, address)
      if (wallet?.status !== 'exported' || wallet.sealed.length === 0) return null
      return openWallet(sealing, agentId, wallet)
    },

    /** The owner has the key, and nobody else needs it; false when no such wallet was handed over. */
    received: (agentId: string, address: string): Promise<boolean> =>
      wallets.forget(agentId, address, at()),

    /** Forgets the keys whose owners have had a day to read the answer again. */
    forget: (): Promise<void> =>
      wallets.forgetOld(new Date(clock.now() - LIMITS.idempotencyHours * HOUR), at()),
  }
}
export type WalletExports = ReturnType<typeof walletExports>

const underWay = (): ServiceError =>
  new ServiceError('rail_unavailable', {
    detail:
      'The credited deposits have not left the wallet yet. Nothing is credited to it any more; repeat the request to go on.',
    retry_after: 5,
  })

const cannotSweep = (owed: Micros): ServiceError =>
  new ServiceError('rail_unavailable', {
    detail: `The wallet holds ${toUsdc(owed)} USDC of credited deposits, and this station cannot move them right now.`,
    retry_after: 60,
  })
