import { invalidInputError } from '../../core/errors.ts'
import { BASE64_PATTERN, isRecord, isUint256Text } from '../untrusted-json.ts'
import {
  BASE_CAIP2_ID,
  BASE_USDC_ADDRESS,
  findCaip2Id,
  atomicToUsdc,
} from './x402-network-names.ts'

/** One way to pay, in the terms of version 2. */
export interface X402AcceptsEntry {
  readonly scheme: string | null
  /** CAIP-2 if the name is known, else as written. */
  readonly network: string | null
  readonly amount_atomic: string | null
  /** Null unless the asset is USDC. */
  readonly amount_usdc: number | null
  readonly asset: string | null
  readonly pay_to: string | null
  readonly resource: string | null
  readonly max_timeout_seconds: number | null
}

export interface X402MessageSummary {
  readonly kind: 'payment_required' | 'payment' | 'settlement'
  readonly x402_version: number | null
  readonly accepts: readonly X402AcceptsEntry[]
  readonly payment: Readonly<Record<string, unknown>> | null
  /** Whether no problem was found; signatures, funds and nonces are not checked. */
  readonly valid: boolean
  readonly problems: readonly string[]
}

export interface X402MessageInput {
  readonly header?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, unknown>>
}

const HEADERS = [
  'payment-signature',
  'x-payment',
  'payment-response',
  'x-payment-response',
  'payment-required',
] as const
const NAMED = new RegExp(`^(?:${HEADERS.join('|')})\\s*:\\s*`, 'i')
const MAX_X402_HEADER_CHARS = 16_384
const MAX_ACCEPTS_ENTRIES = 50

/**
 * Parses an x402 header or body of version 1, 2 or the short form and lists its problems. Throws
 * `invalid_input` only if it is no x402 document at all.
 */
export function summarizeX402Message(given: X402MessageInput): X402MessageSummary {
  const { document, pointer } = locateDocument(given)
  const problems: string[] = []
  const version = versionOf(document, problems)
  const base = { x402_version: version, problems }
  if (Array.isArray(document['accepts'])) {
    const accepts = readAccepts(document, version, problems)
    return {
      ...base,
      kind: 'payment_required',
      accepts,
      payment: null,
      valid: problems.length === 0,
    }
  }
  if (isRecord(document['payload'])) {
    const { accepts, payment } = summarizePayment(document, document['payload'], problems)
    return { ...base, kind: 'payment', accepts, payment, valid: problems.length === 0 }
  }
  if (typeof document['success'] === 'boolean') {
    // a settlement reply has no version of its own
    const payment = summarizeSettlement(document)
    return { ...base, problems: [], kind: 'settlement', accepts: [], payment, valid: true }
  }
  throw invalidInputError(
    pointer,
    'is not an x402 document: it has neither accepts, payload nor success',
  )
}

/** Decodes the value of one header; null unless it is base64 of a JSON object. */
function decodeHeader(value: string): Record<string, unknown> | null {
  // Buffer drops illegal characters silently, so the alphabet is checked first
  if (value.length > MAX_X402_HEADER_CHARS || !BASE64_PATTERN.test(value)) return null
  return parseObject(Buffer.from(value, 'base64').toString())
}

function locateDocument(given: X402MessageInput): {
  document: Record<string, unknown>
  pointer: string
} {
  const named = headerIn(given.headers ?? {})
  const header = given.header ?? named?.value
  const pointer = given.header === undefined ? `/headers/${named?.name}` : '/header'
  if (header !== undefined) {
    const text = header.trim().replace(NAMED, '')
    const document = text.startsWith('{') ? parseObject(text) : decodeHeader(text)
    if (document === null) throw invalidInputError(pointer, 'must be base64 of a JSON object')
    return { document, pointer }
  }
  const { body } = given
  if (body === undefined)
    throw invalidInputError('/headers', `must have one of ${HEADERS.join(', ')}`)
  const document =
    typeof body === 'string' ? (parseObject(body) ?? decodeHeader(body.trim())) : body
  if (!isRecord(document))
    throw invalidInputError('/body', 'must be a JSON object, or one as base64')
  return { document, pointer: '/body' }
}

function headerIn(headers: Readonly<Record<string, unknown>>) {
  const lower = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  for (const name of HEADERS) {
    const value = lower.get(name)
    if (typeof value === 'string') return { name, value }
  }
  return undefined
}

