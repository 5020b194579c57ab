import { keccak256, stringToHex } from 'viem'
import { timingSafeTextEqual } from '../../core/key-derivation-and-encryption.ts'
import { SECOND } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  PaymentProblem,
  type HexString,
  type MppOffer,
  type NormalizedPayment,
  type PaymentOffer,
  type PresentedPayment,
} from '../onchain-payment-types.ts'
import { decodePaymentHeader, type DecodedPaymentHeader } from '../decoded-payment-header.ts'
import { isRecord } from '../untrusted-json.ts'
import {
  encodeCanonicalJsonBase64Url,
  encodeMppChargeRequest,
  mppBodyDigest,
  mppChallengeId,
  MPP_INTENT,
  MPP_METHOD,
} from './mpp-challenge.ts'
import {
  decodeTempoTransaction,
  type TempoTransaction,
} from './decode-and-broadcast-tempo-transaction.ts'

/** Reads the payment in the document of `Authorization: Payment`. */

/**
 * Reads the payment and checks it: that the challenge is ours, for this body and unexpired, and
 * that the transaction pays exactly it. Simulates nothing. `now` in milliseconds. Throws
 * `PaymentProblem` with status 402.
 */
export async function readMppPayment(
  document: DecodedPaymentHeader | null,
  { mpp, price, deadlineMs, settlesAfterAnswer = false }: PaymentOffer,
  now: number,
  body: Uint8Array,
): Promise<NormalizedPayment> {
  if (mpp === null) throw chargeRejection('invalid-challenge', 'MPP is not offered here')
  if (document === null)
    throw chargeRejection('malformed-credential', 'it must be base64url of JSON')
  const { echo, payload } = readable(() => parseCredential(document))
  assertOwnChallenge(echo, mpp, now, body)
  const raw = parseSignedTransaction(payload)
  const transaction = await decodeTempoTransaction(raw)
  if (transaction === null) throw verificationFailure('the transaction cannot be read')
  assertPaysChallenge(transaction, mpp, echo.id)
  return {
    rail: 'mpp',
    wire: 'mpp',
    chain: `eip155:${mpp.chainId}`,
    asset: mpp.currency.toLowerCase(),
    from: transaction.from,
    to: mpp.recipient.toLowerCase(),
    amount: BigInt(mpp.amount),
    price,
    ...timesOf(transaction, now, settlesAfterAnswer ? deadlineMs : 0),
    // a transaction is bound to one challenge by its memo, so this also claims its hash
    nonce: echo.id,
    identifier: null,
    proof: { kind: 'mpp', raw, challengeId: echo.id, hash: keccak256(raw) },
  }
}

const chargeRejection = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)
const verificationFailure = (detail: string) => chargeRejection('verification-failed', detail)

/** The challenge that the payer returns. */
interface EchoedChallenge {
  readonly id: string
  readonly realm: string
  readonly method: string
  readonly intent: string
  readonly request: string
  readonly expires: string
  readonly digest: string
  readonly opaque: string | undefined
}

function parseCredential(document: DecodedPaymentHeader): {
  echo: EchoedChallenge
  payload: DecodedPaymentHeader
} {
  const challenge = document.nested('challenge')
  const payload = document.nested('payload')
  const echo = {
    id: challenge.text('id'),
    realm: challenge.text('realm'),
    method: challenge.text('method'),
    intent: challenge.text('intent'),
    request: challenge.text('request'),
    expires: challenge.text('expires'),
    digest: challenge.text('digest'),
    opaque: opaqueIn(challenge),
  }
  return { echo, payload }
}

/** Reads fields; a malformed field is answered with a fresh challenge. */
function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof PaymentProblem)) throw error
    throw chargeRejection('malformed-credential', error.detail)
  }
}

/** Older clients send it decoded, as an object. */
function opaqueIn(challenge: DecodedPaymentHeader): string | undefined {
  const opaque = challenge.value('opaque')
  if (isRecord(opaque)) return encodeCanonicalJsonBase64Url(opaque)
  return typeof opaque === 'string' ? opaque : undefined
}

/** Checks the id first: the other parts are then known to be ours. */
function assertOwnChallenge(
  echo: EchoedChallenge,
  mpp: MppOffer,
  now: number,
  body: Uint8Array,
): void {
  if (!timingSafeTextEqual(echo.id, mppChallengeId(mpp, echo))) {
    throw chargeRejection('invalid-challenge', 'this challenge was not issued here')
  }
  if (echo.realm !== mpp.realm || echo.method !== MPP_METHOD || echo.intent !== MPP_INTENT) {
    throw chargeRejection('invalid-challenge', 'this challenge is for something else')
  }
  if (echo.digest !== mppBodyDigest(body)) {
    throw chargeRejection('invalid-challenge', 'this challenge was issued for another body')
  }
  if (!(Date.parse(echo.expires) > now)) throw chargeRejection('payment-expired', echo.expires)
  if (echo.request !== encodeMppChargeRequest(mpp)) {
    throw chargeRejection(
      'payment-insufficient',
      'this challenge does not ask what the request costs',
    )
  }
}

