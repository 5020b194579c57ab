import { setTimeout as pause } from 'node:timers/promises'
import type { HexString } from '../../chain/onchain-payment-types.ts'
import {
  toChecksumAddress,
  createCustodialWallet,
  decryptWalletKey,
} from '../../chain/custody/custodial-wallets.ts'
import { HOUR, SECOND, type Clock } from '../../core/clock.ts'
import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import { ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { rateLimitError } from '../../core/rate-limit-error.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { WalletSweepStore } from '../../persistence/payments/wallet-sweep-store.ts'
import type { WalletExportRecord, WalletStore } from '../../persistence/payments/wallet-store.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'
import type { WalletSweeper } from './wallet-sweeper.ts'

/** A wallet that was handed over to its owner, and its replacement. */
export interface ExportedWallet {
  readonly address: string
  readonly newAddress: string
  /** The credited money that was moved to the treasury before. */
  readonly swept: Micros
}

export interface WalletExportDeps {
  readonly chain: PaymentChainName
  readonly wallets: WalletStore
  readonly sweeps: WalletSweepStore
  /** Null if nothing can be submitted to the chain. */
  readonly sweeper: Pick<WalletSweeper, 'empty' | 'unsure'> | null
  readonly sealing: EncryptionKeys
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  readonly waitMs?: number
}

/** A request for a wallet's key, with its Idempotency-Key. */
interface WalletHandoverRequest {
  readonly agentId: string
  readonly keyId: string
  readonly key: string | null
  /** The requested address, in any case; null if the request names none. */
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
 * Hands a wallet over to its owner (decision 32). Credited money leaves the wallet, in a final
 * block, before the key is disclosed: the owner could otherwise take back what backs the credits.
 */
export function createWalletExportService(parts: WalletExportDeps) {
  const { chain, wallets, sweeps, sweeper, sealing, clock } = parts
  const { waitMs = LIMITS.settleWaitMs } = parts
  const at = () => new Date(clock.now())

  /** Writes the audit row and stops crediting, in one commit. */
  async function start({
    agentId,
    keyId,
    key,
    meant,
  }: WalletHandoverRequest): Promise<WalletExportRecord> {
    const id = newUuidV7(clock.now())
    const name = key === null ? `by ${keyId}` : `key ${key}`
    const request = { id, agentId, keyId, name, most: LIMITS.walletExportsPerHour, at: at() }
    const started = await wallets.startExport(request, async (tx, address) => {
      await assertIntended(tx, { agentId, address, meant })
      if (sweeper !== null) return
      const owed = await sweeps.unsureIn(tx, chain, address)
      if (owed > ZERO_MICROS) throw sweepUnavailableError(owed)
    })
    if (started === null) throw new ServiceError('wallet_not_found')
    if (!('retryAfter' in started)) return started
    throw rateLimitError(WALLET_EXPORT_LIMIT, started.retryAfter)
  }

  /** After an export the agent has a new wallet; exporting that one requires its address. */
  async function assertIntended(
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

  /** Waiting for the chain ends this request; the next request continues. */
  const waits = (error: unknown): never => {
    parts.log('a wallet was not emptied for its export', error)
    throw sweepPendingError()
  }

  /** Resolves once the chain confirms that the wallet holds no credited money. */
  async function sweepOut(agentId: string, address: string): Promise<void> {
    const until = clock.mono() + waitMs
    let owed = await sweeps.owed(chain, address)
    while (owed > ZERO_MICROS) {
      if (sweeper === null) throw sweepUnavailableError(owed)
      owed = await sweeper.empty({ agentId, address }).catch(waits)
      if (owed <= ZERO_MICROS) return
      if (clock.mono() >= until) throw sweepPendingError()
      await pause(POLL_MS)
    }
  }

  /** If a reorganisation drops the sweep, the money stays with the holder of the key. */
  async function assertDepositsFinal(agentId: string, address: string): Promise<void> {
    const unsure = await sweeps.unsure(chain, address)
    if (unsure <= ZERO_MICROS) return
    if (sweeper === null) throw sweepUnavailableError(unsure)
    const left = await sweeper.unsure({ agentId, address }).catch(waits)
    if (left > ZERO_MICROS) throw sweepNotFinalError(left)
  }

  return {
    /**
     * Empties the agent's wallet and replaces it. The next request resumes an interrupted export;
     * meanwhile nothing is credited to the wallet. The same request returns the same wallet on any
     * node until its key is deleted.
     */
    async handOver(asker: WalletHandoverRequest): Promise<ExportedWallet> {
      const { agentId } = asker
      const started = await start(asker)
      const { id, address, state, newAddress, swept } = started
      if (state === 'done' && newAddress !== null) return { address, newAddress, swept }
      await sweepOut(agentId, address.toLowerCase())
      await assertDepositsFinal(agentId, address.toLowerCase())
      const fresh = createCustodialWallet(sealing, agentId)
      const done = await wallets.finishExport({ id, agentId, at: at() }, fresh)
      if (done?.newAddress == null) throw new Error(`export ${id} of ${agentId} is gone`)
      return { address, newAddress: done.newAddress, swept: done.swept }
    },

    /**
     * Returns the private key of an exported wallet to its owner and marks it as read; null for any
     * other agent, or once it is deleted.
     */
    async keyOf(agentId: string, address: string): Promise<HexString | null> {
      const wallet = await wallets.find(agentId, address)
      if (wallet?.status !== 'exported' || wallet.sealed.length === 0) return null
      const key = decryptWalletKey(sealing, agentId, wallet)
      await wallets.noteRead(agentId, address, at())
      return key
    },

    /** Marks the key as received by the owner; false if no such wallet was exported. */
    received: (agentId: string, address: string): Promise<boolean> =>
      wallets.forget(agentId, address, at()),

    /** Deletes keys a day after their owners have read them. */
    forget: (): Promise<void> =>
      wallets.forgetOld(new Date(clock.now() - LIMITS.idempotencyHours * HOUR), at()),
  }
}
export type WalletExportService = ReturnType<typeof createWalletExportService>

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
