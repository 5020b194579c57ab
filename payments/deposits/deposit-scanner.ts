import type {
  LatestAndFinalBlocks,
  IncomingTransferLog,
} from '../../chain/evm/incoming-token-transfers.ts'
import type { Clock } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { asMicros } from '../../core/money.ts'
import {
  depositMessageId,
  type IncomingUsdcTransfer,
  type ChainBlockId,
  type DepositBookingFactory,
  type ChainCheckpoint,
  type DepositRecord,
  type DepositStore,
  type DepositReversalFactory,
} from '../../persistence/payments/deposit-store.ts'
import type { WalletStore } from '../../persistence/payments/wallet-store.ts'
import type {
  DepositMessage,
  ReversedDepositMessage,
} from '../commands/agent-deposit-inbox-messages.ts'
import {
  agentSubMinimumDepositsAccount,
  externalChainAccount,
  type PaymentChainName,
} from '../ledger-accounts.ts'

/** Chain queries of the deposit scanner (`chain/evm/incoming-token-transfers.ts`). */
export interface DepositChainSource {
  heads(): Promise<LatestAndFinalBlocks>
  /** Null if the node has no block of that number. */
  blockHash(block: bigint): Promise<string | null>
  transfersTo(
    addresses: readonly string[],
    from: bigint,
    to: bigint,
  ): Promise<readonly IncomingTransferLog[]>
  /** In atomic units, by address. */
  balancesOf(addresses: readonly string[], block: bigint): Promise<ReadonlyMap<string, bigint>>
}

export interface DepositScannerDeps {
  readonly chain: PaymentChainName
  readonly source: DepositChainSource
  readonly store: DepositStore
  readonly wallets: Pick<WalletStore, 'watched'>
  /** Makes an agent absorb its inbox. */
  readonly wake: (agentId: string) => Promise<void>
  readonly clock: Pick<Clock, 'now'>
  readonly log: (message: string, error: unknown) => void
}

/** The result of one scan. */
export interface DepositScanResult {
  /** More blocks can be read at once. */
  readonly more: boolean
  /** The last block read, and the newest block. */
  readonly read: bigint
  readonly head: bigint
}

/** A difference between a wallet's balance on the chain and in the ledger. */
export interface WalletDiscrepancy {
  readonly agentId: string
  readonly address: string
  readonly booked: bigint
  readonly held: bigint
}

/** Blocks per scan; each block that may still be replaced costs one request. */
const MAX_BLOCKS = 2_000n
const MAX_UNFINALIZED_BLOCKS = 200n
/** How far the hourly comparison searches for a missed transfer: one day of Base. */
const LOOK_BACK_BLOCKS = 43_200n

/**
 * Reads confirmed transfers to our wallets in chain order. Any number of nodes may do so at once
 * and may crash at any point: the transfers of a block are booked once.
 */