function parseSignedTransaction(payload: DecodedPaymentHeader): HexString {
  const type = readable(() => payload.text('type'))
  if (type !== 'transaction')
    throw verificationFailure('the payload must be of the type transaction')
  const raw = readable(() => payload.bytes('signature', 1, LIMITS.paymentHeaderBytes))
  // 0x78 requires a fee sponsor, which we are not
  if (!raw.startsWith('0x76'))
    throw verificationFailure('the transaction must be a signed one of type 0x76')
  return raw
}

/** `transferWithMemo(address,uint256,bytes32)`. */
const TRANSFER_WITH_MEMO = '0x95777d59'
const WORD = 64

/** Exactly one call pays recipient and amount, with the memo of this challenge. */
function assertPaysChallenge(transaction: TempoTransaction, mpp: MppOffer, id: string): void {
  if (transaction.chainId !== mpp.chainId)
    throw verificationFailure(`the chain must be ${mpp.chainId}`)
  const memo = expectedMppMemo(mpp.realm, id)
  const ours = transaction.calls
    .filter((call) => call.to === mpp.currency.toLowerCase())
    .map((call) => readTransfer(call.data))
    .filter((transfer) => transfer?.memo.startsWith(memo.server) === true)
  const [transfer] = ours
  if (transfer === undefined || transfer === null || ours.length > 1) {
    throw verificationFailure(
      'there must be one transferWithMemo of the currency with the memo of this server',
    )
  }
  if (!transfer.memo.endsWith(memo.challenge))
    throw verificationFailure('the memo is of another challenge')
  if (transfer.to !== mpp.recipient.toLowerCase() || transfer.amount !== BigInt(mpp.amount)) {
    throw verificationFailure(`${mpp.amount} must go to ${mpp.recipient}, neither less nor more`)
  }
}

function readTransfer(data: string) {
  if (
    !data.startsWith(TRANSFER_WITH_MEMO) ||
    data.length !== TRANSFER_WITH_MEMO.length + 3 * WORD
  ) {
    return null
  }
  const word = (at: number) =>
    data.slice(TRANSFER_WITH_MEMO.length + at * WORD, TRANSFER_WITH_MEMO.length + (at + 1) * WORD)
  const to = word(0)
  if (!to.startsWith('0'.repeat(24))) return null
  return { to: `0x${to.slice(24)}`, amount: BigInt(`0x${word(1)}`), memo: `0x${word(2)}` }
}

/** Start and end of a memo: tag, version, server; ten bytes for the client; the challenge. */
export function expectedMppMemo(realm: string, id: string): { server: string; challenge: string } {
  const bytes = (text: string, count: number) =>
    keccak256(stringToHex(text)).slice(2, 2 + 2 * count)
  return { server: `0x${bytes('mpp', 4)}01${bytes(realm, 10)}`, challenge: bytes(id, 7) }
}

/** A transaction that is about to expire would be broadcast in vain. */
const MIN_SECONDS_LEFT = 2

/** `runsMs`: how long the tool may run before the transaction is sent. */
function timesOf({ validAfter, validBefore }: TempoTransaction, now: number, runsMs: number) {
  if (validBefore === null) throw verificationFailure('the transaction must expire')
  const seconds = now / 1000
  if (validBefore > seconds + LIMITS.paymentMaxSeconds) {
    throw verificationFailure('the transaction must expire within an hour')
  }
  if (validBefore < seconds + MIN_SECONDS_LEFT + runsMs / SECOND)
    throw chargeRejection('payment-expired', 'of the transaction')
  if (validAfter !== null && validAfter >= seconds) throw verificationFailure('it is not valid yet')
  return { validAfter: BigInt(validAfter ?? 0), validBefore: BigInt(validBefore) }
}

/**
 * The payment that a document presents: for a Tempo charge the signature gives the payer, and the
 * challenge the terms. Null if the transaction or the terms cannot be read. Throws
 * `PaymentProblem`.
 */
export async function presentedMppPayment(
  document: DecodedPaymentHeader,
): Promise<PresentedPayment | null> {
  const challenge = document.nested('challenge')
  const request = decodePaymentHeader(challenge.text('request'))
  const raw = document.nested('payload').bytes('signature', 1, LIMITS.paymentHeaderBytes)
  const transaction = await decodeTempoTransaction(raw)
  if (request === null || transaction === null) return null
  return {
    rail: 'mpp',
    wire: 'mpp',
    chain: `eip155:${transaction.chainId}`,
    asset: request.text('currency').toLowerCase(),
    from: transaction.from,
    nonce: challenge.text('id'),
    proof: { kind: 'mpp', raw },
  }
}
