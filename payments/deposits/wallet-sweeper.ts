import { randomBytes } from 'node:crypto'
import { privateKeyToAccount } from 'viem/accounts'
import type { EvmCall, EvmClient } from '../../chain/evm/evm-client.ts'
import { readChainHead } from '../../chain/evm/event-logs.ts'
import { WouldRevertError } from '../../chain/evm/transactions.ts'
import {
  readEip3009Status,
  signEip3009Authorization,
  eip3009TransferCall,
  type Eip3009Authorization,
  type Eip3009Token,
} from '../../chain/evm/eip3009.ts'
import { decryptWalletKey } from '../../chain/custody/custodial-wallets.ts'
import { DAY, HOUR, SECOND, type Clock } from '../../core/clock.ts'
import type { EncryptionKeys } from '../../core/crypto.ts'
import { newUuidV7 } from '../../core/ids.ts'
import type { Micros } from '../../core/money.ts'
import { MIN_DEPOSIT } from '../../domain/pricing.ts'
import type {
  WalletSweepRecord,
  SweepStore,
  SweepAuthorizationTerms,
} from '../../persistence/payments/sweep-store.ts'
import type { WalletStore } from '../../persistence/payments/wallet-store.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'
import { toSweepAuthorization, createSweepConfirmer } from './sweep-finality.ts'
import { locateFleetTopUps } from '../fleets/locate-fleet-top-ups.ts'

export interface WalletSweeperDeps {
  readonly chain: PaymentChainName
  readonly client: EvmClient
  readonly token: Eip3009Token
  readonly treasury: string
  readonly store: SweepStore
  readonly wallets: Pick<WalletStore, 'find'>
  readonly sealing: EncryptionKeys
  /**
   * Sends a call from the settler's own key, which pays the gas, and waits for the chain for a while.
   * Sent again for the same purpose, it goes on with what is under way.
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
/** An authorization that is not used by then can never be: then the wallet is swept anew. */
const AUTHORIZATION_VALID_SECONDS = HOUR / SECOND

/**
 * Moves credited money from the wallets to the treasury. A wallet only signs: the settler submits and
 * pays the gas, so no wallet ever needs any. Within `world`, so the ledger does not move.
 */
export function createWalletSweeper(parts: WalletSweeperDeps) {
  const { chain, client, token, treasury, store, submit, clock, log } = parts

  const at = () => new Date(clock.now())

  async function start(
    purse: OwnedWallet,
    basis: SweepableBasis,
  ): Promise<WalletSweepRecord | null> {
    const { head, headTime } = await readChainHead(client)
    const terms: SweepAuthorizationTerms = {
      to: treasury,
      nonce: `0x${randomBytes(32).toString('hex')}`,
      validBefore: Number(headTime) + AUTHORIZATION_VALID_SECONDS,
      fromBlock: Number(head),
    }
    return store.start(chain, purse, { id: newUuidV7(clock.now()), terms, basis, at: at() })
  }

  /**
   * Brings a sweep on, as far as the chain lets it: it may have been submitted before, by this node or
   * another one, so the chain is asked first.
   */
  async function push(sweep: WalletSweepRecord): Promise<void> {
    const authorization = toSweepAuthorization(sweep)
    if (await settle(sweep, authorization)) return
    const call = await signSweepCall(parts, sweep, authorization)
    try {
      await submit(`sweep:${sweep.id}`, call)
      await settle(sweep, authorization)
    } catch (error) {
      // Whoever has seen the authorization may submit it: then ours would revert, and all is well.
      if (!(error instanceof WouldRevertError) || !(await settle(sweep, authorization))) throw error
    }
  }

  /** Takes what the chain says for the outcome, whoever sent it; false while there is none. */
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

  const confirmAll = createSweepConfirmer(parts, push, late)

  async function pushAll(sweeps: readonly WalletSweepRecord[]): Promise<void> {
    await Promise.all(sweeps.map((sweep) => push(sweep).catch(late(sweep))))
  }

  return {
    /** Brings on what is under way, then sweeps the wallets that are worth it: one by one, all of them daily. */
    async round(): Promise<void> {
      await pushAll(await store.open(chain, MAX_SWEEPS_PER_ROUND))
      await confirmAll()
      await locateFleetTopUps(parts)
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
     * Empties a wallet of all that was credited to it, as far as it comes until the chain has to be
     * waited for. Answers with what is left to move; zero when the chain has all of it.
     */
    async empty(purse: OwnedWallet): Promise<Micros> {
      const sweep = await start(purse, 'credited')
      if (sweep !== null) await push(sweep)
      return store.owed(chain, purse.address)
    },

    /**
     * What of the money credited to a wallet could still come back to it, since the chain may replace
     * the blocks that have moved it; zero once they are final.
     */
    async unsure({ address }: OwnedWallet): Promise<Micros> {
      await confirmAll(address)
      return store.unsure(chain, address)
    },
  }
}
export type WalletSweeper = ReturnType<typeof createWalletSweeper>

/** The key is opened for this signature and kept nowhere. */
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
