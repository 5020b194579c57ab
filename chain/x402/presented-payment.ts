import { LIMITS } from '../../core/limits.ts'
import {
  createPaymentFieldReader,
  decodeStrictBase64,
  parseUntrustedJson,
  type UntrustedJsonObject,
  type PaymentFieldReader,
} from '../untrusted-json.ts'
import { decodeTempoTransaction } from '../mpp/tempo-transactions.ts'
import { PAYMENT_NETWORKS } from '../payment-networks.ts'
import { findPaymentCredential, PaymentProblem } from '../onchain-payment.ts'
import type { RequestHeaders, PresentedPayment, PaymentDialect } from '../onchain-payment.ts'
import { SIGNATURE_BYTE_BOUNDS } from './exact-evm-payload.ts'
import { findCaip2Id } from './network-names.ts'
import { parseSolanaTransfer } from '../solana/solana-transaction.ts'

/** By CAIP-2: the default asset of dialects that do not name one. */
export type DefaultAssets = ReadonlyMap<string, string>

/**
 * The payment a request presents, without comparing it to an offer or checking its validity. Null
 * if none can be read.
 */
export async function findPresentedPayment(
  headers: RequestHeaders,
  assets: DefaultAssets,
): Promise<PresentedPayment | null> {
  const credential = findPaymentCredential(headers)
  const document = credential === null ? null : parseUntrustedJson(credential.text)
  if (credential === null || document === null) return null
  try {
    return credential.wire === 'mpp'
      ? await presentedMppPayment(document)
      : presentedX402Payment(document, assets)
  } catch (error) {
    if (error instanceof PaymentProblem) return null
    throw error
  }
}

const isEvm = (network: string) => network.startsWith('eip155:')

interface NamedAsset {
  readonly wire: PaymentDialect
  readonly chain: string
  /** Null if only the chain is named. */
  readonly asset: string | null
}

function namedAssetOf(document: UntrustedJsonObject): NamedAsset | null {
  const version = document['x402Version']
  if (version === 1) {
    const network = findCaip2Id(createPaymentFieldReader(document, 'the payment').text('network'))
    return network === null ? null : { wire: 'v1', chain: network, asset: null }
  }
  if (version !== 2) return null
  if (document['accepted'] === undefined)
    return { wire: 'short', chain: PAYMENT_NETWORKS.base.caip2, asset: null }
  const accepted = createPaymentFieldReader(document['accepted'], 'accepted')
  return { wire: 'v2', chain: accepted.text('network'), asset: accepted.text('asset') }
}

function presentedX402Payment(
  document: UntrustedJsonObject,
  assets: DefaultAssets,
): PresentedPayment | null {
  const named = namedAssetOf(document)
  if (named === null) return null
  const { wire, chain } = named
  const asset = named.asset ?? assets.get(chain)
  if (asset === undefined) return null
  const payload = createPaymentFieldReader(document['payload'], 'payload')
  const about = { rail: wire === 'short' ? ('eip3009' as const) : ('x402' as const), wire, chain }
  if (!isEvm(chain)) {
    const shown = transactionIn(payload)
    return shown === null ? null : { ...about, asset, ...shown }
  }
  const { permit2Authorization } = document['payload'] as UntrustedJsonObject
  return {
    ...about,
    ...(permit2Authorization === undefined
      ? { asset: asset.toLowerCase(), ...authorizationIn(payload) }
      : permitIn(payload)),
  }
}

const signatureIn = (payload: PaymentFieldReader) =>
  payload.bytes('signature', SIGNATURE_BYTE_BOUNDS.least, SIGNATURE_BYTE_BOUNDS.most)

function authorizationIn(payload: PaymentFieldReader) {
  const authorization = payload.nested('authorization')
  return {
    from: authorization.address('from'),
    nonce: authorization.bytes('nonce', 32, 32),
    proof: { kind: 'eip3009' as const, signature: signatureIn(payload) },
  }
}

function permitIn(payload: PaymentFieldReader) {
  const permit = payload.nested('permit2Authorization')
  return {
    asset: permit.nested('permitted').address('token'),
    from: permit.address('from'),
    nonce: permit.uint('nonce').toString(),
    proof: { kind: 'permit2' as const, signature: signatureIn(payload) },
  }
}

function transactionIn(payload: PaymentFieldReader) {
  const bytes = decodeStrictBase64(payload.text('transaction'))
  const read = bytes === null ? null : parseSolanaTransfer(bytes)
  if (bytes === null || read === null) return null
  const proof = { kind: 'solana' as const, transaction: bytes.toString('base64') }
  return { from: read.payer, nonce: read.messageHash, proof }
}

/** For a Tempo charge the signature gives the payer, and the challenge the terms. */
async function presentedMppPayment(
  document: UntrustedJsonObject,
): Promise<PresentedPayment | null> {
  const challenge = createPaymentFieldReader(document['challenge'], 'challenge')
  const request = parseUntrustedJson(challenge.text('request'))
  const payload = createPaymentFieldReader(document['payload'], 'payload')
  const raw = payload.bytes('signature', 1, LIMITS.paymentHeaderBytes)
  const transaction = await decodeTempoTransaction(raw)
  if (request === null || transaction === null) return null
  return {
    rail: 'mpp',
    wire: 'mpp',
    chain: `eip155:${transaction.chainId}`,
    asset: createPaymentFieldReader(request, 'request').text('currency').toLowerCase(),
    from: transaction.from,
    nonce: challenge.text('id'),
    proof: { kind: 'mpp', raw },
  }
}
