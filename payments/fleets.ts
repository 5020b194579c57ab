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
import { fleetLeave } from './commands/fleet-leave.ts'

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

  /** Why an agent cannot be removed by somebody who does not own its fleet, or the one that was named. */
  async function notOwned(
    caller: string,
    agentId: string,
    asked: string | null,
    fleetId: string | null,
  ): Promise<ServiceError> {
    const isMember = fleetId !== null && (await store.membershipOf(caller)) === fleetId
    if (isMember) {
      const detail = caller === agentId ? LEAVE_INSTEAD : undefined
      return new ServiceError('fleet_not_yours', { ...(detail && { detail }), fleet_id: fleetId })
    }
    if (asked !== null) return new ServiceError('fleet_not_found', { fleet_id: asked })
    return notIn(agentId, null, IN_NONE_OF_YOURS)
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

    /**
     * Ends the membership of an agent that asks for it; without `fleetId` in the fleet it is in. An owner
     * that is a member leaves as any other and stays the owner (decision 178). Answers with the fleet.
     */
    async leave(
      agentId: string,
      fleetId: string | null,
      options: AskOptions,
    ): Promise<{ fleetId: string }> {
      const leaving = { fleetId, removedBy: null }
      return actors.ask(agentId, fleetLeave, leaving, options).catch(async (error: unknown) => {
        if (!isNotIn(error)) throw error
        const owns = (await store.ownedBy(agentId)) > 0
        const nothing = fleetId === null ? IN_NONE : NO_MEMBER
        throw notIn(agentId, fleetId, owns ? `${nothing} ${OWNERS}` : nothing)
      })
    },

    /**
     * Ends the membership of an agent for the owner of its fleet; without `fleetId` in the one it is in.
     * Rejects with `fleet_not_found` where the owner's fleet is not there, `fleet_not_yours` where the
     * one who asks is a member of it only, and `not_in_fleet`, which tells nothing of fleets of others.
     */
    async remove(
      removedBy: string,
      { agentId, fleetId: asked }: { agentId: string; fleetId: string | null },
      options: AskOptions,
    ): Promise<{ fleetId: string }> {
      const fleetId = asked ?? (await store.membershipOf(agentId))
      const fleet = fleetId === null ? null : await store.find(fleetId)
      if (fleet?.ownerId !== removedBy) throw await notOwned(removedBy, agentId, asked, fleetId)
      const leaving = { fleetId, removedBy }
      return actors.ask(agentId, fleetLeave, leaving, options).catch((error: unknown) => {
        throw isNotIn(error) ? notIn(agentId, fleetId, NOT_A_MEMBER) : error
      })
    },

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

const IN_NONE = 'You are in no fleet: there is nothing to leave.'
const NO_MEMBER = 'You are no member of this fleet: there is nothing to leave.'
const OWNERS =
  'An owner is a member only after adding itself, and stays the owner of its fleets. To keep others from drawing on a pool of yours, remove them with POST /api/fleet/remove-agent.'
const LEAVE_INSTEAD =
  'Only its owner may remove agents from a fleet: leave it with POST /api/fleet/leave.'
const NOT_A_MEMBER = 'The agent is no member of this fleet: it has left, or it never joined.'
const IN_NONE_OF_YOURS = 'The agent is in no fleet of yours.'

const isNotIn = (error: unknown): boolean =>
  error instanceof ServiceError && error.code === 'not_in_fleet'

const notIn = (agentId: string, fleetId: string | null, detail: string): ServiceError =>
  new ServiceError('not_in_fleet', {
    detail,
    agent_id: agentId,
    ...(fleetId === null ? {} : { fleet_id: fleetId }),
  })

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
