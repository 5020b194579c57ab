import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { TAP } from 'tap'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import type { StationTestOverrides } from '../../../app/compose/compose-station.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import {
  signEip3009Authorization,
  type Eip3009Authorization,
  type Eip3009Token,
} from '../../../chain/evm/eip3009.ts'
import { startLocalBase, type LocalChain } from '../chain/local-chain.ts'
import type { TestReply } from '../http/test-http-client.ts'
import {
  startInProcessTestStation,
  type TestStation,
  type InProcessStation,
} from '../station/start-test-station.ts'

/** Stations with a local payment chain, and x402 payments to them. */

type Test = Pick<TAP, 'teardown' | 'testdir' | 'strictSame' | 'comment'>

export const BASE_USDC_TOKEN: Eip3009Token = {
  address: PAYMENT_NETWORKS.base.asset,
  ...PAYMENT_NETWORKS.base.domain,
  chainId: PAYMENT_NETWORKS.base.chainId,
}

/** Each test has its own keys, so tests share nothing on a chain. */
export interface TestPaymentChain {
  readonly base: LocalChain
  readonly treasury: HexString
  /** Settings of a station that accepts payments on this chain. */
  readonly settings: Readonly<Record<string, string>>
  /** Creates a payer with this amount of USDC, in atomic units. */
  createPayer(amount: bigint): Promise<PrivateKeyAccount>
  /** Mints USDC to an existing address. */
  mintUsdc(to: string, amount: bigint): Promise<unknown>
  treasuryBalance(): Promise<bigint>
}

/** Starts a local Base with a treasury and a funded settler. */
export async function startTestPaymentChain(t: Test): Promise<TestPaymentChain> {
  const base = await startLocalBase()
  t.teardown(base.stop)
  const treasury = privateKeyToAccount(generatePrivateKey()).address.toLowerCase() as HexString
  const settlerKey = generatePrivateKey()
  await base.fund(privateKeyToAccount(settlerKey).address, 10n ** 18n)
  // All mints come from one account, so they run one after the other.
  let giving: Promise<unknown> = Promise.resolve()
  const mintUsdc = (to: string, amount: bigint) =>
    (giving = giving.then(() => base.mint(to, amount)))
  return {
    base,
    treasury,
    settings: {
      RPC_URL_BASE: base.rpcUrl,
      TREASURY_ADDRESS: treasury,
      SETTLER_PRIVATE_KEY: settlerKey,
      FREE_TIER_PER_DAY: '0',
    },
    mintUsdc,
    async createPayer(amount) {
      const account = privateKeyToAccount(generatePrivateKey())
      if (amount > 0n) await mintUsdc(account.address, amount)
      return account
    },
    treasuryBalance: () => base.balanceOf(treasury),
  }
}

/** Starts a station with payments in this process. */
export async function startTestStationWithPaymentChain(
  t: Test,
  settings: Readonly<Record<string, string>> = {},
  overrides: StationTestOverrides = {},
): Promise<{ main: InProcessStation; till: TestPaymentChain }> {
  const till = await startTestPaymentChain(t)
  const main = await startInProcessTestStation(t, { ...till.settings, ...settings }, overrides)
  return { main, till }
}

const nonce = (): HexString => `0x${randomBytes(32).toString('hex')}`

/** Signs an authorization for the treasury, valid for five minutes by default. */
export async function signAuthorizationPayingTreasury(
  payer: PrivateKeyAccount,
  { treasury }: Pick<TestPaymentChain, 'treasury'>,
  value: bigint,
  more: Partial<Eip3009Authorization> = {},
  token: Eip3009Token = BASE_USDC_TOKEN,
): Promise<{ authorization: Eip3009Authorization; signature: HexString }> {
  const authorization: Eip3009Authorization = {
    from: payer.address.toLowerCase(),
    to: treasury,
    value,
    validAfter: 0n,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 300),
    nonce: nonce(),
    ...more,
  }
  return { authorization, signature: await signEip3009Authorization(payer, token, authorization) }
}

export const encodeBase64Json = (value: unknown): string =>
  Buffer.from(
    JSON.stringify(value, (_, one: unknown) => (typeof one === 'bigint' ? String(one) : one)),
  ).toString('base64')

/** `Payment-Signature` in its short form: x402 version 2 without `accepted`. */
export async function paymentSignatureHeader(
  ...args: Parameters<typeof signAuthorizationPayingTreasury>
): Promise<{ 'payment-signature': string }> {
  const payload = await signAuthorizationPayingTreasury(...args)
  return { 'payment-signature': encodeBase64Json({ x402Version: 2, payload }) }
}

export const decodePaymentResponse = (header: string | undefined): Record<string, string> =>
  JSON.parse(Buffer.from(header ?? '', 'base64').toString('utf8')) as Record<string, string>

/** Polls a settlement until its state is final. */
export async function waitForFinalSettlement(
  station: TestStation,
  id: string,
): Promise<Record<string, unknown>> {
  for (;;) {
    const { body } = await station.ask('GET', `/api/x402/settlements/${id}`)
    if (['settled', 'lost', 'released'].includes(String(body['state']))) return body
    await wait(20)
  }
}

/** Price of `hive_trending` in atomic units, and its path. */
export const HIVE_TRENDING_PRICE_ATOMIC = 5_000n
export const HIVE_TRENDING_PATH = '/api/t/hive-trending'

export const settlementIdOfReply = ({ headers }: TestReply): string =>
  decodePaymentResponse(headers['payment-response'])['settlement_id'] ?? ''

export const postPaidCall = (
  main: InProcessStation,
  headers: Record<string, string>,
  json: object = {},
): Promise<TestReply> => main.ask('POST', HIVE_TRENDING_PATH, { json, headers })

/**
 * Asserts that every settlement is final, the chain balance equals the ledger's, and no rule is
 * broken.
 */
export async function assertPaymentsBalance(
  t: Test & Pick<TAP, 'equal'>,
  main: InProcessStation,
  till: TestPaymentChain,
  value: bigint,
): Promise<void> {
  const rows = await main.sql<{ id: string }[]>`select distinct id from settlements`
  for (const { id } of rows) await waitForFinalSettlement(main, id)
  t.equal(await till.treasuryBalance(), value, 'on the chain')
  const [row] = await main.sql<{ sum: bigint }[]>`
    select coalesce(sum(amount_micros), 0)::bigint as sum from transfers where debit = 'world:base'`
  t.equal(row?.sum, value, 'in the ledger')
  await main.verify()
}
