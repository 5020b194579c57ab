import type {
  EndpointPaymentOffer,
  PaymentRequiredTerms,
} from '../domain/payable-endpoint-offers.ts'
import {
  parsePaymentChallenges,
  type DemandedCharge,
} from './mpp/parse-www-authenticate-mpp-challenges.ts'
import { isRecord, isUint256Text } from './untrusted-json.ts'
import { atomicToUsdc, isEvmNetwork } from './x402/x402-network-names.ts'
import {
  summarizeX402Message,
  type X402AcceptsEntry,
  type X402MessageInput,
} from './x402/summarize-x402-message.ts'

/** Reads what a response of another server asks for: x402 of both versions, and MPP. */

/** A response, with header names in lower case. */
export interface PaymentDemandResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

const PAYMENT_REQUIRED = 402
const MAX_OFFERS = 50
const MAX_PROBLEMS = 20
const MAX_TEXT_CHARS = 512
const MAX_CHALLENGE_CHARS = 8_192

/** Returns the offers of a response in one form, and everything that a client would stumble over. */
export function readPaymentDemand({
  status,
  headers,
  body,
}: PaymentDemandResponse): PaymentRequiredTerms {
  if (status !== PAYMENT_REQUIRED) return noDemand(describeStatus(status))
  const problems: string[] = []
  const offers = new Map<string, EndpointPaymentOffer>()
  const documents = readDocuments(headers, body, problems)
  for (const { document, version, accepts } of documents) {
    accepts.forEach((entry, at) => {
      const offer = toX402Offer(entry, version)
      if (offer === null) problems.push(`x402/${version}: accepts[${at}] cannot be paid`)
      else mergeOffer(offers, offer)
    })
    if (document['error'] !== undefined && typeof document['error'] !== 'string')
      problems.push(`x402/${version}: error is not a string`)
  }
  const challenge = headers['www-authenticate']
  if (challenge !== undefined) readChallenges(challenge, offers, problems)
  if (offers.size === 0) problems.push('The answer is 402 and says in no known form how to pay it.')
  return {
    offers: [...offers.values()].slice(0, MAX_OFFERS),
    problems: [...new Set(problems)].slice(0, MAX_PROBLEMS).map((text) => clip(text)),
    ...aboutResource(documents.map(({ document }) => document)),
  }
}

/** Returns the offers of a 402 document that somebody else quotes; those that cannot be paid are left out. */
export function readOffersOfQuoted402Document(document: unknown): EndpointPaymentOffer[] {
  if (!isRecord(document) || !Array.isArray(document['accepts'])) return []
  const demand = summarize({ body: document }, document, 'the document', [])
  if (demand === null) return []
  return demand.accepts
    .slice(0, MAX_OFFERS)
    .flatMap((entry) => toX402Offer(entry, demand.version) ?? [])
}

const noDemand = (problem: string): PaymentRequiredTerms => ({
  offers: [],
  problems: [problem],
  description: null,
  serviceName: null,
  tags: [],
})

function describeStatus(status: number): string {
  if (status >= 300 && status < 400)
    return `The address redirects (${status}), and redirections are not followed.`
  if (status === 405)
    return 'The address does not answer GET (405), so whether it asks for a payment is unknown.'
  return `The address answers ${status} and asks for no payment.`
}

interface X402Demand {
  readonly document: Record<string, unknown>
  readonly version: number
  readonly accepts: readonly X402AcceptsEntry[]
}

/** The header of version 2, and the body of version 1 or 2. */
function readDocuments(
  headers: Readonly<Record<string, string>>,
  body: Uint8Array,
  problems: string[],
): X402Demand[] {
  const found: X402Demand[] = []
  const header = headers['payment-required']
  if (header !== undefined) {
    const document = parseObject(Buffer.from(header, 'base64').toString('utf8'))
    const demand = summarize({ header }, document, 'PAYMENT-REQUIRED', problems)
    if (demand !== null) found.push(demand)
  }
  const document = parseObject(Buffer.from(body).toString('utf8'))
  // MPP alone, and version 2, may have any body.
  if (document === null || !Array.isArray(document['accepts'])) return found
  const demand = summarize({ body: document }, document, 'the body', problems)
  if (demand !== null) found.push(demand)
  return found
}

