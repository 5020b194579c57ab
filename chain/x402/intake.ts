import { credentialOf, PaymentProblem } from '../payment.ts'
import type { Headers, Offer, Payment, Requirement, Wire } from '../payment.ts'
import { readCharge } from '../mpp/charge.ts'
import { readEip3009, readPermit2, windowOf, type Signed, type Window } from './authorization.ts'
import { fieldsOf, isRecord, strictBase64, strictDocument, type Fields } from '../document.ts'
import type { Document } from '../document.ts'
import { networkOf } from './networks.ts'
import type { Rails } from './requirements.ts'
import { readTransaction } from './solana.ts'

/**
 * Reads the payment of a request, whatever its dialect, and holds it against what the request costs:
 * its scheme, network, asset, recipient, amount and times; of MPP the challenge and the transaction, as
 * far as they need no node. Null when there is no payment header. Signatures, funds and nonces are not
 * looked at; of MPP the signature is, since it names the payer. `now` in milliseconds, `body` as it came.
 * Throws `PaymentProblem`.
 */
export async function readPayment(
  headers: Headers,
  offer: Offer,
  rails: Rails,
  now: number,
  body: Uint8Array,
): Promise<Payment | null> {
  const credential = credentialOf(headers)
  if (credential === null) return null
  if (credential.wire === 'mpp') return readCharge(credential.text, offer, now, body)
  const document = strictDocument(credential.text)
  if (document === null) throw malformed('the header must be base64 of a JSON object')
  return readDocument(document, offer, rails, now)
}

/** The same for a document of x402, once its header is decoded. */
function readDocument(document: Document, offer: Offer, rails: Rails, now: number): Payment {
  const { wire, requirement } = termsOf(document, offer, rails)
  const payload = fieldsOf(document['payload'], 'payload')
  const window = windowOf(now, offer.deadlineMs)
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

const malformed = (detail: string) => new PaymentProblem(400, 'invalid_payload', detail)
const refused = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)
const isEvm = (network: string) => network.startsWith('eip155:')

interface Terms {
  readonly wire: Wire
  readonly requirement: Requirement
}

/** Which of our requirements a document is about; its own price and resource do not count. */
function termsOf(document: Document, offer: Offer, rails: Rails): Terms {
  const version = document['x402Version']
  if (version === 1) return { wire: 'v1', requirement: named(document, offer) }
  if (version !== 2) throw malformed('x402Version must be 1 or 2')
  if (document['accepted'] !== undefined) {
    return { wire: 'v2', requirement: accepted(document['accepted'], offer) }
  }
  const network = rails.base === null ? null : `eip155:${rails.base.chainId}`
  return { wire: 'short', requirement: offered(offer, network, 'base') }
}

/** Version 1 says scheme and network by name, and has nothing else to compare. */
function named(document: Document, offer: Offer): Requirement {
  const fields = fieldsOf(document, 'the payment')
  const [scheme, network] = [fields.text('scheme'), fields.text('network')]
  requireExact(scheme)
  return offered(offer, network.includes(':') ? null : networkOf(network), network)
}

function accepted(given: unknown, offer: Offer): Requirement {
  const fields = fieldsOf(given, 'accepted')
  const network = fields.text('network')
  const [amount, asset, payTo] = [fields.text('amount'), fields.text('asset'), fields.text('payTo')]
  requireExact(fields.text('scheme'))
  const requirement = offered(offer, network, network)
  const same = (a: string, b: string) =>
    isEvm(network) ? a.toLowerCase() === b.toLowerCase() : a === b
  if (
    amount !== requirement.amount ||
    !same(asset, requirement.asset) ||
    !same(payTo, requirement.payTo)
  ) {
    throw refused('no_matching_requirements', '`accepted` is not one of the current requirements')
  }
  return requirement
}

function requireExact(scheme: string): void {
  if (scheme !== 'exact') throw refused('invalid_exact_evm_scheme', 'the scheme must be exact')
}

function offered({ requirements }: Offer, network: string | null, name: string): Requirement {
  const found = requirements.find((requirement) => requirement.network === network)
  if (found !== undefined) return found
  throw refused('invalid_exact_evm_network_mismatch', `${name} is not accepted here`)
}

function readSigned(payload: Fields, requirement: Requirement, window: Window): Signed {
  if (!isEvm(requirement.network)) return readSolana(payload, requirement, window)
  return requirement.extra['assetTransferMethod'] === 'permit2'
    ? readPermit2(payload, requirement, window)
    : readEip3009(payload, requirement, window)
}

/** What it pays and whether it is signed is what the facilitator checks, before anything runs. */
function readSolana(payload: Fields, requirement: Requirement, window: Window): Signed {
  const bytes = strictBase64(payload.text('transaction'))
  const transaction = bytes === null ? null : readTransaction(bytes)
  if (bytes === null || transaction === null) {
    throw malformed('payload.transaction must be base64 of a transaction that transfers tokens')
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

/** The id of the extension `payment-identifier`; the SDK echoes the declaration and adds it. */
function identifierOf(document: Document): string | null {
  const { extensions } = document
  const extension = isRecord(extensions) ? extensions['payment-identifier'] : undefined
  const info = isRecord(extension) ? extension['info'] : undefined
  const id = isRecord(info) ? info['id'] : undefined
  if (id === undefined) return null
  if (typeof id === 'string' && IDENTIFIER.test(id)) return id
  throw malformed('the id of payment-identifier must be 16 to 128 of A-Z, a-z, 0-9, _ and -')
}