export function createDepositScanner(parts: DepositScannerDeps) {
  const { chain, source, store, wallets, clock, log } = parts
  const book: DepositBookingFactory = (deposit) => toDepositBooking(chain, deposit)
  const unbook: DepositReversalFactory = (deposit) => toDepositReversal(chain, deposit)
  const now = () => new Date(clock.now())

  async function look(): Promise<DepositScanResult> {
    const heads = await source.heads()
    const { latest: head } = heads
    const confirmed = head - BigInt(LIMITS.depositConfirmations) + 1n
    const known = await store.checkpoint(chain)
    if (known === null) return begin(confirmed, head)
    const { next } = known
    const idle = { more: false, read: next - 1n, head }
    // A node that lags behind what was read knows nothing new.
    if (head < next - 1n) return idle
    const tip = known.blocks[0] ?? null
    const hash = tip === null ? null : await source.blockHash(tip.number)
    if (tip !== null && hash === null) return idle
    if (tip !== null && hash !== tip.hash) return goBack(known, tip, head)
    return confirmed < next ? idle : goOn(known, tip, confirmed, heads)
  }

  /** Starts at the current block; the hourly comparison finds earlier transfers. */
  async function begin(confirmed: bigint, head: bigint): Promise<DepositScanResult> {
    const next = confirmed < 0n ? 0n : confirmed
    const before = next === 0n ? null : next - 1n
    const hash = before === null ? null : await source.blockHash(before)
    if (before !== null && hash === null) return { more: false, read: before, head }
    const anchor = before === null || hash === null ? null : { number: before, hash }
    await store.begin(chain, next, anchor, now())
    return { more: true, read: next - 1n, head }
  }

  async function goOn(
    known: ChainCheckpoint,
    tip: ChainBlockId | null,
    confirmed: bigint,
    heads: LatestAndFinalBlocks,
  ) {
    const { next: from } = known
    const { finalized, latest: head } = heads
    const to = lastBlockToRead(from, confirmed, finalized)
    const blocks = await readBlockIds(source, from, to, finalized)
    const logs = await source.transfersTo(await wallets.watched(), from, to)
    // If the chain changed while it was read, the next scan reads these blocks again.
    const ends = tip === null ? blocks.slice(-1) : [tip, ...blocks.slice(-1)]
    const same = blocks.length > 0 && (await areBlocksCanonical(source, ends))
    if (!same || !logs.every((one) => isInBlocks(blocks, one))) {
      return { more: false, read: from - 1n, head }
    }
    const arrivals = logs.filter(isCreditableTransfer).map(toArrival)
    const stretch = { from, to, after: tip, blocks, finalized, arrivals, at: now() }
    const agents = await store.advance(chain, stretch, book)
    await wakeAgents(parts, agents ?? [])
    return { more: to < confirmed, read: to, head }
  }

  /** Rewinds: blocks that were read are no longer part of the chain. */
  async function goBack(
    known: ChainCheckpoint,
    tip: ChainBlockId,
    head: bigint,
  ): Promise<DepositScanResult> {
    const ancestor = await commonAncestor(source, known.blocks)
    if (ancestor === null) {
      throw new Error(`${chain} has replaced blocks that were final: block ${tip.number} and below`)
    }
    log(`${chain} was reorganised above block ${ancestor}, ${tip.number} had been read`, null)
    const history = { next: known.next, after: tip, ancestor, at: now() }
    const agents = await store.rewind(chain, history, unbook)
    await wakeAgents(parts, agents ?? [])
    return { more: true, read: ancestor, head }
  }

  return { look, compare: () => compareWalletsWithLedger(parts, book) }
}
export type DepositScanner = ReturnType<typeof createDepositScanner>

/**
 * Compares all wallets with the ledger at the last block read. Missing transfers are searched
 * again; remaining differences are reported to the operator.
 */
async function compareWalletsWithLedger(
  parts: DepositScannerDeps,
  book: DepositBookingFactory,
): Promise<WalletDiscrepancy[]> {
  const { chain, store, log } = parts
  const known = await store.checkpoint(chain)
  if (known === null || known.next === 0n) return []
  const block = known.next - 1n
  const wanting = (await findDiscrepancies(parts, block)).filter(
    ({ held, booked }) => held > booked,
  )
  if (
    wanting.length > 0 &&
    (await creditOverlookedTransfers(parts, book, { wanting, block })) > 0
  ) {
    log(`deposits on ${chain} had been overlooked`, null)
  }
  return findDiscrepancies(parts, block)
}

/** Credits missed transfers: a node may have answered for blocks it did not have yet. */
async function creditOverlookedTransfers(
  parts: DepositScannerDeps,
  book: DepositBookingFactory,
  { wanting, block }: { wanting: readonly WalletDiscrepancy[]; block: bigint },
): Promise<number> {
  const { chain, source, store, clock } = parts
  const from = block > LOOK_BACK_BLOCKS ? block - LOOK_BACK_BLOCKS : 0n
  const addresses = wanting.map(({ address }) => address)
  const logs = await source.transfersTo(addresses, from, block)
  const arrivals = logs.filter(isCreditableTransfer).map(toArrival)
  const agents = await store.creditLate(chain, arrivals, new Date(clock.now()), book)
  await wakeAgents(parts, agents)
  return agents.length
}

async function findDiscrepancies(
  { chain, source, store }: DepositScannerDeps,
  block: bigint,
): Promise<WalletDiscrepancy[]> {
  const booked = await store.bookedAt(chain, block)
  const held = await source.balancesOf(
    booked.map(({ address }) => address),
    block,
  )
  return booked
    .map(({ agentId, address, amount }) => {
      return { agentId, address, booked: amount, held: held.get(address) ?? 0n }
    })
    .filter((one) => one.booked !== one.held)
}

