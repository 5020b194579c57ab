import { isRpcUnavailable, type EvmClient } from '../../chain/evm/evm-client.ts'
import { fromAtomicUnits, PAYMENT_NETWORKS } from '../../chain/payment-networks.ts'
import type { HexString } from '../../chain/onchain-payment-types.ts'
import {
  readTransactionTransfers,
  type TokenTransfer,
  type TransactionTransfers,
} from '../../chain/evm/token-transfers-in-transaction.ts'
import { createCustodialWallet } from '../../chain/custody/custodial-wallets.ts'
import type { ActorSystem, AggregateCommandOptions } from '../../actors/aggregate-command-types.ts'
import type { Clock } from '../../core/clock.ts'
import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import { ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  isUniqueViolation,
  toFleetRows,
  type FleetRecord,
  type FleetStore,
} from '../../persistence/fleets/fleet-store.ts'
import {
  createFleetCommand,
  joinFleetCommand,
  topUpFleetCommand,
  type FleetTransfers,
  type FleetTopUpResult,
} from '../commands/fleet-commands.ts'
import { createFleetLeaveAndRemovalCommands } from './fleet-member-removal.ts'

/** Fleets: pools of credits that agents share. Creates them, adds members and credits top-ups. */

export interface FleetServiceDeps {
  readonly actors: ActorSystem
  readonly clock: Clock
  readonly store: FleetStore
  readonly walletKey: EncryptionKeys
  /** The chain of top-ups; null without an RPC of Base. */
  readonly base: { readonly client: EvmClient; readonly usdc: string } | null
  readonly treasury: string | null
}

const MAX_FLEETS_PER_OWNER = 100
/** Seconds per block of Base. */
const BLOCK_SECONDS = 2

