import { isRecord } from './document.ts'
import { NETWORKS } from './networks.ts'
import type { Payment } from './payment.ts'
import { PAGE, SolanaDown, type Listed, type Mined, type SolanaRpc } from './solana-rpc.ts'
import { messageHash, readTransaction } from './x402/solana.ts'

/** What the final blocks of Solana say of a payment. */
export type Landed =
  | { readonly state: 'paid'; readonly signature: string; readonly slot: bigint }
  /** In a block, for good, and `arrived` is less than was asked for; 0 where it failed. */
  | { readonly state: 'unpaid'; readonly signature: string; readonly arrived: bigint }
  /** In no block, and none can take it any more. */
  | { readonly state: 'gone' }
  | { readonly state: 'open' }

export interface Sought {
  readonly payment: Payment
  /** What the facilitator has called it, if anything. */
  readonly named: string | null
  /** Milliseconds. */
  readonly now: number
}

export type SolanaLook = (sought: Sought) => Promise<Landed>

const SIGNATURE = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/
/** By the chain's clock, after the end of a payment: its blockhash is old by then, and not too new. */
const MARGIN_SECONDS = 10
/** A transaction may be in a block so long before it was shown to us, by the chain's clock. */
const EARLIER_SECONDS = 300
const PAGES = 5
/** So many transactions are read in one look; the next one goes on behind them. */
const READ_AT_ONCE = 60
const KNOWN = 10_000

/**
 * Looks for the transaction of a payment in the final blocks. Its id is the signature of the fee
 * payer, which only the facilitator knows, so it is found among the transactions of its payer by the
 * message that the payer has signed: that is the same in every transaction it may be part of. Throws
 * `SolanaDown`, and says `gone` only where the node has all blocks of that time.
 */
export function solanaLook(rpc: SolanaRpc): SolanaLook {
  const messageOf = new Map<string, string>()
  let checked: Promise<void> | null = null

  const isAnother = (payment: Payment, signature: string): boolean =>
    (messageOf.get(signature) ?? payment.nonce) !== payment.nonce

  /** Another chain has none of our transactions: it must never be heard. */
  function ownChain(): Promise<void> {
    checked ??= rpc
      .genesisHash()
      .then((hash) => {
        if (!NETWORKS.solana.caip2.endsWith(`:${hash.slice(0, 32)}`))
          throw new SolanaDown('RPC_URL_SOLANA is a node of another chain')
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
    if (!isOver || (await rpc.isBlockhashValid(transaction.blockhash, slot))) return OPEN
    return (await rpc.knownSince()) <= earliestOf(sought.payment) ? { state: 'gone' } : OPEN
  }

  async function byName({ payment, named }: Sought): Promise<Landed | null> {
    if (named === null || !SIGNATURE.test(named)) return null
    const mined = await rpc.transaction(named)
    if (mined === null || messageHash(mined.bytes) !== payment.nonce) return null
    return landedAs(payment, named, mined)
  }

  /** `none`: every one that can be it was read, up to the block of `slot`. */
  async function among(payment: Payment, slot: number): Promise<Landed | 'none'> {
    let before: string | null = null
    let left = READ_AT_ONCE
    for (let pages = 0; pages < PAGES; pages += 1) {
      const page: Listed[] = await rpc.signaturesOf(payment.from, { slot, before })
      for (const { signature, blockTime } of page) {
        if (!mayBe(payment, blockTime) || isAnother(payment, signature)) continue
        if ((left -= 1) < 0) return OPEN
        const landed = await read(payment, signature)
        if (landed !== null) return landed
      }
      const last = page.at(-1)
      if (last === undefined || page.length < PAGE) return 'none'
      if (last.blockTime !== null && last.blockTime < earliestOf(payment)) return 'none'
      before = last.signature
    }
    return OPEN
  }

  async function read(payment: Payment, signature: string): Promise<Landed | null> {
    const mined = await rpc.transaction(signature)
    if (mined === null) throw new SolanaDown(`the node lists ${signature} and does not have it`)
    const hash = messageHash(mined.bytes)
    if (hash === payment.nonce) return landedAs(payment, signature, mined)
    for (const [oldest] of messageOf) {
      if (messageOf.size < KNOWN) break
      messageOf.delete(oldest)
    }
    messageOf.set(signature, hash ?? '')
    return null
  }
}

const OPEN: Landed = { state: 'open' }

const earliestOf = ({ validBefore, proof }: Payment): number =>
  Number(validBefore) - secondsOf(proof) - EARLIER_SECONDS

/** How long before its end a payment was read. */
const secondsOf = (proof: Payment['proof']): number =>
  proof.kind === 'solana' && isRecord(proof.requirement) ? proof.requirement.maxTimeoutSeconds : 0

/** Whether it was in a block at a time when this payment could be. */
const mayBe = (payment: Payment, blockTime: number | null): boolean =>
  blockTime === null ||
  (blockTime >= earliestOf(payment) && blockTime <= Number(payment.validBefore) + EARLIER_SECONDS)

function landedAs({ to, asset, amount }: Payment, signature: string, mined: Mined): Landed {
  const arrived = mined.failed ? 0n : mined.gained(to, asset)
  return arrived >= amount
    ? { state: 'paid', signature, slot: mined.slot }
    : { state: 'unpaid', signature, arrived }
}

function signedIn({ proof }: Payment) {
  if (proof.kind !== 'solana') throw new Error(`no payment of ${proof.kind} is on Solana`)
  const transaction = readTransaction(Buffer.from(proof.transaction, 'base64'))
  if (transaction === null) throw new Error('the transaction of a payment cannot be read')
  return transaction
}
