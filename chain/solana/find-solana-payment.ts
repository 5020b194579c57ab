import { isRecord } from '../untrusted-json.ts'
import { PAYMENT_NETWORKS } from '../payment-networks.ts'
import type { OnchainPayment } from '../payment.ts'
import {
  SOLANA_SIGNATURES_PAGE_SIZE,
  SolanaUnavailableError,
  type SolanaSignatureInfo,
  type FinalizedSolanaTransaction,
  type SolanaRpc,
} from './solana-rpc.ts'
import { solanaMessageHash, parseSolanaTransfer } from './solana-transaction.ts'

/** What the final blocks of Solana say of a payment. */
export type SolanaPaymentStatus =
  | { readonly state: 'paid'; readonly signature: string; readonly slot: bigint }
  /** In a block, for good, and `arrived` is less than was asked for; 0 where it failed. */
  | { readonly state: 'unpaid'; readonly signature: string; readonly arrived: bigint }
  /** In no block, and none can take it any more. */
  | { readonly state: 'gone' }
  | { readonly state: 'open' }

export interface SolanaPaymentQuery {
  readonly payment: OnchainPayment
  /** What the facilitator has called it, if anything. */
  readonly named: string | null
  /** Milliseconds. */
  readonly now: number
}

export type FindSolanaPayment = (sought: SolanaPaymentQuery) => Promise<SolanaPaymentStatus>

const SIGNATURE = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/
/** By the chain's clock, after the end of a payment: its blockhash is old by then, and not too new. */
const MARGIN_SECONDS = 10
/** A transaction may be in a block so long before it was shown to us, by the chain's clock. */
const EARLIER_SECONDS = 300
const PAGES = 5
/** So many transactions are read in one look; the next one goes on behind them. */
const MAX_READS_PER_SEARCH = 60
const MAX_KNOWN_SIGNATURES = 10_000

/**
 * Looks for the transaction of a payment in the final blocks. Its id is the signature of the fee
 * payer, which only the facilitator knows, so it is found among the transactions of its payer by the
 * message that the payer has signed: that is the same in every transaction it may be part of. Throws
 * `SolanaUnavailableError`, and says `gone` only where the node has all blocks of that time.
 */
export function createSolanaPaymentFinder(rpc: SolanaRpc): FindSolanaPayment {
  const messageOf = new Map<string, string>()
  let checked: Promise<void> | null = null

  const isAnother = (payment: OnchainPayment, signature: string): boolean =>
    (messageOf.get(signature) ?? payment.nonce) !== payment.nonce

  /** Another chain has none of our transactions: it must never be heard. */
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

  /** `none`: every one that can be it was read, up to the block of `slot`. */
  async function among(
    payment: OnchainPayment,
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
    payment: OnchainPayment,
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

const earliestOf = ({ validBefore, proof }: OnchainPayment): number =>
  Number(validBefore) - secondsOf(proof) - EARLIER_SECONDS

/** How long before its end a payment was read. */
const secondsOf = (proof: OnchainPayment['proof']): number =>
  proof.kind === 'solana' && isRecord(proof.requirement) ? proof.requirement.maxTimeoutSeconds : 0

/** Whether it was in a block at a time when this payment could be. */
const isPossibleBlockTime = (payment: OnchainPayment, blockTime: number | null): boolean =>
  blockTime === null ||
  (blockTime >= earliestOf(payment) && blockTime <= Number(payment.validBefore) + EARLIER_SECONDS)

function toPaymentStatus(
  { to, asset, amount }: OnchainPayment,
  signature: string,
  mined: FinalizedSolanaTransaction,
): SolanaPaymentStatus {
  const arrived = mined.failed ? 0n : mined.tokenGain(to, asset)
  return arrived >= amount
    ? { state: 'paid', signature, slot: mined.slot }
    : { state: 'unpaid', signature, arrived }
}

function signedIn({ proof }: OnchainPayment) {
  if (proof.kind !== 'solana') throw new Error(`no payment of ${proof.kind} is on Solana`)
  const transaction = parseSolanaTransfer(Buffer.from(proof.transaction, 'base64'))
  if (transaction === null) throw new Error('the transaction of a payment cannot be read')
  return transaction
}