function summarize(
  input: X402MessageInput,
  document: Record<string, unknown> | null,
  where: string,
  problems: string[],
): X402Demand | null {
  try {
    const { kind, x402_version: version, ...summary } = summarizeX402Message(input)
    if (kind !== 'payment_required' || document === null) throw new Error('has no accepts')
    problems.push(...summary.problems.map((text) => `${where}: ${text}`))
    return version === 1 || version === 2 ? { document, version, accepts: summary.accepts } : null
  } catch (error) {
    problems.push(`${where}: ${error instanceof Error ? error.message : String(error)}`)
    return null
  }
}

function toX402Offer(entry: X402AcceptsEntry, version: number): EndpointPaymentOffer | null {
  const { scheme, network, asset, pay_to: payTo, amount_atomic: amount } = entry
  const known = [scheme, network, asset, payTo].every((text) => text !== null && isShort(text))
  if (!known || !isUint256Text(amount)) return null
  return {
    protocol: 'x402',
    versions: [version],
    scheme: scheme ?? '',
    network,
    asset: asset ?? '',
    payTo: payTo ?? '',
    amount,
    amountUsdc: entry.amount_usdc,
    maxTimeoutSeconds: entry.max_timeout_seconds,
  }
}

function readChallenges(
  header: string,
  offers: Map<string, EndpointPaymentOffer>,
  problems: string[],
): void {
  if (header.length > MAX_CHALLENGE_CHARS) {
    problems.push(`WWW-Authenticate is longer than ${MAX_CHALLENGE_CHARS} characters`)
    return
  }
  const { charges, problems: wrong } = parsePaymentChallenges(header)
  problems.push(...wrong.map((text) => `mpp: ${text}`))
  for (const charge of charges) {
    const offer = toMppOffer(charge)
    if (offer === null)
      problems.push(`mpp: the challenge of ${clip(charge.method)} lacks amount, currency or payee`)
    else mergeOffer(offers, offer)
  }
}

function toMppOffer(charge: DemandedCharge): EndpointPaymentOffer | null {
  const { method, intent, amount, currency, recipient, chainId } = charge
  if (!isUint256Text(amount) || currency === null || recipient === null) return null
  const scheme = `${method}/${intent}`
  if (![scheme, currency, recipient].every(isShort)) return null
  const network = chainId === null ? null : `eip155:${chainId}`
  return {
    protocol: 'mpp',
    versions: [],
    scheme,
    network,
    asset: currency,
    payTo: recipient,
    amount,
    amountUsdc: atomicToUsdc(network, currency, amount),
    maxTimeoutSeconds: null,
  }
}

/** The same offer of several versions is one. */
function mergeOffer(offers: Map<string, EndpointPaymentOffer>, offer: EndpointPaymentOffer): void {
  const { protocol, scheme, network, asset, payTo, amount } = offer
  const written = [protocol, scheme, network, asset, payTo, amount].join('\n')
  const id = isEvmNetwork(network ?? '') ? written.toLowerCase() : written
  const same = offers.get(id)
  const versions = [...new Set([...(same?.versions ?? []), ...offer.versions])].sort(
    (a, b) => a - b,
  )
  offers.set(id, { ...(same ?? offer), versions })
}

/** Version 2 describes the resource beside `accepts`, version 1 in each of its entries. */
function aboutResource(documents: readonly Record<string, unknown>[]) {
  const places = documents.flatMap((document) => {
    const accepts = document['accepts'] as unknown[]
    return [document['resource'], accepts[0]].filter(isRecord)
  })
  const find = (name: string): string | null => {
    const text = places.map((place) => place[name]).find((value) => typeof value === 'string')
    return text === undefined || text === '' ? null : clip(text as string)
  }
  const tags = places.map((place) => place['tags']).find(Array.isArray) ?? []
  return {
    description: find('description'),
    serviceName: find('serviceName'),
    tags: (tags as unknown[])
      .filter((tag): tag is string => typeof tag === 'string' && tag !== '' && tag.length <= 32)
      .slice(0, 5)
      .map((tag) => clip(tag)),
  }
}

/** Control characters, and halves of surrogate pairs: a database stores neither NUL nor a half. */
const UNCLEAN = /[\p{Cc}\p{Surrogate}]+/gu

const isShort = (text: unknown): boolean =>
  typeof text === 'string' &&
  text !== '' &&
  text.length <= MAX_TEXT_CHARS / 2 &&
  text.search(UNCLEAN) === -1

/** Cut before it is cleaned, because the cut may halve a pair. */
const clip = (text: string): string => text.slice(0, MAX_TEXT_CHARS).replace(UNCLEAN, ' ')

function parseObject(source: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(source)
    return isRecord(value) ? value : null
  } catch {
    return null
  }
}
