import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import type { PaymentOffer } from '../../../chain/onchain-payment-types.ts'
import type { RequestHeaders } from '../../../chain/find-request-payment-header.ts'
import { X402_EXACT_PROXY_ADDRESS } from '../../../chain/evm/permit2.ts'
import type { EnabledPaymentRails } from '../../../chain/x402/payment-requirements.ts'
import { fromUsdc } from '../../../core/money.ts'
import {
  toBase64Text,
  FIXED_NOW_MS,
  samplePaymentOffer,
  ALL_TEST_RAILS,
  readPaymentOfHeaders,
  FIXED_NOW_SECONDS,
  OFFER_TREASURY,
} from './sample-payment-offer.ts'

/** Sample x402 payments on Base and BNB Smart Chain, and readers for their headers. */

export const X402_PAYER = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
export const SAMPLE_X402_SIGNATURE = `0x${'ab'.repeat(65)}`
export const [X402_BASE_REQUIREMENT, X402_BSC_REQUIREMENT, X402_SOLANA_REQUIREMENT] =
  samplePaymentOffer().requirements

export const sampleX402Eip3009Authorization = {
  from: X402_PAYER,
  to: OFFER_TREASURY,
  value: '30000',
  validAfter: '0',
  validBefore: String(FIXED_NOW_SECONDS + 300),
  nonce: `0x${'1F'.repeat(32)}`,
}
export const sampleX402Payload = {
  signature: SAMPLE_X402_SIGNATURE,
  authorization: sampleX402Eip3009Authorization,
}
export const sampleX402V2Payment = {
  x402Version: 2,
  accepted: X402_BASE_REQUIREMENT,
  payload: sampleX402Payload,
}
export const sampleX402V1Payment = {
  x402Version: 1,
  scheme: 'exact',
  network: 'base',
  payload: sampleX402Payload,
}

export const sampleX402Permit2Authorization = {
  from: X402_PAYER,
  permitted: { token: PAYMENT_NETWORKS.bsc.asset, amount: '30000000000000000' },
  spender: X402_EXACT_PROXY_ADDRESS,
  nonce: '007',
  deadline: String(FIXED_NOW_SECONDS + 300),
  witness: { to: OFFER_TREASURY, validAfter: '0' },
}
export const sampleX402Permit2Payment = (change: object = {}) => ({
  x402Version: 2,
  accepted: X402_BSC_REQUIREMENT,
  payload: {
    signature: SAMPLE_X402_SIGNATURE,
    permit2Authorization: { ...sampleX402Permit2Authorization, ...change },
  },
})

export interface X402ReadOptions {
  readonly offer?: PaymentOffer
  readonly rails?: EnabledPaymentRails
  readonly now?: number
}
export const readX402RequestHeaders = (
  headers: RequestHeaders,
  { rails = ALL_TEST_RAILS, now = FIXED_NOW_MS, ...rest }: X402ReadOptions = {},
) => readPaymentOfHeaders(headers, { offer: rest.offer ?? samplePaymentOffer(rails), rails, now })
export const readSampleX402Payment = (document: unknown, around?: X402ReadOptions) =>
  readX402RequestHeaders({ 'payment-signature': toBase64Text(document) }, around)

export const NORMALIZED_X402_PAYMENT = {
  chain: 'eip155:8453',
  asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
  from: X402_PAYER.toLowerCase(),
  to: OFFER_TREASURY.toLowerCase(),
  amount: 30_000n,
  price: fromUsdc(0.03),
  validAfter: 0n,
  validBefore: BigInt(FIXED_NOW_SECONDS + 300),
  nonce: `0x${'1f'.repeat(32)}`,
  identifier: null,
  proof: { kind: 'eip3009', signature: SAMPLE_X402_SIGNATURE },
}
