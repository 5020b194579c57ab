import type { EvmClient } from '../chain/evm.ts'
import type { Payment } from '../chain/payment.ts'
import { WouldRevert } from '../chain/transactions.ts'
import type { Token } from '../chain/usdc.ts'
import { SECOND, type Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { StoredTx } from '../persistence/settler-lane.ts'
import { REORG_BLOCKS } from './commands/payment.ts'
import { batching } from './settle-batch.ts'
import {
  lastLookAt,
  VOID_MARGIN_SECONDS,
  type Next,
  type SettleRail,
  type Tell,
  type Work,
} from './settle-rail.ts'
import { since, type Since } from './settle-since.ts'
import { termsOf, type Terms } from './settle-terms.ts'
import type { Transmitter } from './transmitter.ts'
import type { Verdict } from './verdicts.ts'

export interface EvmRailParts {
  readonly client: EvmClient
  readonly token: Token
  readonly transmitter: Transmitter
  readonly clock: Clock
  readonly tell: Tell
  readonly log: (message: string, error: unknown) => void
  /** The settlement or deposit a transfer on this chain was booked for; null when for none. */
  readonly bookedFor: (tx: string, logIndex: number) => Promise<string | null>
  /** How long a receipt is waited for after sending, in milliseconds. */
  readonly receiptMs: number
  readonly signal: AbortSignal
}

/** What all steps of one chain share. */
interface Rail extends EvmRailParts {
  /** Signs and stores the transaction of a settlement, alone or with others. */
  readonly prepare: (work: Work, terms: Terms) => Promise<StoredTx>
  /** What could not be carried out when it was looked at last. */
  readonly hopeless: Since
}

/** Settles EIP-3009 and Permit2 by our own key. */
export function evmRail(parts: EvmRailParts): SettleRail {
  const { client, token, transmitter, bookedFor } = parts
  const shared = batching(parts)
  // Whoever waits for its payment goes by itself: a batch is never given up for one of those in it.
  const prepare = ({ id: purpose, delivery, payment }: Work, { call, shares }: Terms) =>
    shares && delivery === 'delivered'
      ? shared({ purpose, payer: payment.from, call })
      : transmitter.prepare(purpose, call)
  const rail: Rail = { ...parts, prepare, hopeless: since(parts.clock, SECOND_LOOK_MS) }
  const termsFor = ({ id, payment }: { id: string; payment: Payment }) =>
    termsOf(client, token, payment, async (tx, logIndex) => {
      const booked = await bookedFor(tx, logIndex)
      return booked === null || booked === id
    })
  return {
    advance(work) {
      const terms = termsFor(work)
      if (work.money === 'due') return submit(rail, work, terms)
      return work.money === 'submitted' ? confirm(rail, work, terms) : reconcile(rail, work, terms)
    },
  }
}

/** No node behind one address lags so far. */
const SECOND_LOOK_MS = 12 * SECOND

/** Signs, stores, tells, sends: in this order, so that no crash leaves a payment nobody knows of. */
async function submit(rail: Rail, work: Work, terms: Terms): Promise<Next> {
  const { tell, prepare, transmitter } = rail
  const tx = await prepare(work, terms).catch(noneIfReverting)
  if (tx === null) return on(tell.unknown(work))
  const money = await tell.submitted(work, tx.hash)
  // Another node has given it up before this one had signed: its payer may have been told so.
  if (money === 'lost') await transmitter.cancel(work.id)
  if (money !== 'submitted') return 'on'
  if (!(await sent(rail, work, tx))) return 'later'
  return awaited(rail, work, terms, tx)
}

/** A node that does not answer may have passed it on. */
async function sent({ transmitter, tell }: Rail, work: Work, tx: StoredTx): Promise<boolean> {
  const taken = await transmitter.send(tx).catch((error: unknown) => error as Error)
  if (taken === true) return true
  await tell.unknown(work)
  if (taken !== false) throw taken
  return false
}

async function awaited(rail: Rail, work: Work, terms: Terms, tx: StoredTx): Promise<Next> {
  const { transmitter, tell, receiptMs, signal } = rail
  const verdict = await transmitter.wait(tx, receiptMs, signal)
  if (verdict.state !== 'open') return conclude(rail, work, terms, verdict)
  if (!signal.aborted) await tell.unknown(work)
  return 'later'
}

/** Somebody else may be waiting for it: only what is old is taken for unknown. */
async function confirm(rail: Rail, work: Work, terms: Terms): Promise<Next> {
  const { transmitter, tell } = rail
  const verdict = await transmitter.look(work.id)
  if (verdict.state !== 'open') return conclude(rail, work, terms, verdict)
  const tx = await transmitter.newest(work.id)
  if (tx !== null && transmitter.isFresh(tx)) return 'later'
  return on(tell.unknown(work))
}

async function conclude(rail: Rail, work: Work, terms: Terms, verdict: Verdict): Promise<Next> {
  const where = arrivalIn(terms, verdict)
  if (where !== null) return on(rail.tell.settled(work, where))
  await rail.tell.unknown(work)
  return work.money === 'unknown' ? 'later' : 'on'
}

function arrivalIn(terms: Terms, { receipt }: Verdict) {
  const logIndex = receipt === null ? null : terms.arrivedIn(receipt)
  if (receipt === null || logIndex === null) return null
  return { tx: receipt.transactionHash, logIndex, block: receipt.blockNumber }
}

/**
 * What we sent ourselves is known by its hash. Beyond that the chain decides by the payment's own
 * nonce, whoever has sent what.
 */
async function reconcile(rail: Rail, work: Work, terms: Terms): Promise<Next> {
  const { tell, log, transmitter } = rail
  const verdict = await transmitter.look(work.id)
  const where = arrivalIn(terms, verdict)
  if (where !== null) return on(tell.settled(work, where))
  const found = await terms.find(work.fromBlock)
  if (found.state === 'used' && found.paid) return on(tell.settled(work, found))
  if (found.state === 'used' || found.state === 'canceled') {
    log(`the payment of ${work.id} was ${found.state} without paying`, found.tx)
    // The block that says so may be replaced by one in which it is paid: one look at its end is left.
    return giveUp(rail, work, work.money === 'lost' ? null : lastLookAt(work.payment))
  }
  if (found.headTime >= work.payment.validBefore + BigInt(VOID_MARGIN_SECONDS)) {
    if (found.state === 'spent') log(`the nonce of ${work.id} was spent on something else`, null)
    return giveUp(rail, work, null)
  }
  if (found.state === 'spent' || work.money === 'lost') return 'later'
  return pursue(rail, work, terms, verdict)
}

/** After it has failed in a block; twice as long after the next one. */
const FAILED_REST_MS = 2 * SECOND

/** The nonce is unused and still good. */
async function pursue(rail: Rail, work: Work, terms: Terms, verdict: Verdict): Promise<Next> {
  const { transmitter, tell, log } = rail
  const delivered = work.delivery === 'delivered'
  // Mined, and it has not paid: in a batch one may fail where the others succeed.
  const failed = verdict.state === 'reverted' || verdict.state === 'mined'
  // Its sender was told that it failed: nothing may be taken after that.
  if (failed && !delivered) return giveUp(rail, work, lastLookAt(work.payment))
  // Each transaction counts once: with its failure its name is forgotten.
  const counts = failed && work.txHash !== null
  const failures = work.attempts + (counts ? 1 : 0)
  // The code of its payer may say yes whenever it is asked, and no in every block: the gas is ours.
  if (counts && failures >= LIMITS.settleAttempts) {
    log(`the payment of ${work.id} has failed in ${failures} blocks: given up`, null)
    return giveUp(rail, work, lastLookAt(work.payment))
  }
  const tx = verdict.state === 'open' ? await transmitter.newest(work.id) : null
  if (await isDoomed(rail, terms, tx)) {
    const now = await terms.find(work.fromBlock)
    // Somebody may have submitted it in this very moment.
    if (now.state !== 'unused') return 'on'
    if (!delivered) {
      // The node that has just tried it may know a block that the other one does not know yet.
      const certain = await failsAt(rail, work, terms, now.head)
      if (!certain && !rail.hopeless.forLong(work.id)) return { restMs: SECOND_LOOK_MS }
      return giveUp(rail, work, lastLookAt(work.payment))
    }
    await transmitter.cancel(work.id)
    return 'later'
  }
  rail.hopeless.end(work.id)
  if (tx === null) {
    await tell.retry(work, counts)
    // What failed in a block although it could be carried out before may fail in each: not at once again.
    if (counts) return { restMs: FAILED_REST_MS * 2 ** work.attempts }
    return failed ? 'later' : 'on'
  }
  if ((await tell.submitted(work, tx.hash)) !== 'submitted') return 'on'
  return (await sent(rail, work, tx)) ? awaited(rail, work, terms, tx) : 'later'
}

/** What is signed already is asked for by itself, what is not as it will be before it is signed. */
async function isDoomed({ transmitter }: Rail, { call }: Terms, tx: StoredTx | null) {
  if (tx !== null) return transmitter.wouldRevert(call, tx)
  return (await transmitter.estimate(call).catch(noneIfReverting)) === null
}

/**
 * Whether a payment that is unused at a block cannot be carried out at this very block either, and its
 * payer had the money no later: then it is not a node that lags, and nobody has to look again.
 */
async function failsAt(
  { transmitter }: Rail,
  { fromBlock }: Work,
  { call }: Terms,
  block: bigint,
): Promise<boolean> {
  if (fromBlock === 0n || block < fromBlock + REORG_BLOCKS) return false
  return transmitter.revertsAt(call, block).catch(() => false)
}

async function giveUp(
  { transmitter, tell }: Rail,
  work: Work,
  lookAt: number | null,
): Promise<Next> {
  await transmitter.cancel(work.id)
  return on(tell.lost(work, lookAt))
}

/** Where there is nothing left to do, nobody has to look again. */
async function on(told: Promise<string>): Promise<Next> {
  const money = await told
  return money === 'settled' || money === 'lost' ? 'done' : 'on'
}

function noneIfReverting(error: unknown): null {
  if (error instanceof WouldRevert) return null
  throw error
}
