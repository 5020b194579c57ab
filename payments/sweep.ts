import { randomBytes } from 'node:crypto'
import { privateKeyToAccount } from 'viem/accounts'
import type { Call, EvmClient } from '../chain/evm.ts'
import { headOf } from '../chain/logs.ts'
import { WouldRevert } from '../chain/transactions.ts'
import {
  findAuthorization,
  signAuthorization,
  transferCall,
  type Authorization,
  type Token,
} from '../chain/usdc.ts'
import { openWallet } from '../chain/wallets.ts'
import { DAY, HOUR, SECOND, type Clock } from '../core/clock.ts'
import type { SealingKeys } from '../core/crypto.ts'
import { newId } from '../core/ids.ts'
import type { Micros } from '../core/money.ts'
import { SMALLEST_DEPOSIT } from '../core/prices.ts'
import type { Sweep, SweepStore, SweepTerms } from '../persistence/sweeps.ts'
import type { WalletStore } from '../persistence/wallets.ts'
import type { ChainName } from './ledger.ts'
import { authorizationOf, confirming } from './sweep-final.ts'
import { placeTopUps } from './top-ups.ts'

export interface SweepParts {
  readonly chain: ChainName
  readonly client: EvmClient
  readonly token: Token
  readonly treasury: string
  readonly store: SweepStore
  readonly wallets: Pick<WalletStore, 'find'>
  readonly sealing: SealingKeys
  /**
   * Sends a call from the settler's own key, which pays the gas, and waits for the chain for a while.
   * Sent again for the same purpose, it goes on with what is under way.
   */
  readonly submit: (purpose: string, call: Call) => Promise<unknown>
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
}

type Basis = 'final' | 'credited'
/** A wallet by its address in lower case; its owner is an agent or a fleet. */
interface Purse {
  readonly agentId: string
  readonly address: string
}

const MOST_AT_ONCE = 20
/** An authorization that is not used by then can never be: then the wallet is swept anew. */
const VALID_SECONDS = HOUR / SECOND

/**
 * Moves credited money from the wallets to the treasury. A wallet only signs: the settler submits and
 * pays the gas, so no wallet ever needs any. Within `world`, so the ledger does not move.
 */
export function sweeper(parts: SweepParts) {
  const { chain, client, token, treasury, store, submit, clock, log } = parts

  const at = () => new Date(clock.now())

  async function start(purse: Purse, basis: Basis): Promise<Sweep | null> {
    const { head, headTime } = await headOf(client)
    const terms: SweepTerms = {
      to: treasury,
      nonce: `0x${randomBytes(32).toString('hex')}`,
      validBefore: Number(headTime) + VALID_SECONDS,
      fromBlock: Number(head),
    }
    return store.start(chain, purse, { id: newId(clock.now()), terms, basis, at: at() })
  }

  /**
   * Brings a sweep on, as far as the chain lets it: it may have been submitted before, by this node or
   * another one, so the chain is asked first.
   */
  async function push(sweep: Sweep): Promise<void> {
    const authorization = authorizationOf(sweep)
    if (await settle(sweep, authorization)) return
    const call = await signed(parts, sweep, authorization)
    try {
      await submit(`sweep:${sweep.id}`, call)
      await settle(sweep, authorization)
    } catch (error) {
      // Whoever has seen the authorization may submit it: then ours would revert, and all is well.
      if (!(error instanceof WouldRevert) || !(await settle(sweep, authorization))) throw error
    }
  }

  /** Takes what the chain says for the outcome, whoever sent it; false while there is none. */
  async function settle(sweep: Sweep, authorization: Authorization): Promise<boolean> {
    const fromBlock = BigInt(sweep.terms.fromBlock)
    const found = await findAuthorization(client, token, { ...authorization, fromBlock })
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
    ({ id }: Sweep) =>
    (error: unknown) =>
      log(`sweep ${id} waits`, error)

  const confirmAll = confirming(parts, push, late)

  async function pushAll(sweeps: readonly Sweep[]): Promise<void> {
    await Promise.all(sweeps.map((sweep) => push(sweep).catch(late(sweep))))
  }

  return {
    /** Brings on what is under way, then sweeps the wallets that are worth it: one by one, all of them daily. */
    async round(): Promise<void> {
      await pushAll(await store.open(chain, MOST_AT_ONCE))
      await confirmAll()
      await placeTopUps(parts)
      const older = new Date(clock.now() - DAY)
      const full = await store.full(chain, SMALLEST_DEPOSIT, older, MOST_AT_ONCE)
      const started: Sweep[] = []
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
    async empty(purse: Purse): Promise<Micros> {
      const sweep = await start(purse, 'credited')
      if (sweep !== null) await push(sweep)
      return store.owed(chain, purse.address)
    },

    /**
     * What of the money credited to a wallet could still come back to it, since the chain may replace
     * the blocks that have moved it; zero once they are final.
     */
    async unsure({ address }: Purse): Promise<Micros> {
      await confirmAll(address)
      return store.unsure(chain, address)
    },
  }
}
export type Sweeper = ReturnType<typeof sweeper>

/** The key is opened for this signature and kept nowhere. */
async function signed(
  { token, wallets, sealing }: SweepParts,
  sweep: Sweep,
  authorization: Authorization,
): Promise<Call> {
  const wallet = await wallets.find(sweep.agentId, sweep.address)
  if (wallet === null) throw new Error(`sweep ${sweep.id} has no wallet`)
  const account = privateKeyToAccount(openWallet(sealing, sweep.agentId, wallet))
  return transferCall(token, authorization, await signAuthorization(account, token, authorization))
}
