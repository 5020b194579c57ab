import { isRecord } from '../untrusted-json.ts'
import { PAYMENT_NETWORKS } from '../payment-networks.ts'
import type { NormalizedPayment } from '../onchain-payment-types.ts'
import {
  SOLANA_SIGNATURES_PAGE_SIZE,
  SolanaUnavailableError,
  type SolanaSignatureInfo,
  type FinalizedSolanaTransaction,
  type SolanaRpc,
} from './solana-rpc.ts'
import { solanaMessageHash, parseSolanaTransfer } from './solana-transaction.ts'

/** The state of a payment in the final blocks of Solana. */
export type SolanaPaymentStatus =
  | { readonly state: 'paid'; readonly signature: string; readonly slot: bigint }
  /** In a final block, but `arrived` is less than requested; 0 if it failed. */
  | { readonly state: 'unpaid'; readonly signature: string; readonly arrived: bigint }
  /** In no block, and no block can include it any more. */
  | { readonly state: 'gone' }
  | { readonly state: 'open' }

export interface SolanaPaymentQuery {
  readonly payment: NormalizedPayment
  /** The transaction named by the facilitator, if any. */
  readonly named: string | null
  /** Milliseconds. */
  readonly now: number
}

export type FindSolanaPayment = (sought: SolanaPaymentQuery) => Promise<SolanaPaymentStatus>

const SIGNATURE = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/
/**
 * After the end of a payment, by the chain's clock: its blockhash is old by then, but not too new.
 */
const MARGIN_SECONDS = 10
/** How long a transaction may have been in a block before it was presented to us. */
const EARLIER_SECONDS = 300
const PAGES = 5
/** Transactions read per search; the next search continues after them. */
const MAX_READS_PER_SEARCH = 60
const MAX_KNOWN_SIGNATURES = 10_000

/**
 * Searches a payment's transaction in the final blocks. Only the facilitator knows its id, the fee
 * payer's signature. So it is searched among the payer's transactions by the message the payer has
 * signed, which is the same in every transaction that can contain it. Throws
 * `SolanaUnavailableError`; returns `gone` only if the node has all blocks of that time.
 */
export function createSolanaPaymentFinder(rpc: SolanaRpc): FindSolanaPayment {
  const messageOf = new Map<string, string>()
  let checked: Promise<void> | null = null

  const isAnother = (payment: NormalizedPayment, signature: string): boolean =>
    (messageOf.get(signature) ?? payment.nonce) !== payment.nonce

  /** Throws if the node belongs to another chain, which has none of our transactions. */
  function ownChain(): Promise<void> {
    checked ??= rpc
      .genesisHash()
      .then((hash) => {
        if (!PAYMENT_NETWORKS.solana.caip2.endsWith(`:${hash.slice(0, 32)}`))
          throw new SolanaUnavailableError('RPC_URL_SOLANA is a node of another chain')
      })
      .catch((error: unknown) => {
        checked = null
        throw error
      })
    return checked
  }

  return async (sought) => {
    const transaction = signedIn(sought.payment)
    await ownChain()
    const named = await byName(sought)
    if (named !== null) return named
    const { slot, time } = await rpc.head()
    const found = await among(sought.payment, slot)
    if (found !== 'none') return found
    const end = Number(sought.payment.validBefore) + MARGIN_SECONDS
    const isOver = sought.now >= end * 1000 && time >= end
    if (!isOver || (await rpc.isBlockhashValid(transaction.blockhash, slot))) return PAYMENT_OPEN
    return (await rpc.knownSince()) <= earliestOf(sought.payment) ? { state: 'gone' } : PAYMENT_OPEN
  }

  async function byName({
    payment,
    named,
  }: SolanaPaymentQuery): Promise<SolanaPaymentStatus | null> {
    if (named === null || !SIGNATURE.test(named)) return null
    const mined = await rpc.transaction(named)
    if (mined === null || solanaMessageHash(mined.bytes) !== payment.nonce) return null
    return toPaymentStatus(payment, named, mined)
  }

  /** `none`: all candidates were read, up to the block of `slot`. */
  async function among(
    payment: NormalizedPayment,
    slot: number,
  ): Promise<SolanaPaymentStatus | 'none'> {
    let before: string | null = null
    let left = MAX_READS_PER_SEARCH
    for (let pages = 0; pages < PAGES; pages += 1) {
      const page: SolanaSignatureInfo[] = await rpc.signaturesOf(payment.from, { slot, before })
      for (const { signature, blockTime } of page) {
        if (!isPossibleBlockTime(payment, blockTime) || isAnother(payment, signature)) continue
        if ((left -= 1) < 0) return PAYMENT_OPEN
        const landed = await read(payment, signature)
        if (landed !== null) return landed
      }
      const last = page.at(-1)
      if (last === undefined || page.length < SOLANA_SIGNATURES_PAGE_SIZE) return 'none'
      if (last.blockTime !== null && last.blockTime < earliestOf(payment)) return 'none'
      before = last.signature
    }
    return PAYMENT_OPEN
  }

  async function read(
    payment: NormalizedPayment,
    signature: string,
  ): Promise<SolanaPaymentStatus | null> {
    const mined = await rpc.transaction(signature)
    if (mined === null)
      throw new SolanaUnavailableError(`the node lists ${signature} and does not have it`)
    const hash = solanaMessageHash(mined.bytes)
    if (hash === payment.nonce) return toPaymentStatus(payment, signature, mined)
    for (const [oldest] of messageOf) {
      if (messageOf.size < MAX_KNOWN_SIGNATURES) break
      messageOf.delete(oldest)
    }
    messageOf.set(signature, hash ?? '')
    return null
  }
}

const PAYMENT_OPEN: SolanaPaymentStatus = { state: 'open' }

const earliestOf = ({ validBefore, proof }: NormalizedPayment): number =>
  Number(validBefore) - secondsOf(proof) - EARLIER_SECONDS

/** Seconds between reading a payment and its end. */
const secondsOf = (proof: NormalizedPayment['proof']): number =>
  proof.kind === 'solana' && isRecord(proof.requirement) ? proof.requirement.maxTimeoutSeconds : 0

/** Whether a block time is possible for this payment. */
const isPossibleBlockTime = (payment: NormalizedPayment, blockTime: number | null): boolean =>
  blockTime === null ||
  (blockTime >= earliestOf(payment) && blockTime <= Number(payment.validBefore) + EARLIER_SECONDS)

function toPaymentStatus(
  { to, asset, amount }: NormalizedPayment,
  signature: string,
  mined: FinalizedSolanaTransaction,
): SolanaPaymentStatus {
  const arrived = mined.failed ? 0n : mined.tokenGain(to, asset)
  return arrived >= amount
    ? { state: 'paid', signature, slot: mined.slot }
    : { state: 'unpaid', signature, arrived }
}

function signedIn({ proof }: NormalizedPayment) {
  if (proof.kind !== 'solana') throw new Error(`no payment of ${proof.kind} is on Solana`)
  const transaction = parseSolanaTransfer(Buffer.from(proof.transaction, 'base64'))
  if (transaction === null) throw new Error('the transaction of a payment cannot be read')
  return transaction
}
