import { PaymentProblem, type NormalizedPayment } from '../../../chain/onchain-payment-types.ts'
import {
  readPaymentHeader,
  type RequestHeaders,
} from '../../../chain/find-request-payment-header.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { readRequestPayment } from '../../../chain/read-request-payment.ts'
import {
  createPaymentOffer,
  type EnabledPaymentRails,
} from '../../../chain/x402/payment-requirements.ts'
import { fromUsdc } from '../../../core/money.ts'

/** With an invalid checksum, as a setting may have. */
export const OFFER_TREASURY = '0x00000000000000000000000000000000000BEeF1'
export const OFFER_URL = 'https://gas.example/api/t/agent_see'
/** A fixed future time in milliseconds. */
export const FIXED_NOW_MS = 1_800_000_000_000
export const FIXED_NOW_SECONDS = FIXED_NOW_MS / 1000
export const SAMPLE_OFFER_TOOL_DEADLINE_MS = 30_000
export const EMPTY_BODY = new Uint8Array()

const evm = (network: typeof PAYMENT_NETWORKS.base | typeof PAYMENT_NETWORKS.bsc) => ({
  payTo: OFFER_TREASURY,
  asset: network.asset,
  domain: network.domain,
  chainId: network.chainId,
})

/** All rails enabled. */
export const ALL_TEST_RAILS: EnabledPaymentRails = {
  base: evm(PAYMENT_NETWORKS.base),
  bsc: evm(PAYMENT_NETWORKS.bsc),
  solana: {
    payTo: '2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4',
    feePayer: 'EwWqGE4ZFKLofuestmU4LDdK7XM1N4ALgdZccwYugwGd',
  },
  tempo: {
    recipient: OFFER_TREASURY,
    currency: '0x20c0000000000000000000000000000000000000',
    secret: '0123456789abcdef0123456789abcdef',
    realm: 'gas.example',
    chainId: 4217,
  },
}

export const samplePaymentOffer = (
  rails: EnabledPaymentRails = ALL_TEST_RAILS,
  usdc = 0.03,
  deadlineMs = SAMPLE_OFFER_TOOL_DEADLINE_MS,
) =>
  createPaymentOffer(rails, {
    url: OFFER_URL,
    description: 'Looks at a page: really???',
    mimeType: 'application/json',
    price: fromUsdc(usdc),
    deadlineMs,
  })

export const toBase64Text = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64')

/** Reads the payment in the headers of a request; null if they have none. */
export async function readPaymentOfHeaders(
  headers: RequestHeaders,
  {
    offer = samplePaymentOffer(),
    rails = ALL_TEST_RAILS,
    now = FIXED_NOW_MS,
    body = EMPTY_BODY as Uint8Array,
  } = {},
): Promise<NormalizedPayment | null> {
  const header = readPaymentHeader(headers)
  return header === null ? null : readRequestPayment(header, offer, rails, now, body)
}

/** Returns status and reason of the problem; rethrows any other error. */
export async function paymentProblemOf(reading: Promise<unknown>): Promise<[number, string]> {
  const problem = await reading.then(
    () => null,
    (error: unknown) => error,
  )
  if (problem instanceof PaymentProblem) return [problem.status, problem.reason]
  throw problem ?? new Error('it was accepted')
}
