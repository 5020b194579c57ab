import { setTimeout as pause } from 'node:timers/promises'
import type { TransactionReceipt } from 'viem'
import type { Call, EvmClient } from '../chain/evm.ts'
import type { Hex, Payment } from '../chain/payment.ts'
import { findPermit2, settleCall } from '../chain/permit2.ts'
import { WouldRevert } from '../chain/transactions.ts'
import { findAuthorization, paidIn, transferCall, type Found, type Token } from '../chain/usdc.ts'
import {
  lastLookAt,
  VOID_MARGIN_SECONDS,
  type Next,
  type SettleRail,
  type Tell,
  type Work,
} from './settle-rail.ts'
import type { StoredTx } from '../persistence/settler-lane.ts'
import type { Transmitter, Verdict } from './transmitter.ts'

/** How one kind of signature is settled on an EVM chain, and found there again. */
interface Terms {
  readonly call: Call
  find(fromBlock: bigint): Promise<Found>
  /** The log that moved our money; null when there is none. */
  arrivedIn(receipt: TransactionReceipt): number | null
}

function termsOf(client: EvmClient, token: Token, payment: Payment): Terms {
  const { asset, from, to, amount, validAfter, validBefore, proof } = payment
  if (proof.kind === 'eip3009') {
    const nonce = payment.nonce as Hex
    const authorization = { from, to, value: amount, validAfter, validBefore, nonce }
    return {
      call: transferCall(token, authorization, proof.signature),
      find: (fromBlock) => findAuthorization(client, token, { ...authorization, fromBlock }),
      arrivedIn: (receipt) => paidIn(receipt, asset, from, to, amount, nonce),
    }
  }
  if (proof.kind !== 'permit2') throw new Error(`no EVM chain settles a payment of ${proof.kind}`)
  const { spender, deadline, signature } = proof
  const nonce = BigInt(payment.nonce)
  const permit = { from, token: asset, amount, spender, nonce, deadline, to, validAfter }
  return {
    call: settleCall(permit, signature),
    find: (fromBlock) => findPermit2(client, permit, fromBlock),
    arrivedIn: (receipt) => paidIn(receipt, asset, from, to, amount),
  }
}

export interface EvmRailParts {
  readonly client: EvmClient
  readonly token: Token
  readonly transmitter: Transmitter
  readonly tell: Tell
  readonly log: (message: string, error: unknown) => void
  /** How long a receipt is waited for after sending, in milliseconds. */
  readonly receiptMs: number
  readonly signal: AbortSignal
}

/** Settles EIP-3009 and Permit2 by our own key (payments, section 7). */
export function evmRail(parts: EvmRailParts): SettleRail {
  const { client, token, transmitter, tell, log, receiptMs, signal } = parts

  /** Signs, stores, tells, sends: in this order, so that no crash leaves a payment nobody knows of. */
  async function submit(work: Work, terms: Terms): Promise<Next> {
    const tx = await transmitter.prepare(work.id, terms.call).catch(noneIfReverting)
    if (tx === null) return on(tell.unknown(work))
    if ((await tell.submitted(work, tx.hash)) !== 'submitted') return 'on'
    if (!(await sent(work, tx))) return 'later'
    return awaited(work, terms)
  }

  /** A node that does not answer may have passed it on. */
  async function sent(work: Work, tx: StoredTx): Promise<boolean> {
    const taken = await transmitter.send(tx).catch((error: unknown) => error as Error)
    if (taken === true) return true
    await tell.unknown(work)
    if (taken !== false) throw taken
    return false
  }

  async function awaited(work: Work, terms: Terms): Promise<Next> {
    const every = client.pollingInterval
    for (let waited = 0; waited < receiptMs && !signal.aborted; waited += every) {
      const verdict = await transmitter.look(work.id)
      if (verdict.state !== 'open') return conclude(work, terms, verdict)
      await pause(every, undefined, { signal }).catch(() => {})
    }
    if (!signal.aborted) await tell.unknown(work)
    return 'later'
  }

  /** Somebody else may be waiting for it: only what is old is taken for unknown. */
  async function confirm(work: Work, terms: Terms): Promise<Next> {
    const verdict = await transmitter.look(work.id)
    if (verdict.state !== 'open') return conclude(work, terms, verdict)
    const tx = await transmitter.newest(work.id)
    if (tx !== null && transmitter.isFresh(tx)) return 'later'
    return on(tell.unknown(work))
  }

  async function conclude(work: Work, terms: Terms, { receipt }: Verdict): Promise<Next> {
    const logIndex = receipt === null ? null : terms.arrivedIn(receipt)
    if (receipt === null || logIndex === null) {
      await tell.unknown(work)
      return work.money === 'unknown' ? 'later' : 'on'
    }
    const { transactionHash: tx, blockNumber: block } = receipt
    return on(tell.settled(work, { tx, logIndex, block }))
  }

  /** The chain decides by the payment's own nonce, whoever has sent what. */
  async function reconcile(work: Work, terms: Terms): Promise<Next> {
    const found = await terms.find(work.fromBlock)
    if (found.state === 'used' && found.paid) return on(tell.settled(work, found))
    if (found.state !== 'unused') {
      log(`the payment of ${work.id} was ${found.state} without paying`, found.tx)
      return giveUp(work, null)
    }
    if (found.headTime >= work.payment.validBefore + BigInt(VOID_MARGIN_SECONDS))
      return giveUp(work, null)
    return work.money === 'lost' ? 'later' : pursue(work, terms)
  }

  /** The nonce is unused and still good. */
  async function pursue(work: Work, terms: Terms): Promise<Next> {
    const delivered = work.delivery === 'delivered'
    const verdict = await transmitter.look(work.id)
    const { state } = verdict
    // Mined since: the chain is asked again.
    if (state === 'mined') return conclude(work, terms, verdict)
    // Its sender was told that it failed: nothing may be taken after that.
    if (state === 'reverted' && !delivered) return giveUp(work, lastLookAt(work.payment))
    const tx = state === 'open' ? await transmitter.newest(work.id) : null
    if (await isDoomed(terms, tx)) {
      // Somebody may have submitted it in this very moment.
      if ((await terms.find(work.fromBlock)).state !== 'unused') return 'on'
      await transmitter.cancel(work.id)
      return delivered ? 'later' : giveUp(work, lastLookAt(work.payment))
    }
    if (tx === null) return on(tell.retry(work))
    await tell.submitted(work, tx.hash)
    return (await sent(work, tx)) ? awaited(work, terms) : 'later'
  }

  /** What is signed already is asked for by itself, what is not as it will be before it is signed. */
  async function isDoomed({ call }: Terms, tx: StoredTx | null): Promise<boolean> {
    if (tx !== null) return transmitter.wouldRevert(call)
    return (await transmitter.estimate(call).catch(noneIfReverting)) === null
  }

  async function giveUp(work: Work, lookAt: number | null): Promise<Next> {
    await transmitter.cancel(work.id)
    return on(tell.lost(work, lookAt))
  }

  return {
    advance(work) {
      const terms = termsOf(client, token, work.payment)
      if (work.money === 'due') return submit(work, terms)
      return work.money === 'submitted' ? confirm(work, terms) : reconcile(work, terms)
    },
  }
}

async function on(told: Promise<string>): Promise<Next> {
  await told
  return 'on'
}

function noneIfReverting(error: unknown): null {
  if (error instanceof WouldRevert) return null
  throw error
}
