import { decodePaymentHeader, type DecodedPaymentHeader } from './decoded-payment-header.ts'

/** Finds the payment header of a request and decodes its document. */

/** Names in lower case. */
export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** The payment header of a request. */
export interface PaymentHeader {
  /** The protocol of the header; its document names the version. */
  readonly protocol: 'x402' | 'mpp'
  /** Null if the value is not base64 of a JSON object. */
  readonly document: DecodedPaymentHeader | null
}

/**
 * Reads `payment-signature`, else `x-payment`, else `Authorization: Payment`. Null if the request
 * has none of them.
 */
export function readPaymentHeader(headers: RequestHeaders): PaymentHeader | null {
  const found = findHeaderText(headers)
  if (found === null) return null
  const { protocol, text } = found
  return { protocol, document: decodePaymentHeader(text) }
}

interface PaymentHeaderText extends Pick<PaymentHeader, 'protocol'> {
  readonly text: string
}

function findHeaderText(headers: RequestHeaders): PaymentHeaderText | null {
  const x402 = textOf(headers['payment-signature']) ?? textOf(headers['x-payment'])
  if (x402 !== null) return { protocol: 'x402', text: x402 }
  for (const scheme of textOf(headers['authorization'])?.split(',') ?? []) {
    const [, text] = PAYMENT_SCHEME.exec(scheme.trim()) ?? []
    if (text !== undefined) return { protocol: 'mpp', text: text.trim() }
  }
  return null
}

const PAYMENT_SCHEME = /^payment(?:\s+|$)(.*)$/i

function textOf(value: string | readonly string[] | undefined): string | null {
  if (value === undefined) return null
  return typeof value === 'string' ? value.trim() : value.join(',').trim()
}
