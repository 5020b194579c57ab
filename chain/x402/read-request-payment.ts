import { findPaymentCredential, PaymentProblem } from '../onchain-payment.ts'
import type {
  RequestHeaders,
  PaymentOffer,
  OnchainPayment,
  PaymentRequirement,
  PaymentDialect,
} from '../onchain-payment.ts'
import { parseMppCharge } from '../mpp/mpp-charge.ts'
import {
  readEip3009Payload,
  readPermit2Payload,
  toPaymentValidityWindow,
  type SignedPaymentTerms,
  type PaymentValidityWindow,
} from './exact-evm-payload.ts'
import {
  createPaymentFieldReader,
  isRecord,
  decodeStrictBase64,
  parseUntrustedJson,
  type PaymentFieldReader,
} from '../untrusted-json.ts'
import type { UntrustedJsonObject } from '../untrusted-json.ts'
import { findCaip2Id } from './network-names.ts'
import type { PaymentRails } from './payment-requirements.ts'
import { parseSolanaTransfer } from '../solana/solana-transaction.ts'

/**
 * Reads the payment of a request in any dialect and checks it against the price: scheme, network,
 * asset, recipient, amount and times; for MPP the challenge and the transaction, as far as no node
 * is needed. Null without a payment header. Does not check signatures, funds and nonces, except
 * MPP's signature, which gives the payer. `now` in milliseconds, `body` raw. Throws
 * `PaymentProblem`.
 */
export async function readRequestPayment(
  headers: RequestHeaders,
  offer: PaymentOffer,
  rails: PaymentRails,
  now: number,
  body: Uint8Array,
): Promise<OnchainPayment | null> {
  const credential = findPaymentCredential(headers)
  if (credential === null) return null
  if (credential.wire === 'mpp') return parseMppCharge(credential.text, offer, now, body)
  const document = parseUntrustedJson(credential.text)
  if (document === null) throw malformedPayment('the header must be base64 of a JSON object')
  return readDocument(document, offer, rails, now)
}

/** The same for a decoded x402 document. */
function readDocument(
  document: UntrustedJsonObject,
  offer: PaymentOffer,
  rails: PaymentRails,
  now: number,
): OnchainPayment {
  const { wire, requirement } = termsOf(document, offer, rails)
  const payload = createPaymentFieldReader(document['payload'], 'payload')
  const window = toPaymentValidityWindow(now, offer.deadlineMs)
  const [chain, asset] = [requirement.network, requirement.asset]
  return {
    rail: wire === 'short' ? 'eip3009' : 'x402',
    wire,
    chain,
    asset: isEvm(chain) ? asset.toLowerCase() : asset,
    price: offer.price,
    identifier: identifierOf(document),
    ...readSigned(payload, requirement, window),
  }
}

const malformedPayment = (detail: string) => new PaymentProblem(400, 'invalid_payload', detail)
const paymentRejection = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)
const isEvm = (network: string) => network.startsWith('eip155:')

interface ReferencedRequirement {
  readonly wire: PaymentDialect
  readonly requirement: PaymentRequirement
}

/** Our requirement that a document refers to; its own price and resource are ignored. */
function termsOf(
  document: UntrustedJsonObject,
  offer: PaymentOffer,
  rails: PaymentRails,
): ReferencedRequirement {
  const version = document['x402Version']
  if (version === 1) return { wire: 'v1', requirement: v1Requirement(document, offer) }
  if (version !== 2) throw malformedPayment('x402Version must be 1 or 2')
  if (document['accepted'] !== undefined) {
    return { wire: 'v2', requirement: v2Requirement(document['accepted'], offer) }
  }
  const network = rails.base === null ? null : `eip155:${rails.base.chainId}`
  return { wire: 'short', requirement: requirementForNetwork(offer, network, 'base') }
}

/** Version 1 names scheme and network, and has nothing else to compare. */
function v1Requirement(document: UntrustedJsonObject, offer: PaymentOffer): PaymentRequirement {
  const fields = createPaymentFieldReader(document, 'the payment')
  const [scheme, network] = [fields.text('scheme'), fields.text('network')]
  requireExact(scheme)
  return requirementForNetwork(offer, network.includes(':') ? null : findCaip2Id(network), network)
}

function v2Requirement(given: unknown, offer: PaymentOffer): PaymentRequirement {
  const fields = createPaymentFieldReader(given, 'accepted')
  const network = fields.text('network')
  const [amount, asset, payTo] = [fields.text('amount'), fields.text('asset'), fields.text('payTo')]
  requireExact(fields.text('scheme'))
  const requirement = requirementForNetwork(offer, network, network)
  const same = (a: string, b: string) =>
    isEvm(network) ? a.toLowerCase() === b.toLowerCase() : a === b
  if (
    amount !== requirement.amount ||
    !same(asset, requirement.asset) ||
    !same(payTo, requirement.payTo)
  ) {
    throw paymentRejection(
      'no_matching_requirements',
      '`accepted` is not one of the current requirements',
    )
  }
  return requirement
}

function requireExact(scheme: string): void {
  if (scheme !== 'exact')
    throw paymentRejection('invalid_exact_evm_scheme', 'the scheme must be exact')
}

function requirementForNetwork(
  { requirements }: PaymentOffer,
  network: string | null,
  name: string,
): PaymentRequirement {
  const found = requirements.find((requirement) => requirement.network === network)
  if (found !== undefined) return found
  throw paymentRejection('invalid_exact_evm_network_mismatch', `${name} is not accepted here`)
}

function readSigned(
  payload: PaymentFieldReader,
  requirement: PaymentRequirement,
  window: PaymentValidityWindow,
): SignedPaymentTerms {
  if (!isEvm(requirement.network)) return readSolana(payload, requirement, window)
  return requirement.extra['assetTransferMethod'] === 'permit2'
    ? readPermit2Payload(payload, requirement, window)
    : readEip3009Payload(payload, requirement, window)
}

/** The facilitator checks its transfer and signature before the call runs. */
function readSolana(
  payload: PaymentFieldReader,
  requirement: PaymentRequirement,
  window: PaymentValidityWindow,
): SignedPaymentTerms {
  const bytes = decodeStrictBase64(payload.text('transaction'))
  const transaction = bytes === null ? null : parseSolanaTransfer(bytes)
  if (bytes === null || transaction === null) {
    throw malformedPayment(
      'payload.transaction must be base64 of a transaction that transfers tokens',
    )
  }
  return {
    from: transaction.payer,
    to: requirement.payTo,
    amount: BigInt(requirement.amount),
    validAfter: 0n,
    // it ends with its blockhash, sooner than this
    validBefore: window.now + BigInt(requirement.maxTimeoutSeconds),
    nonce: transaction.messageHash,
    proof: { kind: 'solana', transaction: bytes.toString('base64'), requirement },
  }
}

const IDENTIFIER = /^[A-Za-z0-9_-]{16,128}$/

/** The id of the extension `payment-identifier`; the SDK adds it to the echoed declaration. */
function identifierOf(document: UntrustedJsonObject): string | null {
  const { extensions } = document
  const extension = isRecord(extensions) ? extensions['payment-identifier'] : undefined
  const info = isRecord(extension) ? extension['info'] : undefined
  const id = isRecord(info) ? info['id'] : undefined
  if (id === undefined) return null
  if (typeof id === 'string' && IDENTIFIER.test(id)) return id
  throw malformedPayment('the id of payment-identifier must be 16 to 128 of A-Z, a-z, 0-9, _ and -')
}
