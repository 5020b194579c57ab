import { keccak256, stringToHex } from 'viem'
import { isRpcUnavailable, type EvmClient } from '../evm/evm-client.ts'
import { LIMITS } from '../../core/limits.ts'
import { timingSafeTextEqual } from '../../core/key-derivation-and-encryption.ts'
import {
  PaymentProblem,
  type HexString,
  type MppOffer,
  type PaymentOffer,
  type OnchainPayment,
} from '../onchain-payment.ts'
import {
  createPaymentFieldReader,
  isRecord,
  parseUntrustedJson,
  type PaymentFieldReader,
} from '../untrusted-json.ts'
import {
  mppBodyDigest,
  mppChallengeId,
  encodeCanonicalBase64,
  MPP_INTENT,
  MPP_METHOD,
  encodeMppChargeRequest,
} from './mpp-challenge.ts'
import {
  simulateTempoTransaction,
  decodeTempoTransaction,
  readTempoReceipt,
  sendTempoTransaction,
  type TempoReceipt,
  type TempoTransaction,
} from './tempo-transactions.ts'

/**
 * Parses the credential of `Authorization: Payment` into a payment. Checks that the challenge is
 * ours, for this body and unexpired, and that the transaction pays exactly it. Simulates nothing.
 * `now` in milliseconds. Throws `PaymentProblem` with status 402.
 */
export async function parseMppCharge(
  text: string,
  offer: PaymentOffer,
  now: number | null,
  body: Uint8Array,
): Promise<OnchainPayment> {
  const { mpp } = offer
  if (mpp === null) throw chargeRejection('invalid-challenge', 'MPP is not offered here')
  const { challenge, opaque, payload } = parseCredential(text)
  assertOwnChallenge({ challenge, opaque }, mpp, now, body)
  const raw = rawOf(payload)
  const transaction = await decodeTempoTransaction(raw)
  if (transaction === null) throw verificationFailure('the transaction cannot be read')
  const id = challenge.text('id')
  assertPaysChallenge(transaction, mpp, id)
  return {
    rail: 'mpp',
    wire: 'mpp',
    chain: `eip155:${mpp.chainId}`,
    asset: mpp.currency.toLowerCase(),
    from: transaction.from,
    to: mpp.recipient.toLowerCase(),
    amount: BigInt(mpp.amount),
    price: offer.price,
    ...timesOf(transaction, now),
    // a transaction is bound to one challenge by its memo, so this also claims its hash
    nonce: id,
    identifier: null,
    proof: { kind: 'mpp', raw, challengeId: id, hash: keccak256(raw) },
  }
}

const chargeRejection = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)
const verificationFailure = (detail: string) => chargeRejection('verification-failed', detail)

interface Echo {
  readonly challenge: PaymentFieldReader
  readonly opaque: string | undefined
}

function parseCredential(text: string): Echo & { payload: PaymentFieldReader } {
  const document = parseUntrustedJson(text)
  if (document === null)
    throw chargeRejection('malformed-credential', 'it must be base64url of JSON')
  return readable(() => ({
    challenge: createPaymentFieldReader(document['challenge'], 'challenge'),
    opaque: opaqueIn(document['challenge']),
    payload: createPaymentFieldReader(document['payload'], 'payload'),
  }))
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
function opaqueIn(challenge: unknown): string | undefined {
  const opaque = isRecord(challenge) ? challenge['opaque'] : undefined
  if (isRecord(opaque)) return encodeCanonicalBase64(opaque)
  return typeof opaque === 'string' ? opaque : undefined
}

/** Checks the id first: the other parts are then known to be ours. */
function assertOwnChallenge(
  { challenge, opaque }: Echo,
  mpp: MppOffer,
  now: number | null,
  body: Uint8Array,
): void {
  const echo = readable(() => ({
    id: challenge.text('id'),
    realm: challenge.text('realm'),
    method: challenge.text('method'),
    intent: challenge.text('intent'),
    request: challenge.text('request'),
    expires: challenge.text('expires'),
    digest: challenge.text('digest'),
    opaque,
  }))
  if (!timingSafeTextEqual(echo.id, mppChallengeId(mpp, echo))) {
    throw chargeRejection('invalid-challenge', 'this challenge was not issued here')
  }
  if (echo.realm !== mpp.realm || echo.method !== MPP_METHOD || echo.intent !== MPP_INTENT) {
    throw chargeRejection('invalid-challenge', 'this challenge is for something else')
  }
  if (echo.digest !== mppBodyDigest(body)) {
    throw chargeRejection('invalid-challenge', 'this challenge was issued for another body')
  }
  if (now !== null && !(Date.parse(echo.expires) > now))
    throw chargeRejection('payment-expired', echo.expires)
  if (echo.request !== encodeMppChargeRequest(mpp)) {
    throw chargeRejection(
      'payment-insufficient',
      'this challenge does not ask what the request costs',
    )
  }
}

function rawOf(payload: PaymentFieldReader): HexString {
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

function timesOf({ validAfter, validBefore }: TempoTransaction, now: number | null) {
  if (validBefore === null) throw verificationFailure('the transaction must expire')
  const times = { validAfter: BigInt(validAfter ?? 0), validBefore: BigInt(validBefore) }
  if (now === null) return times
  const seconds = now / 1000
  if (validBefore > seconds + LIMITS.paymentMaxSeconds) {
    throw verificationFailure('the transaction must expire within an hour')
  }
  if (validBefore < seconds + MIN_SECONDS_LEFT)
    throw chargeRejection('payment-expired', 'of the transaction')
  if (validAfter !== null && validAfter >= seconds) throw verificationFailure('it is not valid yet')
  return times
}

/**
 * Simulates a charge on the node, fees included. Throws `PaymentProblem` if the chain would refuse
 * it, and the node's error if it does not answer.
 */
export async function simulateMppCharge(client: EvmClient, raw: HexString): Promise<void> {
  try {
    await simulateTempoTransaction(client, raw)
  } catch (error) {
    if (isRpcUnavailable(error)) throw error
    throw verificationFailure('the chain would refuse the transaction')
  }
}

export interface MppChargeResult {
  /** `unknown` is not a failure: the transaction is searched by its hash until it expires. */
  readonly status: 'success' | 'reverted' | 'unknown'
  readonly block?: bigint
}

/**
 * Broadcasts a charge and waits for its result within the timeout of the client; never throws.
 * Sending it twice charges once.
 */
export async function sendMppCharge(client: EvmClient, raw: HexString): Promise<MppChargeResult> {
  const receipt = await sendTempoTransaction(client, raw).catch(() =>
    findMppChargeReceipt(client, keccak256(raw)),
  )
  return receipt ?? { status: 'unknown' }
}

/** The receipt of a charge by its hash; null if there is none, or no answer. */
export async function findMppChargeReceipt(
  client: EvmClient,
  hash: HexString,
): Promise<TempoReceipt | null> {
  return readTempoReceipt(client, hash).catch(() => null)
}
