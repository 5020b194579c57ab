import { Challenge, Credential } from 'mppx'
import { concatHex, numberToHex, padHex } from 'viem'
import { privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { Transaction } from 'viem/tempo'
import { memoOf } from '../../chain/mpp/charge.ts'
import { challengeHeader } from '../../chain/mpp/challenge.ts'
import type { Hex } from '../../chain/payment.ts'
import { readPayment } from '../../chain/x402/intake.ts'
import { NOW, offer, RAILS, TREASURY } from './offers.ts'

export const PATH_USD = '0x20c0000000000000000000000000000000000000'
/** The first dev account of anvil; it owns pathUSD from the start. */
export const account = privateKeyToAccount(
  '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
)
export const BODY = new TextEncoder().encode('{"url":"https://example.com"}')

export interface Paid {
  readonly account?: PrivateKeyAccount
  readonly call?: { readonly to?: string; readonly data?: Hex }
  readonly transaction?: object
  readonly calls?: { readonly to: Hex; readonly data: Hex }[]
  readonly credential?: object
  readonly challenge?: object
  readonly memo?: Hex
  readonly to?: string
  readonly amount?: bigint
}

const word = (value: string | bigint) =>
  padHex(typeof value === 'bigint' ? numberToHex(value) : (value as Hex), { size: 32 })

export const transfer = (to: string, amount: bigint, memo: Hex) =>
  concatHex(['0x95777d59', word(to), word(amount), memo])

/** What a client sends for a challenge of `now`, with this or that changed. */
export async function credentialFor(change: Paid = {}, { asked = offer(), now = NOW } = {}) {
  const header = challengeHeader(asked, { body: BODY, now }) ?? ''
  const challenge = Challenge.deserialize(header)
  const memo = change.memo ?? memoFor(challenge.id)
  const data = transfer(change.to ?? TREASURY, change.amount ?? 30_000n, memo)
  const calls = change.calls ?? [{ to: PATH_USD, data, ...change.call }]
  const validBefore = Math.floor(now / 1000) + 25
  const raw = await signed({ calls, validBefore, ...change.transaction }, change.account)
  const credential = {
    challenge: { ...challenge, ...change.challenge },
    payload: { type: 'transaction', signature: raw, ...change.credential },
  }
  return { id: challenge.id, raw, text: Credential.serialize(credential as never) }
}

export const memoFor = (id: string, realm = 'gas.example'): Hex => {
  const { server, challenge } = memoOf(realm, id)
  return `${server}${'00'.repeat(10)}${challenge}` as Hex
}

/** A transaction of the kind the client makes, signed by the dev account or another. */
const signed = (transaction: object, by = account): Promise<Hex> =>
  by.signTransaction(
    {
      chainId: 4217,
      gas: 500_000n,
      maxFeePerGas: 20_000_000_000n,
      nonceKey: 2n ** 256n - 1n,
      feeToken: PATH_USD,
      type: 'tempo',
      ...transaction,
    } as never,
    { serializer: Transaction.serialize as never },
  )

/** Reads the header of a request with BODY, or another. */
export const read = (authorization: string, { asked = offer(), now = NOW, body = BODY } = {}) =>
  readPayment({ authorization }, asked, RAILS, now, body)
