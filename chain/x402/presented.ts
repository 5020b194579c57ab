import { LIMITS } from '../../core/limits.ts'
import { fieldsOf, strictBase64, strictDocument, type Document, type Fields } from '../document.ts'
import { decodeTransaction } from '../mpp/tempo.ts'
import { NETWORKS } from '../networks.ts'
import { credentialOf, PaymentProblem } from '../payment.ts'
import type { Headers, Presented, Wire } from '../payment.ts'
import { SIGNATURE_BYTES } from './authorization.ts'
import { networkOf } from './networks.ts'
import { readTransaction } from './solana.ts'

/** By CAIP-2: the asset that is meant where a dialect does not name one. */
export type Assets = ReadonlyMap<string, string>

/**
 * Which payment a request shows, by its own words alone: nothing is held against an offer, so it
 * says nothing about whether the payment is any good. Null when there is none that can be read.
 */
export async function presentedIn(headers: Headers, assets: Assets): Promise<Presented | null> {
  const credential = credentialOf(headers)
  const document = credential === null ? null : strictDocument(credential.text)
  if (credential === null || document === null) return null
  try {
    return credential.wire === 'mpp' ? await chargeIn(document) : signedIn(document, assets)
  } catch (error) {
    if (error instanceof PaymentProblem) return null
    throw error
  }
}

const isEvm = (network: string) => network.startsWith('eip155:')

interface Named {
  readonly wire: Wire
  readonly chain: string
  /** Null where only the chain is named. */
  readonly asset: string | null
}

function namedBy(document: Document): Named | null {
  const version = document['x402Version']
  if (version === 1) {
    const network = networkOf(fieldsOf(document, 'the payment').text('network'))
    return network === null ? null : { wire: 'v1', chain: network, asset: null }
  }
  if (version !== 2) return null
  if (document['accepted'] === undefined)
    return { wire: 'short', chain: NETWORKS.base.caip2, asset: null }
  const accepted = fieldsOf(document['accepted'], 'accepted')
  return { wire: 'v2', chain: accepted.text('network'), asset: accepted.text('asset') }
}

function signedIn(document: Document, assets: Assets): Presented | null {
  const named = namedBy(document)
  if (named === null) return null
  const { wire, chain } = named
  const asset = named.asset ?? assets.get(chain)
  if (asset === undefined) return null
  const payload = fieldsOf(document['payload'], 'payload')
  const about = { rail: wire === 'short' ? ('eip3009' as const) : ('x402' as const), wire, chain }
  if (!isEvm(chain)) {
    const shown = transactionIn(payload)
    return shown === null ? null : { ...about, asset, ...shown }
  }
  const { permit2Authorization } = document['payload'] as Document
  return {
    ...about,
    ...(permit2Authorization === undefined
      ? { asset: asset.toLowerCase(), ...authorizationIn(payload) }
      : permitIn(payload)),
  }
}

const signatureIn = (payload: Fields) =>
  payload.bytes('signature', SIGNATURE_BYTES.least, SIGNATURE_BYTES.most)

function authorizationIn(payload: Fields) {
  const authorization = payload.within('authorization')
  return {
    from: authorization.address('from'),
    nonce: authorization.bytes('nonce', 32, 32),
    proof: { kind: 'eip3009' as const, signature: signatureIn(payload) },
  }
}

function permitIn(payload: Fields) {
  const permit = payload.within('permit2Authorization')
  return {
    asset: permit.within('permitted').address('token'),
    from: permit.address('from'),
    nonce: permit.uint('nonce').toString(),
    proof: { kind: 'permit2' as const, signature: signatureIn(payload) },
  }
}

function transactionIn(payload: Fields) {
  const bytes = strictBase64(payload.text('transaction'))
  const read = bytes === null ? null : readTransaction(bytes)
  if (bytes === null || read === null) return null
  const proof = { kind: 'solana' as const, transaction: bytes.toString('base64') }
  return { from: read.payer, nonce: read.messageHash, proof }
}

/** Of a charge on Tempo the signature names the payer, and the challenge what was asked for. */
async function chargeIn(document: Document): Promise<Presented | null> {
  const challenge = fieldsOf(document['challenge'], 'challenge')
  const request = strictDocument(challenge.text('request'))
  const payload = fieldsOf(document['payload'], 'payload')
  const raw = payload.bytes('signature', 1, LIMITS.paymentHeaderBytes)
  const transaction = await decodeTransaction(raw)
  if (request === null || transaction === null) return null
  return {
    rail: 'mpp',
    wire: 'mpp',
    chain: `eip155:${transaction.chainId}`,
    asset: fieldsOf(request, 'request').text('currency').toLowerCase(),
    from: transaction.from,
    nonce: challenge.text('id'),
    proof: { kind: 'mpp', raw },
  }
}
