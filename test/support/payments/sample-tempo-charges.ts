import { Challenge, Credential } from 'mppx'
import { concatHex, numberToHex, padHex } from 'viem'
import { privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { Transaction } from 'viem/tempo'
import { expectedMppMemo } from '../../../chain/mpp/read-mpp-payment.ts'
import { mppChallengeHeader } from '../../../chain/mpp/mpp-challenge.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import {
  FIXED_NOW_MS,
  samplePaymentOffer,
  readPaymentOfHeaders,
  OFFER_TREASURY,
} from './sample-payment-offer.ts'

/** Charge credentials of the Machine Payments Protocol on Tempo. */

export const PATH_USD_ADDRESS = '0x20c0000000000000000000000000000000000000'
/** The first dev account of anvil, which holds pathUSD from genesis. */
export const TEMPO_DEV_ACCOUNT_KEY =
  '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
export const TEMPO_DEV_ACCOUNT = privateKeyToAccount(TEMPO_DEV_ACCOUNT_KEY)
export const CHARGED_REQUEST_BODY = new TextEncoder().encode('{"url":"https://example.com"}')

export interface TempoChargeOverrides {
  readonly account?: PrivateKeyAccount
  readonly call?: { readonly to?: string; readonly data?: HexString }
  readonly transaction?: object
  readonly calls?: { readonly to: HexString; readonly data: HexString }[]
  readonly credential?: object
  readonly challenge?: object
  readonly memo?: HexString
  readonly to?: string
  readonly amount?: bigint
}

const encodeTestWord = (value: string | bigint) =>
  padHex(typeof value === 'bigint' ? numberToHex(value) : (value as HexString), { size: 32 })

export const encodeTransferWithMemo = (to: string, amount: bigint, memo: HexString) =>
  concatHex(['0x95777d59', encodeTestWord(to), encodeTestWord(amount), memo])

/** A client's credential for a challenge of `now`, with overrides. */
export async function createTempoChargeCredential(
  change: TempoChargeOverrides = {},
  { asked = samplePaymentOffer(), now = FIXED_NOW_MS } = {},
) {
  const header = mppChallengeHeader(asked, { body: CHARGED_REQUEST_BODY, now }) ?? ''
  const challenge = Challenge.deserialize(header)
  const memo = change.memo ?? tempoChargeMemoFor(challenge.id)
  const data = encodeTransferWithMemo(change.to ?? OFFER_TREASURY, change.amount ?? 30_000n, memo)
  const calls = change.calls ?? [{ to: PATH_USD_ADDRESS, data, ...change.call }]
  const validBefore = Math.floor(now / 1000) + 25
  const raw = await signTempoTransaction(
    { calls, validBefore, ...change.transaction },
    change.account,
  )
  const credential = {
    challenge: { ...challenge, ...change.challenge },
    payload: { type: 'transaction', signature: raw, ...change.credential },
  }
  return { id: challenge.id, raw, text: Credential.serialize(credential as never) }
}

export const tempoChargeMemoFor = (id: string, realm = 'gas.example'): HexString => {
  const { server, challenge } = expectedMppMemo(realm, id)
  return `${server}${'00'.repeat(10)}${challenge}` as HexString
}

/** A transfer transaction as the client creates it, signed by the dev account by default. */
const signTempoTransaction = (transaction: object, by = TEMPO_DEV_ACCOUNT): Promise<HexString> =>
  by.signTransaction(
    {
      chainId: 4217,
      gas: 500_000n,
      maxFeePerGas: 20_000_000_000n,
      nonceKey: 2n ** 256n - 1n,
      feeToken: PATH_USD_ADDRESS,
      type: 'tempo',
      ...transaction,
    } as never,
    { serializer: Transaction.serialize as never },
  )

/** Reads the payment header of a request with the charged body by default. */
export const readTempoChargePayment = (
  authorization: string,
  { asked = samplePaymentOffer(), now = FIXED_NOW_MS, body = CHARGED_REQUEST_BODY } = {},
) => readPaymentOfHeaders({ authorization }, { offer: asked, now, body })
