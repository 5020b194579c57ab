import { randomBytes } from 'node:crypto'
import { privateKeyToAccount } from 'viem/accounts'
import type { EvmCall, EvmClient } from '../../chain/evm/evm-client.ts'
import { readChainHead } from '../../chain/evm/evm-event-logs.ts'
import { WouldRevertError } from '../../chain/evm/settler-evm-transactions.ts'
import {
  readEip3009Status,
  signEip3009Authorization,
  eip3009TransferCall,
  type Eip3009Authorization,
  type Eip3009Token,
} from '../../chain/evm/eip3009.ts'
import { decryptWalletKey } from '../../chain/custody/custodial-wallets.ts'
import { DAY, HOUR, SECOND, type Clock } from '../../core/clock.ts'
import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import type { Micros } from '../../core/money.ts'
import { MIN_DEPOSIT } from '../../domain/pricing.ts'
import type {
  WalletSweepRecord,
  WalletSweepStore,
  WalletSweepAuthorizationTerms,
} from '../../persistence/payments/wallet-sweep-store.ts'
import type { WalletStore } from '../../persistence/payments/wallet-store.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'
import { toWalletSweepAuthorization, createWalletSweepConfirmer } from './wallet-sweep-finality.ts'
import { locateFleetTopUpsOnChain } from '../fleets/fleet-wallet-top-ups-to-sweep.ts'

/** Moves credited money from deposit wallets to the treasury. */

export interface WalletSweeperDeps {
  readonly chain: PaymentChainName
  readonly client: EvmClient
  readonly token: Eip3009Token
  readonly treasury: string
  readonly store: WalletSweepStore
  readonly wallets: Pick<WalletStore, 'find'>
  readonly sealing: EncryptionKeys
  /**
   * Sends a call from the settler's own key, which pays the gas, and waits a limited time for the
   * chain. Repeated for the same purpose, it continues with the pending transaction.
   */
  readonly submit: (purpose: string, call: EvmCall) => Promise<unknown>
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
}

type SweepableBasis = 'final' | 'credited'
/** A wallet by its address in lower case; its owner is an agent or a fleet. */
interface OwnedWallet {
  readonly agentId: string
  readonly address: string
}

const MAX_SWEEPS_PER_ROUND = 20
/** An unused authorization expires after this; the wallet is then swept anew. */
const AUTHORIZATION_VALID_SECONDS = HOUR / SECOND

/**
 * Sweeps wallets. A wallet only signs: the settler submits and pays the gas, so wallets need none.
 * Money stays within `world`, so the ledger does not change.
 */
export function createWalletSweeper(parts: WalletSweeperDeps) {
  const { chain, client, token, treasury, store, submit, clock, log } = parts

  const at = () => new Date(clock.now())

  async function start(
    purse: OwnedWallet,
    basis: SweepableBasis,
  ): Promise<WalletSweepRecord | null> {
    const { head, headTime } = await readChainHead(client)
    const terms: WalletSweepAuthorizationTerms = {
      to: treasury,
      nonce: `0x${randomBytes(32).toString('hex')}`,
      validBefore: Number(headTime) + AUTHORIZATION_VALID_SECONDS,
      fromBlock: Number(head),
    }
    return store.start(chain, purse, { id: newUuidV7(clock.now()), terms, basis, at: at() })
  }

  /**
   * Advances a sweep as far as the chain allows. Asks the chain first: this or another node may
   * have submitted it.
   */
  async function push(sweep: WalletSweepRecord): Promise<void> {
    const authorization = toWalletSweepAuthorization(sweep)
    if (await settle(sweep, authorization)) return
    const call = await signSweepCall(parts, sweep, authorization)
    try {
      await submit(`sweep:${sweep.id}`, call)
      await settle(sweep, authorization)
    } catch (error) {
      // Anybody may submit a public authorization: ours then reverts, and the sweep has succeeded.
      if (!(error instanceof WouldRevertError) || !(await settle(sweep, authorization))) throw error
    }
  }

  /** Applies the outcome on the chain, by any sender; false if there is none yet. */
  async function settle(
    sweep: WalletSweepRecord,
    authorization: Eip3009Authorization,
  ): Promise<boolean> {
    const fromBlock = BigInt(sweep.terms.fromBlock)
    const found = await readEip3009Status(client, token, { ...authorization, fromBlock })
    if (found.state === 'unused') {
      if (found.headTime < authorization.validBefore) return false
      await store.failed(sweep, at())
    } else if (found.state === 'used' && found.paid) {
      await store.done(chain, sweep, found, at())
    } else {
      // Only its key can have done that.
      log(`the nonce of sweep ${sweep.id} was spent elsewhere, in ${found.tx}`, null)
      await store.failed(sweep, at())
    }
    return true
  }

  const late =
    ({ id }: WalletSweepRecord) =>
    (error: unknown) =>
      log(`sweep ${id} waits`, error)

  const confirmAll = createWalletSweepConfirmer(parts, push, late)

  async function pushAll(sweeps: readonly WalletSweepRecord[]): Promise<void> {
    await Promise.all(sweeps.map((sweep) => push(sweep).catch(late(sweep))))
  }

  return {
    /** Advances pending sweeps, then sweeps the wallets above the threshold; daily, all wallets. */
    async round(): Promise<void> {
      await pushAll(await store.open(chain, MAX_SWEEPS_PER_ROUND))
      await confirmAll()
      await locateFleetTopUpsOnChain(parts)
      const older = new Date(clock.now() - DAY)
      const full = await store.full(chain, MIN_DEPOSIT, older, MAX_SWEEPS_PER_ROUND)
      const started: WalletSweepRecord[] = []
      for (const purse of full) {
        const sweep = await start(purse, 'final')
        if (sweep !== null) started.push(sweep)
      }
      await pushAll(started)
    },

    /**
     * Moves all credited money out of a wallet until the chain has to be waited for. Returns what
     * is left to move; zero when the chain has all of it.
     */
    async empty(purse: OwnedWallet): Promise<Micros> {
      const sweep = await start(purse, 'credited')
      if (sweep !== null) await push(sweep)
      return store.owed(chain, purse.address)
    },

    /**
     * Moved credited money that a reorganisation could return to the wallet; zero once its blocks
     * are final.
     */
    async unsure({ address }: OwnedWallet): Promise<Micros> {
      await confirmAll(address)
      return store.unsure(chain, address)
    },
  }
}
export type WalletSweeper = ReturnType<typeof createWalletSweeper>

/** The key is decrypted for this signature and not kept. */
async function signSweepCall(
  { token, wallets, sealing }: WalletSweeperDeps,
  sweep: WalletSweepRecord,
  authorization: Eip3009Authorization,
): Promise<EvmCall> {
  const wallet = await wallets.find(sweep.agentId, sweep.address)
  if (wallet === null) throw new Error(`sweep ${sweep.id} has no wallet`)
  const account = privateKeyToAccount(decryptWalletKey(sealing, sweep.agentId, wallet))
  return eip3009TransferCall(
    token,
    authorization,
    await signEip3009Authorization(account, token, authorization),
  )
}
