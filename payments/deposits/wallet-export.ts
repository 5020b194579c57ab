import { setTimeout as pause } from 'node:timers/promises'
import type { HexString } from '../../chain/payment.ts'
import {
  toChecksumAddress,
  createCustodialWallet,
  decryptWalletKey,
} from '../../chain/custody/custodial-wallets.ts'
import { HOUR, SECOND, type Clock } from '../../core/clock.ts'
import type { EncryptionKeys } from '../../core/crypto.ts'
import { ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids.ts'
import { rateLimitError } from '../../core/rate-limit-error.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc, ZERO, type Micros } from '../../core/money.ts'
import type { SweepStore } from '../../persistence/payments/sweep-store.ts'
import type { WalletExport, WalletStore } from '../../persistence/payments/wallet-store.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'
import type { WalletSweeper } from './wallet-sweeper.ts'

/** A wallet that belongs to its owner alone now, and the one that took its place. */
export interface ExportedWallet {
  readonly address: string
  readonly newAddress: string
  /** What was credited to it and went to the treasury before. */
  readonly swept: Micros
}

export interface WalletExportDeps {
  readonly chain: PaymentChainName
  readonly wallets: WalletStore
  readonly sweeps: SweepStore
  /** Null where nothing can be submitted to the chain. */
  readonly sweeper: Pick<WalletSweeper, 'empty' | 'unsure'> | null
  readonly sealing: EncryptionKeys
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  readonly waitMs?: number
}

/** Who asks for a wallet's key, and under which Idempotency-Key. */
interface WalletHandoverRequest {
  readonly agentId: string
  readonly keyId: string
  readonly key: string | null
  /** The wallet that is meant, by its address in any case; null where the request names none. */
  readonly meant: string | null
}

const POLL_MS = 250
const WALLET_EXPORT_LIMIT = {
  name: 'wallet_exports',
  subject: 'exports of a wallet',
  max: LIMITS.walletExportsPerHour,
  per: 'agent',
  windowSeconds: HOUR / SECOND,
} as const

/**
 * Hands a wallet over to its owner (decision 32). The order is what protects us: what was credited
 * leaves the wallet before its key does, for good, else it could be taken back from under the credits.
 */
export function createWalletExports(parts: WalletExportDeps) {
  const { chain, wallets, sweeps, sweeper, sealing, clock } = parts
  const { waitMs = LIMITS.settleWaitMs } = parts
  const at = () => new Date(clock.now())

  /** The audit row and the end of all crediting, in one commit. */
  async function start({
    agentId,
    keyId,
    key,
    meant,
  }: WalletHandoverRequest): Promise<WalletExport> {
    const id = newUuidV7(clock.now())
    const name = key === null ? `by ${keyId}` : `key ${key}`
    const request = { id, agentId, keyId, name, most: LIMITS.walletExportsPerHour, at: at() }
    const started = await wallets.startExport(request, async (tx, address) => {
      await demandMeant(tx, { agentId, address, meant })
      if (sweeper !== null) return
      const owed = await sweeps.unsureIn(tx, chain, address)
      if (owed > ZERO) throw sweepUnavailableError(owed)
    })
    if (started === null) throw new ServiceError('wallet_not_found')
    if (!('retryAfter' in started)) return started
    throw rateLimitError(WALLET_EXPORT_LIMIT, started.retryAfter)
  }

  /** Who has just exported a wallet has a new one: it leaves only by its name. */
  async function demandMeant(
    tx: Parameters<Parameters<WalletStore['startExport']>[1]>[0],
    {
      agentId,
      address,
      meant,
    }: Record<'agentId' | 'address', string> & Pick<WalletHandoverRequest, 'meant'>,
  ): Promise<void> {
    if (meant?.toLowerCase() === address) return
    const since = new Date(clock.now() - LIMITS.idempotencyHours * HOUR)
    if (meant === null && !(await wallets.hasExported(tx, agentId, since))) return
    throw confirmationRequiredError(address)
  }

  /** What the chain still has to do comes to nothing on this request; the next one goes on. */
  const waits = (error: unknown): never => {
    parts.log('a wallet was not emptied for its export', error)
    throw sweepPendingError()
  }

  /** Resolves once the chain says that the wallet holds nothing any more that we have credited. */
  async function sweepOut(agentId: string, address: string): Promise<void> {
    const until = clock.mono() + waitMs
    let owed = await sweeps.owed(chain, address)
    while (owed > ZERO) {
      if (sweeper === null) throw sweepUnavailableError(owed)
      owed = await sweeper.empty({ agentId, address }).catch(waits)
      if (owed <= ZERO) return
      if (clock.mono() >= until) throw sweepPendingError()
      await pause(POLL_MS)
    }
  }

  /** A sweep that a reorganisation drops leaves the money with whoever has the key. */
  async function demandFinal(agentId: string, address: string): Promise<void> {
    const unsure = await sweeps.unsure(chain, address)
    if (unsure <= ZERO) return
    if (sweeper === null) throw sweepUnavailableError(unsure)
    const left = await sweeper.unsure({ agentId, address }).catch(waits)
    if (left > ZERO) throw sweepNotFinalError(left)
  }

  return {
    /**
     * Empties the agent's wallet and gives it a new one. What stops on the way is gone on with by the
     * next request; meanwhile nothing is credited to the wallet any more. The same request again, on any
     * node, is told of the same wallet until its key is forgotten.
     */
    async handOver(asker: WalletHandoverRequest): Promise<ExportedWallet> {
      const { agentId } = asker
      const started = await start(asker)
      const { id, address, state, newAddress, swept } = started
      if (state === 'done' && newAddress !== null) return { address, newAddress, swept }
      await sweepOut(agentId, address.toLowerCase())
      await demandFinal(agentId, address.toLowerCase())
      const fresh = createCustodialWallet(sealing, agentId)
      const done = await wallets.finishExport({ id, agentId, at: at() }, fresh)
      if (done?.newAddress == null) throw new Error(`export ${id} of ${agentId} is gone`)
      return { address, newAddress: done.newAddress, swept: done.swept }
    },

    /**
     * The private key of a wallet that was handed over, to its owner, who has read it now; null for any
     * other, or once it is forgotten.
     */
    async keyOf(agentId: string, address: string): Promise<HexString | null> {
      const wallet = await wallets.find(agentId, address)
      if (wallet?.status !== 'exported' || wallet.sealed.length === 0) return null
      const key = decryptWalletKey(sealing, agentId, wallet)
      await wallets.noteRead(agentId, address, at())
      return key
    },

    /** The owner has the key, and nobody else needs it; false when no such wallet was handed over. */
    received: (agentId: string, address: string): Promise<boolean> =>
      wallets.forget(agentId, address, at()),

    /** Forgets the keys whose owners have read them, and have had a day to read them again. */
    forget: (): Promise<void> =>
      wallets.forgetOld(new Date(clock.now() - LIMITS.idempotencyHours * HOUR), at()),
  }
}
export type WalletExports = ReturnType<typeof createWalletExports>

const confirmationRequiredError = (address: string): ServiceError =>
  new ServiceError('confirmation_required', {
    detail: `A wallet of yours was exported within the last 24 hours, or another one is named. To export the present one as well, send confirm_wallet_address: ${toChecksumAddress(address)}.`,
    wallet_address: toChecksumAddress(address),
  })

const sweepPendingError = (): ServiceError =>
  new ServiceError('wallet_export_pending', {
    detail:
      'The credited deposits have not left the wallet yet. Nothing is credited to it any more; repeat the request to go on.',
    state: 'sweeping',
    retry_after: 5,
  })

const sweepNotFinalError = (left: Micros): ServiceError =>
  new ServiceError('wallet_export_pending', {
    detail: `The ${toUsdc(left)} USDC of credited deposits have left the wallet, in blocks that may still be replaced. Its key is handed over once they are final, which takes up to half an hour; repeat the request then.`,
    state: 'finalizing',
    retry_after: 60,
  })

const sweepUnavailableError = (owed: Micros): ServiceError =>
  new ServiceError('wallet_export_pending', {
    detail: `The wallet holds ${toUsdc(owed)} USDC of credited deposits, and this station cannot move them right now.`,
    retry_after: 60,
  })
