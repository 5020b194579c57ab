/** What is known of addresses that ask for a payment: their offers, probes and listings. */

/** One way to pay an address. Texts are those of its server: untrusted. */
export interface EndpointPaymentOffer {
  readonly protocol: 'x402' | 'mpp'
  /** Versions of x402 that ask for it; empty for MPP. */
  readonly versions: readonly number[]
  /** The scheme of x402, or method and intent of MPP. */
  readonly scheme: string
  /** CAIP-2 if the name is known, else as written; null for MPP methods without a chain. */
  readonly network: string | null
  readonly asset: string
  readonly payTo: string
  /** Atomic units, decimal. */
  readonly amount: string
  /** Null unless the asset is known to be USDC. */
  readonly amountUsdc: number | null
  readonly maxTimeoutSeconds: number | null
}

/** What a response asks for. */
export interface PaymentRequiredTerms {
  readonly offers: readonly EndpointPaymentOffer[]
  readonly problems: readonly string[]
  /** What the server says about the resource; null where it says nothing. */
  readonly description: string | null
  readonly serviceName: string | null
  readonly tags: readonly string[]
}

/** The outcome of one probe. JSON. */
export interface EndpointProbeResult extends PaymentRequiredTerms {
  readonly url: string
  /** Null when nothing answered. */
  readonly status: number | null
  readonly latencyMs: number
  /** Milliseconds since the epoch. */
  readonly at: number
}

export const supportsX402 = ({ offers }: PaymentRequiredTerms): boolean =>
  offers.some(({ protocol }) => protocol === 'x402')

/** Returns the protocols of offers as `x402/2`, `x402/1` and `mpp`. */
export function listOfferedPaymentProtocols(offers: readonly EndpointPaymentOffer[]): string[] {
  const names = offers.flatMap(({ protocol, versions }) =>
    protocol === 'mpp' ? ['mpp'] : versions.map((version) => `x402/${version}`),
  )
  return [...new Set(names)].sort()
}

/** Returns the lowest amount of offers in USDC; null when none is in USDC. */
export function lowestOfferedUsdcAmount(offers: readonly EndpointPaymentOffer[]): number | null {
  const amounts = offers.flatMap(({ amountUsdc }) => (amountUsdc === null ? [] : [amountUsdc]))
  return amounts.length === 0 ? null : Math.min(...amounts)
}

/** An entry of another Bazaar, whose texts are untrusted. */
export interface BazaarResource {
  readonly url: string
  readonly name: string
  readonly description: string | null
  readonly tags: readonly string[]
  readonly offers: readonly EndpointPaymentOffer[]
}