function versionOf(document: Record<string, unknown>, problems: string[]): number | null {
  const version = document['x402Version']
  if (version === 1 || version === 2) return version
  problems.push(version === undefined ? 'x402Version is missing' : 'x402Version must be 1 or 2')
  return Number.isInteger(version) ? (version as number) : null
}

function readAccepts(
  document: Record<string, unknown>,
  version: number | null,
  problems: string[],
) {
  const entries = document['accepts'] as unknown[]
  const resource = document['resource']
  const shared = isRecord(resource) ? text(resource['url']) : null
  if (entries.length === 0) problems.push('accepts is empty')
  if (entries.length > MAX_ACCEPTS_ENTRIES)
    problems.push(`accepts has more than ${MAX_ACCEPTS_ENTRIES} entries`)
  if (version === 2 && shared === null) problems.push('resource.url is missing')
  return entries
    .slice(0, MAX_ACCEPTS_ENTRIES)
    .map((entry, at) => readAccept(entry, `accepts[${at}]`, shared, problems))
}

function readAccept(
  given: unknown,
  at: string,
  shared: string | null,
  problems: string[],
): X402AcceptsEntry {
  const entry = isRecord(given) ? given : {}
  if (!isRecord(given)) problems.push(`${at} must be an object`)
  const network = readNetwork(entry['network'], at, problems)
  const asset = text(entry['asset'])
  const amount = text(entry['amount']) ?? text(entry['maxAmountRequired'])
  if (!isUint256Text(amount)) problems.push(`${at}.amount must be a decimal string below 2^256`)
  const payTo = text(entry['payTo'])
  requireAddress(network, payTo, `${at}.payTo`, problems)
  requireAddress(network, asset, `${at}.asset`, problems)
  const scheme = text(entry['scheme'])
  if (scheme === null) problems.push(`${at}.scheme is missing`)
  const seconds = entry['maxTimeoutSeconds']
  return {
    scheme,
    network,
    amount_atomic: amount,
    amount_usdc: atomicToUsdc(network, asset, amount),
    asset,
    pay_to: payTo,
    resource: text(entry['resource']) ?? shared,
    max_timeout_seconds: typeof seconds === 'number' && Number.isFinite(seconds) ? seconds : null,
  }
}

function readNetwork(given: unknown, at: string, problems: string[]): string | null {
  const name = text(given)
  const network = name === null ? null : findCaip2Id(name)
  if (name === null) problems.push(`${at}.network is missing`)
  else if (network === null) problems.push(`${at}.network is not a known network`)
  return network ?? name
}

function summarizePayment(
  document: Record<string, unknown>,
  payload: Record<string, unknown>,
  problems: string[],
) {
  const accepted = document['accepted']
  const resource = document['resource']
  const shared = isRecord(resource) ? text(resource['url']) : null
  const accepts = accepted === undefined ? [] : [readAccept(accepted, 'accepted', shared, problems)]
  const terms = termsOf(document, accepts[0], problems)
  const signed = summarizeSignedPayload(payload, terms.network, problems)
  const asset = text(signed['asset']) ?? terms.asset
  const amount = text(signed['amount_atomic'])
  const payment = {
    ...terms,
    ...signed,
    asset,
    amount_usdc: atomicToUsdc(terms.network, asset, amount),
    signature: text(payload['signature']),
  }
  if (accepts[0] !== undefined) checkAgreement(payment, accepts[0], problems)
  return { accepts, payment }
}

/** The network and asset of a payment: from the header, or Base USDC in the short form. */
function termsOf(
  document: Record<string, unknown>,
  accept: X402AcceptsEntry | undefined,
  problems: string[],
) {
  if (accept !== undefined) {
    return { wire: 'v2', scheme: accept.scheme, network: accept.network, asset: accept.asset }
  }
  if (document['x402Version'] === 1) {
    const network = readNetwork(document['network'], 'payment', problems)
    const scheme = text(document['scheme'])
    if (scheme === null) problems.push('scheme is missing')
    return {
      wire: 'v1',
      scheme,
      network,
      asset: network === BASE_CAIP2_ID ? BASE_USDC_ADDRESS : null,
    }
  }
  return { wire: 'short', scheme: 'exact', network: BASE_CAIP2_ID, asset: BASE_USDC_ADDRESS }
}

