import { isRpcDown, type EvmClient } from '../chain/evm.ts'
import { fromAtomic, NETWORKS } from '../chain/networks.ts'
import type { Hex } from '../chain/payment.ts'
import { transfersIn, type TokenTransfer, type TransactionTransfers } from '../chain/transfers.ts'
import { createWallet } from '../chain/wallets.ts'
import type { Actors, AskOptions } from '../actors/command.ts'
import type { Clock } from '../core/clock.ts'
import type { SealingKeys } from '../core/crypto.ts'
import { ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { isTaken, stagedFleet, type Fleet, type FleetStore } from '../persistence/fleets.ts'
import {
  fleetCreate,
  fleetJoin,
  fleetTopUp,
  type FleetTopUp,
  type ToppedUpFleet,
} from './commands/fleet.ts'
import { fleetLeaving } from './fleet-leaving.ts'

export interface FleetParts {
  readonly actors: Actors
  readonly clock: Clock
  readonly store: FleetStore
  readonly walletKey: SealingKeys
  /** Where top-ups are looked for; null without an RPC of Base. */
  readonly base: { readonly client: EvmClient; readonly usdc: string } | null
  readonly treasury: string | null
}

/** Fleets one agent may own. */
const MOST_FLEETS = 100
/** A block of Base takes two seconds. */
const BLOCK_SECONDS = 2

/** Pools of credits that agents share: how they come into being, take members and take money in. */
export function fleets({ actors, clock, store, walletKey, base, treasury }: FleetParts) {
  /** Rejects with `fleet_not_found`, also where the fleet is somebody else's (decision 11). */
  async function owned(fleetId: string, ownerId: string): Promise<Fleet> {
    const fleet = await store.find(fleetId)
    if (fleet?.ownerId === ownerId) return fleet
    throw new ServiceError('fleet_not_found', { fleet_id: fleetId })
  }

  /** Null where another fleet of this owner has taken the place meanwhile. */
  async function createAt(place: number, ownerId: string, name: string): Promise<Fleet | null> {
    if (place > MOST_FLEETS)
      throw new ServiceError('limit_reached', { of: 'fleets', limit: MOST_FLEETS })
    const createdAt = new Date(clock.now())
    const fleetId = newId(createdAt.getTime())
    const wallet = createWallet(walletKey, fleetId)
    const rows = stagedFleet({ fleetId, ownerId, place, name, createdAt }, wallet)
    try {
      await actors.ask(fleetId, fleetCreate, { ownerId, rows }, { fresh: true })
    } catch (error) {
      if (isTaken(error, 'fleets')) return null
      throw error
    }
    return { fleetId, ownerId, name, address: wallet.address, members: 0, createdAt }
  }

  async function read(tx: Hex): Promise<TransactionTransfers> {
    if (base === null) throw new ServiceError('rail_disabled')
    const found = await transfersIn(base.client, base.usdc, tx).catch((error: unknown) => {
      if (!isRpcDown(error)) throw error
      throw new ServiceError('rail_unavailable', { retry_after: BLOCK_SECONDS }, error)
    })
    if (found === null) throw notFound(tx, 'No block has this transaction.')
    return found
  }

  return {
    store,
    owned,

    /** Rejects with `limit_reached` behind the hundredth one, also where several are created at once. */
    async create(ownerId: string, name: string): Promise<Fleet> {
      for (;;) {
        const created = await createAt((await store.ownedBy(ownerId)) + 1, ownerId, name)
        if (created !== null) return created
      }
    },

    /** Takes an agent in that has agreed to it; an agent is in one fleet at most. */
    async join(fleetId: string, agentId: string, options: AskOptions): Promise<void> {
      const already = new ServiceError('already_in_fleet', { agent_id: agentId })
      const present = await store.membershipOf(agentId)
      // Of its own fleet's member the chart says so, after it has looked the Idempotency-Key up.
      if (present !== null && present !== fleetId) throw already
      await actors.ask(fleetId, fleetJoin, { agentId }, options).catch((error: unknown) => {
        throw isTaken(error, 'fleet_members') ? already : error
      })
    },

    ...fleetLeaving({ actors, store }),

    /** What a transaction brings to a fleet of this owner, and has not been booked for anything yet; perhaps nothing. */
    async arrivals({ ownerId, address }: Fleet, tx: Hex): Promise<FleetTopUp> {
      const found = await read(tx)
      const wallets = new Set(await store.walletsOf(ownerId))
      const counting = countingFor(found, address.toLowerCase(), treasury, wallets)
      if (counting.length === 0)
        throw notFound(tx, 'It moved no USDC to this fleet, nor from a wallet of yours.')
      const missing = LIMITS.depositConfirmations - Number(found.confirmations)
      if (missing > 0) throw tooYoung(tx, missing)
      return unbooked(store, { tx, transfers: counting.map(bookable) })
    },

    /**
     * Credits what has arrived, once over all ways to pay. What another request takes meanwhile is left
     * to it; with nothing left it rejects with `transfer_claimed`, unless that request had the same
     * Idempotency-Key.
     */
    async topUp(fleetId: string, found: FleetTopUp, options: AskOptions): Promise<ToppedUpFleet> {
      for (let left = found; ; left = await unbooked(store, left)) {
        try {
          return await actors.ask(fleetId, fleetTopUp, left, options)
        } catch (error) {
          if (!isTaken(error, 'chain_moves')) throw error
        }
      }
    },
  }
}
export type Fleets = ReturnType<typeof fleets>

/**
 * Decision 31: what went to the fleet's own address, and what a wallet of the owner has sent to the
 * treasury by itself. By an authorization it was a payment, or the station's own sweep.
 */
function countingFor(
  { transfers, sender, authorizers }: TransactionTransfers,
  address: string,
  treasury: string | null,
  wallets: ReadonlySet<string>,
) {
  return transfers.filter(({ from, to }) => {
    if (to === address) return true
    return to === treasury && wallets.has(from) && from === sender && !authorizers.has(from)
  })
}

const bookable = ({ logIndex, value }: TokenTransfer) => ({
  logIndex,
  amount: fromAtomic(value, NETWORKS.base.decimals),
})

/** Without what has been booked for anything by now. */
async function unbooked(
  store: Pick<FleetStore, 'booked'>,
  { tx, transfers }: FleetTopUp,
): Promise<FleetTopUp> {
  const booked = await store.booked('base', tx)
  return { tx, transfers: transfers.filter(({ logIndex }) => !booked.has(logIndex)) }
}

const notFound = (tx: string, detail: string): ServiceError =>
  new ServiceError('transfer_not_found', { detail, tx_hash: tx })

function tooYoung(tx: string, missing: number): ServiceError {
  const needed = LIMITS.depositConfirmations
  return new ServiceError('transfer_not_found', {
    detail: `It has ${needed - missing} of ${needed} confirmations: ${missing} are missing.`,
    tx_hash: tx,
    confirmations: needed - missing,
    confirmations_missing: missing,
    retry_after: missing * BLOCK_SECONDS,
  })
}