/** Creates the fleet service. */
export function createFleetService({
  actors,
  clock,
  store,
  walletKey,
  base,
  treasury,
}: FleetServiceDeps) {
  /** Rejects with `fleet_not_found`, also if the fleet has another owner (decision 11). */
  async function owned(fleetId: string, ownerId: string): Promise<FleetRecord> {
    const fleet = await store.find(fleetId)
    if (fleet?.ownerId === ownerId) return fleet
    throw new ServiceError('fleet_not_found', { fleet_id: fleetId })
  }

  /** Null if another fleet of this owner has taken the number meanwhile. */
  async function createAt(
    ordinal: number,
    ownerId: string,
    name: string,
  ): Promise<FleetRecord | null> {
    if (ordinal > MAX_FLEETS_PER_OWNER)
      throw new ServiceError('limit_reached', { of: 'fleets', limit: MAX_FLEETS_PER_OWNER })
    const createdAt = new Date(clock.now())
    const fleetId = newUuidV7(createdAt.getTime())
    const wallet = createCustodialWallet(walletKey, fleetId)
    const rows = toFleetRows({ fleetId, ownerId, ordinal, name, createdAt }, wallet)
    try {
      await actors.ask(fleetId, createFleetCommand, { ownerId, rows }, { fresh: true })
    } catch (error) {
      if (isUniqueViolation(error, 'fleets')) return null
      throw error
    }
    return { fleetId, ownerId, name, address: wallet.address, members: 0, createdAt }
  }

  const turns = new Map<string, Promise<unknown>>()
  /**
   * Creates fleets of an owner one after the other on this node, so that only another node can take the number first.
   */
  function inTurn<T>(ownerId: string, create: () => Promise<T>): Promise<T> {
    const turn = (turns.get(ownerId) ?? Promise.resolve()).then(create, create)
    turns.set(ownerId, turn)
    const leave = () => turns.get(ownerId) === turn && turns.delete(ownerId)
    turn.then(leave, leave)
    return turn
  }

  async function read(tx: HexString): Promise<TransactionTransfers> {
    if (base === null) throw new ServiceError('rail_disabled')
    const found = await readTransactionTransfers(base.client, base.usdc, tx).catch(
      (error: unknown) => {
        if (!isRpcUnavailable(error)) throw error
        throw new ServiceError('rail_unavailable', { retry_after: BLOCK_SECONDS }, error)
      },
    )
    if (found === null) throw transferNotFoundError(tx, 'No block has this transaction.')
    return found
  }

  return {
    store,
    owned,

    /** Rejects with `limit_reached` above the maximum, also under concurrent requests. */
    create: (ownerId: string, name: string): Promise<FleetRecord> =>
      inTurn(ownerId, async () => {
        for (;;) {
          const created = await createAt((await store.ownedBy(ownerId)) + 1, ownerId, name)
          if (created !== null) return created
        }
      }),

    /** Adds an agent that has agreed; an agent is in one fleet at most. */
    async join(fleetId: string, agentId: string, options: AggregateCommandOptions): Promise<void> {
      const already = new ServiceError('already_in_fleet', { agent_id: agentId })
      const present = await store.membershipOf(agentId)
      // For its own fleet the machine throws, after the Idempotency-Key lookup.
      if (present !== null && present !== fleetId) throw already
      await actors.ask(fleetId, joinFleetCommand, { agentId }, options).catch((error: unknown) => {
        throw isUniqueViolation(error, 'fleet_members') ? already : error
      })
    },

    ...createFleetLeaveAndRemovalCommands({ actors, store }),

    /**
     * The transfers of a transaction that count for this fleet and are not booked yet; may be
     * empty.
     */
    async arrivals({ ownerId, address }: FleetRecord, tx: HexString): Promise<FleetTransfers> {
      const found = await read(tx)
      const wallets = new Set(await store.walletsOf(ownerId))
      const counting = transfersForFleet(found, address.toLowerCase(), treasury, wallets)
      if (counting.length === 0)
        throw transferNotFoundError(
          tx,
          'It moved no USDC to this fleet, nor from a wallet of yours.',
        )
      const missing = LIMITS.depositConfirmations - Number(found.confirmations)
      if (missing > 0) throw unconfirmedTransferError(tx, missing)
      return withoutBookedTransfers(store, { tx, transfers: counting.map(toTopUpTransfer) })
    },

    /**
     * Credits arrived transfers, once across all ways to pay. Transfers another request has booked
     * are skipped; if none is left it rejects with `transfer_claimed`, unless that request had the
     * same Idempotency-Key.
     */
    async topUp(
      fleetId: string,
      found: FleetTransfers,
      options: AggregateCommandOptions,
    ): Promise<FleetTopUpResult> {
      for (let left = found; ; left = await withoutBookedTransfers(store, left)) {
        try {
          const bonusLeft = await store.bonusLeft(fleetId)
          return await actors.ask(fleetId, topUpFleetCommand, { ...left, bonusLeft }, options)
        } catch (error) {
          const lost = ['chain_transfers', 'deposit_bonuses'] as const
          if (!lost.some((table) => isUniqueViolation(error, table))) throw error
        }
      }
    },
  }
}
export type FleetService = ReturnType<typeof createFleetService>

/**
 * Decision 31: counts transfers to the fleet's own address, and transfers that a wallet of the
 * owner has sent to the treasury directly. A transfer by authorization is a payment or the
 * station's own sweep.
 */
function transfersForFleet(
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

const toTopUpTransfer = ({ logIndex, value }: TokenTransfer) => ({
  logIndex,
  amount: fromAtomicUnits(value, PAYMENT_NETWORKS.base.decimals),
})

/** Drops transfers that are already booked. */
async function withoutBookedTransfers(
  store: Pick<FleetStore, 'booked'>,
  { tx, transfers }: FleetTransfers,
): Promise<FleetTransfers> {
  const booked = await store.booked('base', tx)
  return { tx, transfers: transfers.filter(({ logIndex }) => !booked.has(logIndex)) }
}

const transferNotFoundError = (tx: string, detail: string): ServiceError =>
  new ServiceError('transfer_not_found', { detail, tx_hash: tx })

function unconfirmedTransferError(tx: string, missing: number): ServiceError {
  const needed = LIMITS.depositConfirmations
  return new ServiceError('transfer_not_found', {
    detail: `It has ${needed - missing} of ${needed} confirmations: ${missing} are missing.`,
    tx_hash: tx,
    confirmations: needed - missing,
    confirmations_missing: missing,
    retry_after: missing * BLOCK_SECONDS,
  })
}