function summarizeSignedPayload(
  payload: Record<string, unknown>,
  network: string | null,
  problems: string[],
): Record<string, unknown> {
  const { authorization, permit2Authorization, transaction, signature } = payload
  if (typeof transaction === 'string') {
    if (!BASE64_PATTERN.test(transaction)) problems.push('payload.transaction must be base64')
    return { method: 'transaction', transaction }
  }
  if (!/^0x[0-9a-fA-F]{130,4096}$/.test(text(signature) ?? '')) {
    problems.push('payload.signature must be 65 bytes or more of hex')
  }
  if (isRecord(authorization)) return summarizeEip3009(authorization, network, problems)
  if (isRecord(permit2Authorization))
    return summarizePermit2(permit2Authorization, network, problems)
  problems.push('payload has neither authorization, permit2Authorization nor transaction')
  return { method: null }
}

function summarizeEip3009(
  authorization: Record<string, unknown>,
  network: string | null,
  problems: string[],
) {
  const field = (name: string) => text(authorization[name])
  const at = 'payload.authorization'
  requireAddress(network, field('from'), `${at}.from`, problems)
  requireAddress(network, field('to'), `${at}.to`, problems)
  for (const name of ['value', 'validAfter', 'validBefore']) {
    if (!isUint256Text(field(name)))
      problems.push(`${at}.${name} must be a decimal string below 2^256`)
  }
  if (!/^0x[0-9a-fA-F]{64}$/.test(field('nonce') ?? '')) {
    problems.push(`${at}.nonce must be 32 bytes of hex`)
  }
  const [after, before] = [field('validAfter'), field('validBefore')]
  if (isUint256Text(after) && isUint256Text(before) && BigInt(after) >= BigInt(before)) {
    problems.push(`${at}.validAfter is not before validBefore`)
  }
  return {
    method: 'eip3009',
    from: field('from'),
    to: field('to'),
    amount_atomic: field('value'),
    nonce: field('nonce'),
    valid_after: after,
    valid_before: before,
  }
}

function summarizePermit2(
  permit: Record<string, unknown>,
  network: string | null,
  problems: string[],
) {
  const permitted = isRecord(permit['permitted']) ? permit['permitted'] : {}
  const witness = isRecord(permit['witness']) ? permit['witness'] : {}
  const at = 'payload.permit2Authorization'
  const [from, to, amount] = [text(permit['from']), text(witness['to']), text(permitted['amount'])]
  requireAddress(network, from, `${at}.from`, problems)
  requireAddress(network, to, `${at}.witness.to`, problems)
  if (!isUint256Text(amount))
    problems.push(`${at}.permitted.amount must be a decimal string below 2^256`)
  for (const name of ['nonce', 'deadline']) {
    if (!isUint256Text(text(permit[name]))) problems.push(`${at}.${name} must be a decimal string`)
  }
  return {
    method: 'permit2',
    from,
    to,
    asset: text(permitted['token']),
    amount_atomic: amount,
    nonce: text(permit['nonce']),
    valid_after: text(witness['validAfter']),
    valid_before: text(permit['deadline']),
  }
}

/** The signed terms must equal the accepted ones. */
function checkAgreement(
  payment: Record<string, unknown>,
  accept: X402AcceptsEntry,
  problems: string[],
): void {
  if (payment['method'] === 'transaction') return
  if (payment['amount_atomic'] !== accept.amount_atomic) {
    problems.push('the signed amount is not the accepted amount')
  }
  if (text(payment['to'])?.toLowerCase() !== accept.pay_to?.toLowerCase()) {
    problems.push('the signed recipient is not accepted.payTo')
  }
}

function summarizeSettlement(document: Record<string, unknown>): Record<string, unknown> {
  const network = text(document['network'])
  return {
    success: document['success'],
    transaction: text(document['transaction']),
    network: network === null ? null : (findCaip2Id(network) ?? network),
    payer: text(document['payer']),
    amount_atomic: text(document['amount']),
    error_reason: text(document['errorReason']),
  }
}

function requireAddress(
  network: string | null,
  given: string | null,
  at: string,
  problems: string[],
) {
  const solana = network?.startsWith('solana:') === true
  const form = solana ? /^[1-9A-HJ-NP-Za-km-z]{32,44}$/ : /^0x[0-9a-fA-F]{40}$/
  if (given === null) problems.push(`${at} is missing`)
  else if (!form.test(given)) problems.push(`${at} is not an address`)
}

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)

function parseObject(source: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(source)
    return isRecord(value) ? value : null
  } catch {
    return null
  }
}
