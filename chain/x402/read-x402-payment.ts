import {
  PaymentProblem,
  type NormalizedPayment,
  type PaymentDialect,
  type PaymentOffer,
  type PaymentRequirement,
  type PresentedPayment,
} from '../onchain-payment-types.ts'
import type { DecodedPaymentHeader } from '../decoded-payment-header.ts'
import { PAYMENT_NETWORKS } from '../payment-networks.ts'
import { findPaymentIdentifier } from './challenge-nonces-and-payment-ids.ts'
import { parsePresentedPayload, parseSignedTerms } from './x402-exact-scheme-payload.ts'
import { findCaip2Id, isEvmNetwork } from './x402-network-names.ts'
import type { EnabledPaymentRails } from './payment-requirements.ts'
import {
  assertSignedTermsMatchRequirement,
  computePaymentValidityBounds,
} from './signed-payment-terms-check.ts'

/** Reads the payment in an x402 document: version 1, version 2 and the short form. */

/**
 * Reads the payment and checks it against the requirement it refers to; its own price and resource
 * are ignored. `now` in milliseconds. Throws `PaymentProblem`.
 */
export function readX402Payment(
  document: DecodedPaymentHeader | null,
  offer: PaymentOffer,
  rails: EnabledPaymentRails,
  now: number,
): NormalizedPayment {
  if (document === null) throw malformedPayment('the header must be base64 of a JSON object')
  const reference = parseReference(document, rails)
  const requirement = findReferencedRequirement(reference, offer)
  const payload = document.nested('payload')
  const identifier = assertIdentifier(findPaymentIdentifier(document))
  const window = computePaymentValidityBounds(now, offer.deadlineMs)
  const signed = parseSignedTerms(payload, requirement, window.now)
  assertSignedTermsMatchRequirement(signed, requirement, window)
  const { wire } = reference
  const rail = wire === 'short' ? 'eip3009' : 'x402'
  const chain = requirement.network
  return { rail, wire, chain, price: offer.price, identifier, ...signed }
}

const malformedPayment = (detail: string) => new PaymentProblem(400, 'invalid_payload', detail)
const paymentRejection = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)

/** How a document refers to one of our requirements. */
interface RequirementReference {
  readonly wire: PaymentDialect
  readonly scheme: string
  /** CAIP-2; null if it is unknown. */
  readonly network: string | null
  /** The network as the document spells it. */
  readonly name: string
  /** The echoed requirement of version 2. */
  readonly accepted: Readonly<Record<'amount' | 'asset' | 'payTo', string>> | null
}

function parseReference(
  document: DecodedPaymentHeader,
  { base }: EnabledPaymentRails,
): RequirementReference {
  const version = document.value('x402Version')
  if (version === 1) return parseV1Reference(document)
  if (version !== 2) throw malformedPayment('x402Version must be 1 or 2')
  if (document.value('accepted') !== undefined) return parseV2Reference(document.nested('accepted'))
  const network = base === null ? null : `eip155:${base.chainId}`
  return { wire: 'short', scheme: 'exact', network, name: 'base', accepted: null }
}

/** Version 1 names scheme and network, and has nothing else to compare. */
function parseV1Reference(document: DecodedPaymentHeader): RequirementReference {
  const [scheme, name] = [document.text('scheme'), document.text('network')]
  const network = name.includes(':') ? null : findCaip2Id(name)
  return { wire: 'v1', scheme, network, name, accepted: null }
}

function parseV2Reference(accepted: DecodedPaymentHeader): RequirementReference {
  const network = accepted.text('network')
  const [amount, asset] = [accepted.text('amount'), accepted.text('asset')]
  const terms = { amount, asset, payTo: accepted.text('payTo') }
  return { wire: 'v2', scheme: accepted.text('scheme'), network, name: network, accepted: terms }
}

function findReferencedRequirement(
  { scheme, network, name, accepted }: RequirementReference,
  { requirements }: PaymentOffer,
): PaymentRequirement {
  if (scheme !== 'exact')
    throw paymentRejection('invalid_exact_evm_scheme', 'the scheme must be exact')
  const requirement = requirements.find((one) => one.network === network)
  if (requirement === undefined)
    throw paymentRejection('invalid_exact_evm_network_mismatch', `${name} is not accepted here`)
  if (accepted === null || isSameRequirement(accepted, requirement)) return requirement
  throw paymentRejection(
    'no_matching_requirements',
    '`accepted` is not one of the current requirements',
  )
}

function isSameRequirement(
  { amount, asset, payTo }: NonNullable<RequirementReference['accepted']>,
  requirement: PaymentRequirement,
): boolean {
  const same = (a: string, b: string) =>
    isEvmNetwork(requirement.network) ? a.toLowerCase() === b.toLowerCase() : a === b
  return (
    amount === requirement.amount &&
    same(asset, requirement.asset) &&
    same(payTo, requirement.payTo)
  )
}

/** The SDK adds the id of the extension to the echoed declaration. */
function assertIdentifier(identifier: string | null | undefined): string | null {
  if (identifier !== null) return identifier ?? null
  throw malformedPayment('the id of payment-identifier must be 16 to 128 of A-Z, a-z, 0-9, _ and -')
}

/**
 * The payment that a document presents: what identifies it, without an offer. `assets` by CAIP-2,
 * for dialects that name none. Null if it names no known network or asset. Throws `PaymentProblem`.
 */
export function presentedX402Payment(
  document: DecodedPaymentHeader,
  assets: ReadonlyMap<string, string>,
): PresentedPayment | null {
  const named = parseNamedAsset(document)
  if (named === null) return null
  const { wire, chain } = named
  const asset = named.asset ?? assets.get(chain)
  if (asset === undefined) return null
  const presented = parsePresentedPayload(document.nested('payload'), chain, asset)
  if (presented === null) return null
  return { rail: wire === 'short' ? 'eip3009' : 'x402', wire, chain, ...presented }
}

interface NamedAsset {
  readonly wire: PaymentDialect
  readonly chain: string
  /** Null if only the chain is named. */
  readonly asset: string | null
}

/** Fewer fields than a reference to a requirement: a used payment stays recognisable. */
function parseNamedAsset(document: DecodedPaymentHeader): NamedAsset | null {
  const version = document.value('x402Version')
  if (version === 1) {
    const chain = findCaip2Id(document.text('network'))
    return chain === null ? null : { wire: 'v1', chain, asset: null }
  }
  if (version !== 2) return null
  if (document.value('accepted') === undefined)
    return { wire: 'short', chain: PAYMENT_NETWORKS.base.caip2, asset: null }
  const accepted = document.nested('accepted')
  return { wire: 'v2', chain: accepted.text('network'), asset: accepted.text('asset') }
}