async function wakeAgents(
  { wake, log }: DepositScannerDeps,
  agents: readonly string[],
): Promise<void> {
  const woken = await Promise.allSettled(agents.map(wake))
  for (const one of woken) {
    // The inbox is durable: the agent's next request or the timer sweep absorbs it.
    if (one.status === 'rejected') log('an agent was not woken for its deposit', one.reason)
  }
}

/** The blocks that may still be replaced, and always the last one; empty if the node lacks one. */
async function readBlockIds(
  source: DepositChainSource,
  from: bigint,
  to: bigint,
  finalized: bigint,
): Promise<ChainBlockId[]> {
  const first = from > finalized ? from : finalized + 1n
  const numbers = first > to ? [to] : blockRange(first, to)
  const hashes = await Promise.all(numbers.map((number) => source.blockHash(number)))
  const blocks = numbers.map((number, at) => ({ number, hash: hashes[at] ?? '' }))
  return blocks.every(({ hash }) => hash !== '') ? blocks : []
}

async function areBlocksCanonical(
  source: DepositChainSource,
  blocks: readonly ChainBlockId[],
): Promise<boolean> {
  const hashes = await Promise.all(blocks.map(({ number }) => source.blockHash(number)))
  return blocks.every(({ hash }, at) => hash === hashes[at])
}

/** The newest of the blocks that is still part of the chain. */
async function commonAncestor(
  source: DepositChainSource,
  blocks: readonly ChainBlockId[],
): Promise<bigint | null> {
  for (const { number, hash } of blocks) {
    if ((await source.blockHash(number)) === hash) return number
  }
  return null
}

/** The last block of one scan. */
function lastBlockToRead(from: bigint, confirmed: bigint, finalized: bigint): bigint {
  const first = finalized + 1n > from ? finalized + 1n : from
  return [confirmed, from + MAX_BLOCKS - 1n, first + MAX_UNFINALIZED_BLOCKS - 1n].reduce((a, b) =>
    a < b ? a : b,
  )
}

const blockRange = (from: bigint, to: bigint): bigint[] =>
  Array.from({ length: Number(to - from) + 1 }, (_, at) => from + BigInt(at))

/** Whether a log is on the chain as it was read; final blocks are not remembered individually. */
function isInBlocks(
  blocks: readonly ChainBlockId[],
  { block, blockHash }: IncomingTransferLog,
): boolean {
  const own = blocks.find(({ number }) => number === block)
  return own === undefined || own.hash === blockHash
}

/** Zero transfers poison address books; a transfer to itself brings nothing. */
const isCreditableTransfer = ({ from, to, value }: IncomingTransferLog): boolean =>
  value > 0n && from !== to

/** USDC on Base has the six decimals of the ledger. */
const toArrival = ({ value, ...log }: IncomingTransferLog): IncomingUsdcTransfer => ({
  ...log,
  amount: asMicros(value),
})

function toDepositBooking(
  chain: PaymentChainName,
  deposit: DepositRecord,
): ReturnType<DepositBookingFactory> {
  const { agentId, amount, tx } = deposit
  const id = depositMessageId(deposit)
  const event: Omit<DepositMessage, 'bonusLeft'> = {
    ...{ type: 'DEPOSIT', source: 'deposit' },
    ...{ id, pending: amount, chain, tx },
  }
  return {
    transfer: {
      debit: externalChainAccount(chain),
      credit: agentSubMinimumDepositsAccount(agentId),
      amount,
      kind: 'deposit',
    },
    message: { receiver: agentId, receiverKind: 'agent', id, event: { ...event } },
  }
}

function toDepositReversal(
  chain: PaymentChainName,
  deposit: DepositRecord,
): ReturnType<DepositReversalFactory> {
  const id = depositMessageId(deposit)
  const event: ReversedDepositMessage = { type: 'UNDO_DEPOSIT', id, amount: deposit.amount, chain }
  const { agentId } = deposit
  return { receiver: agentId, receiverKind: 'agent', id: `undo:${id}`, event: { ...event } }
}
