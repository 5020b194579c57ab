import { readMppChallenges, writeMppChallenge } from './mpp-challenges.ts'
import type { PaymentWay, StationProblem } from './station-errors.ts'

/** Reads the ways to pay from a 402, in the forms of x402 and MPP. */

/** An entry of `accepts` in version 2 of x402, to be returned as it came. */
export interface X402Entry {
  readonly scheme: string
  readonly network: string
  readonly amount: string
  readonly asset: string
  readonly payTo: string
  readonly maxTimeoutSeconds: number
  readonly extra?: Readonly<Record<string, unknown>>
}

/** An offer of x402. */
export interface X402Offer {
  readonly entry: X402Entry
  readonly resource?: unknown
  /** The network as version 1 names it; absent for version 2. */
  readonly v1Network?: string
}

/** A way to pay with what the payment has to return. */
export interface PayableWay extends PaymentWay {
  readonly x402?: X402Offer
  /** The one challenge that was read, as a value of `WWW-Authenticate`. */
  readonly mppChallenge?: string
}

/** The names that version 1 of x402 gives to networks. */
const V1_NETWORKS: Readonly<Record<string, string>> = {
  base: 'eip155:8453',
  'base-sepolia': 'eip155:84532',
  solana: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
}

/** Returns every way to pay that a 402 offers; malformed ones are left out. */
export function readPaymentWays(headers: Headers, problem: StationProblem): PayableWay[] {
  if (problem.status !== 402) return []
  const v2 = readX402(headers.get('payment-required'))
  return [...(v2.length > 0 ? v2 : readV1(problem['accepts'])), ...readMpp(headers)]
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Decodes base64 or base64url of a JSON object; null for anything else. */
function decodeObject(text: string): Record<string, unknown> | null {
  try {
    const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0))
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return isRecord(value) ? value : null
  } catch {
    return null
  }
}

/** Encodes a value as standard padded base64 of its JSON, as x402 sends it. */
export function encodeBase64OfJson(value: unknown): string {
  const bytes = new TextEncoder().encode(JSON.stringify(value))
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
}

function readX402(header: string | null): PayableWay[] {
  const required = header === null ? null : decodeObject(header)
  if (required === null || !Array.isArray(required['accepts'])) return []
  const { resource } = required
  return required['accepts'].filter(isEntry).map((entry) => toWay({ entry, resource }))
}

function toWay(x402: X402Offer): PayableWay {
  const { network, asset, payTo, amount } = x402.entry
  return { protocol: 'x402', network, asset, payTo, amount, x402 }
}

function isEntry(value: unknown): value is X402Entry {
  if (!isRecord(value) || value['scheme'] !== 'exact') return false
  const texts = ['network', 'amount', 'asset', 'payTo'].map((name) => value[name])
  return (
    (value['extra'] === undefined || isRecord(value['extra'])) &&
    texts.every((text) => typeof text === 'string') &&
    /^\d{1,78}$/.test(String(value['amount'])) &&
    typeof value['maxTimeoutSeconds'] === 'number'
  )
}

/** Entries of version 1, in the form of version 2. */
function readV1(accepts: unknown): PayableWay[] {
  if (!Array.isArray(accepts)) return []
  return accepts.filter(isRecord).flatMap((one): PayableWay[] => {
    const v1Network = String(one['network'])
    const network = Object.hasOwn(V1_NETWORKS, v1Network) ? V1_NETWORKS[v1Network] : undefined
    const entry: Record<string, unknown> = { ...one, network, amount: one['maxAmountRequired'] }
    return isEntry(entry) ? [toWay({ entry, v1Network })] : []
  })
}

/** A request whose money goes to more than one payee is none that a quote can name. */
function readMpp(headers: Headers): PayableWay[] {
  return readMppChallenges(headers.get('www-authenticate') ?? '').flatMap((challenge) => {
    const encoded = challenge.get('request') ?? ''
    const request = /^[\w-]+=*$/.test(encoded) ? decodeObject(encoded) : null
    if (challenge.get('intent') !== 'charge' || request === null) return []
    const { amount, currency, recipient, methodDetails } = request
    const { chainId, splits } = isRecord(methodDetails) ? methodDetails : {}
    if (![currency, recipient].every((one) => typeof one === 'string')) return []
    if (typeof amount !== 'string' || !/^\d{1,78}$/.test(amount)) return []
    if (typeof chainId !== 'number' || splits !== undefined) return []
    return [
      {
        protocol: 'mpp',
        network: `eip155:${chainId}`,
        asset: String(currency),
        payTo: String(recipient),
        amount,
        mppChallenge: writeMppChallenge(challenge),
      },
    ]
  })
}
