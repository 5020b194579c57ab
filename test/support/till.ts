import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { TAP } from 'tap'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import type { Overrides } from '../../app/compose.ts'
import { NETWORKS } from '../../chain/networks.ts'
import type { Hex } from '../../chain/payment.ts'
import { signAuthorization, type Authorization, type Token } from '../../chain/usdc.ts'
import { startBase, type LocalChain } from '../../scripts/chain/local-chain.ts'
import type { Answer } from './client.ts'
import { startStation, type Served, type StartedStation } from './station.ts'

type Test = Pick<TAP, 'teardown' | 'testdir' | 'strictSame' | 'comment'>

export const BASE_TOKEN: Token = {
  address: NETWORKS.base.asset,
  ...NETWORKS.base.domain,
  chainId: NETWORKS.base.chainId,
}

/** Keys of its own for each test: nothing on a chain is shared. */
export interface Till {
  readonly base: LocalChain
  readonly treasury: Hex
  /** For a station that takes payments on this chain. */
  readonly settings: Readonly<Record<string, string>>
  /** A new payer with so many atomic units of USDC. */
  payer(amount: bigint): Promise<PrivateKeyAccount>
  /** Gives money to an address that is there already. */
  give(to: string, amount: bigint): Promise<unknown>
  received(): Promise<bigint>
}

/** A local Base with a treasury and a settler that has gas. */
export async function startTill(t: Test): Promise<Till> {
  const base = await startBase()
  t.teardown(base.stop)
  const treasury = privateKeyToAccount(generatePrivateKey()).address.toLowerCase() as Hex
  const settlerKey = generatePrivateKey()
  await base.fund(privateKeyToAccount(settlerKey).address, 10n ** 18n)
  // One account gives all the money: its transactions go one after the other.
  let giving: Promise<unknown> = Promise.resolve()
  const give = (to: string, amount: bigint) => (giving = giving.then(() => base.mint(to, amount)))
  return {
    base,
    treasury,
    settings: {
      RPC_URL_BASE: base.rpcUrl,
      TREASURY_ADDRESS: treasury,
      SETTLER_PRIVATE_KEY: settlerKey,
      FREE_TIER_PER_DAY: '0',
    },
    give,
    async payer(amount) {
      const account = privateKeyToAccount(generatePrivateKey())
      if (amount > 0n) await give(account.address, amount)
      return account
    },
    received: () => base.balanceOf(treasury),
  }
}

/** A station with a till, in this process. */
export async function startPaidStation(
  t: Test,
  settings: Readonly<Record<string, string>> = {},
  overrides: Overrides = {},
): Promise<{ main: StartedStation; till: Till }> {
  const till = await startTill(t)
  const main = await startStation(t, { ...till.settings, ...settings }, overrides)
  return { main, till }
}

const nonce = (): Hex => `0x${randomBytes(32).toString('hex')}`

/** A signed authorization for the treasury, good for five minutes unless said otherwise. */
export async function authorize(
  payer: PrivateKeyAccount,
  { treasury }: Pick<Till, 'treasury'>,
  value: bigint,
  more: Partial<Authorization> = {},
  token: Token = BASE_TOKEN,
): Promise<{ authorization: Authorization; signature: Hex }> {
  const authorization: Authorization = {
    from: payer.address.toLowerCase(),
    to: treasury,
    value,
    validAfter: 0n,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 300),
    nonce: nonce(),
    ...more,
  }
  return { authorization, signature: await signAuthorization(payer, token, authorization) }
}

export const base64 = (value: unknown): string =>
  Buffer.from(
    JSON.stringify(value, (_, one: unknown) => (typeof one === 'bigint' ? String(one) : one)),
  ).toString('base64')

/** `Payment-Signature` in its short form: x402 version 2 without `accepted`. */
export async function shortHeader(
  ...args: Parameters<typeof authorize>
): Promise<{ 'payment-signature': string }> {
  const payload = await authorize(...args)
  return { 'payment-signature': base64({ x402Version: 2, payload }) }
}

export const responseOf = (header: string | undefined): Record<string, string> =>
  JSON.parse(Buffer.from(header ?? '', 'base64').toString('utf8')) as Record<string, string>

/** Asks after a settlement until its money has come to rest. */
export async function atRest(station: Served, id: string): Promise<Record<string, unknown>> {
  for (;;) {
    const { body } = await station.ask('GET', `/api/x402/settlements/${id}`)
    if (['settled', 'lost', 'released'].includes(String(body['state']))) return body
    await wait(20)
  }
}

/** What `hive_trending` costs, in atomic units, and where it is sold. */
export const PRICE = 5_000n
export const PATH = '/api/t/hive-trending'

export const settlementOf = ({ headers }: Answer): string =>
  responseOf(headers['payment-response'])['settlement_id'] ?? ''

export const pay = (
  main: StartedStation,
  headers: Record<string, string>,
  json: object = {},
): Promise<Answer> => main.ask('POST', PATH, { json, headers })

/** Every settlement at rest, the money on the chain as the ledger has it, and nothing broken. */
export async function audited(
  t: Test & Pick<TAP, 'equal'>,
  main: StartedStation,
  till: Till,
  value: bigint,
): Promise<void> {
  const rows = await main.sql<{ id: string }[]>`select distinct id from settlements`
  for (const { id } of rows) await atRest(main, id)
  t.equal(await till.received(), value, 'on the chain')
  const [row] = await main.sql<{ sum: bigint }[]>`
    select coalesce(sum(amount_micros), 0)::bigint as sum from transfers where debit = 'world:base'`
  t.equal(row?.sum, value, 'in the ledger')
  await main.verify()
}
