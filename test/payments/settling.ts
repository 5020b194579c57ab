import { performance } from 'node:perf_hooks'
import type { Test } from 'tap'
import { encodeFunctionData, type PrivateKeyAccount } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { evmClient } from '../../chain/evm.ts'
import { NETWORKS } from '../../chain/networks.ts'
import type { Hex, Payment } from '../../chain/payment.ts'
import { accountOf } from '../../chain/transactions.ts'
import { signAuthorization, transferCall } from '../../chain/usdc.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import { paymentDeliver, type Claim } from '../../payments/commands/payment.ts'
import { settler, type SettlerParts } from '../../payments/settler.ts'
import type { Sql } from '../../persistence/plane.ts'
import { settlementStore } from '../../persistence/settlements.ts'
import { settlerLane } from '../../persistence/settler-lane.ts'
import { artifacts, startBase, type LocalChain } from '../../scripts/chain/local-chain.ts'
import { testDatabase } from '../support/database.ts'
import { rpcGate } from '../support/rpc-gate.ts'
import {
  about,
  claim,
  claimOf,
  outcomeOf,
  paymentOf,
  settlementOf,
  TIMERS,
  TREASURY,
} from '../support/payments.ts'
import { node } from '../support/runtime.ts'

/** The real time, and what was added to it. */
export function movable(): Clock & { pass(ms: number): void } {
  let ahead = 0
  return {
    now: () => Date.now() + ahead,
    mono: () => performance.now() + ahead,
    correct: () => {},
    anchor: () => {},
    disturbed: () => false,
    pass: (ms) => void (ahead += ms),
  }
}

const { asset, chainId, domain } = NETWORKS.base
const token = { address: asset, chainId, ...domain }

interface Options {
  readonly nodes?: number
  readonly gas?: bigint
  readonly receiptMs?: number
}

/** A chain, a key that settles on it, and nodes over one database. */
export async function world(t: Test, options: Options = {}) {
  const { nodes = 1, gas = 10n ** 18n, receiptMs = 3_000 } = options
  const chain = await startBase()
  t.teardown(() => chain.stop())
  const gate = await rpcGate(t, chain.rpcUrl)
  const clock = movable()
  const { sql } = await testDatabase(t)
  const account = accountOf(generatePrivateKey())
  await chain.fund(account.address, gas)
  const store = settlementStore(sql)
  const logged: string[] = []
  const all = Array.from({ length: nodes }, () => {
    const actors = node(t, sql, { clock, timerCommands: TIMERS })
    const client = evmClient({ rpcUrl: gate.url, chainId, timeoutMs: 5_000 })
    const parts: SettlerParts = {
      actors,
      store,
      lane: settlerLane(sql),
      clock,
      base: { client, account, token },
      bsc: null,
      tempo: null,
      facilitator: null,
      log: (message, error) => void logged.push(`${message}: ${String(error)}`),
      receiptMs,
      sweepMs: null,
    }
    const made = settler(parts)
    t.teardown(() => made.close())
    return { actors, settler: made, parts }
  })
  const [one] = all as [(typeof all)[number]]
  const find = (claimed: Claim) => store.find(settlementOf(claimed.payment))
  return {
    chain,
    gate,
    clock,
    sql,
    account,
    store,
    logged,
    all,
    ...one,
    find,
    async stateOf(claimed: Claim): Promise<string> {
      const found = await find(claimed)
      return `${found?.money}/${found?.delivery}`
    },
    /** How many transactions of the settler are in blocks. */
    sent: () => chain.client.getTransactionCount({ address: account.address }),
    /** A payment of a new payer who has the money, claimed, and delivered unless it settles first. */
    async paid(usdc: number, how: Partial<How> = {}) {
      const made = await signedPayment(chain, usdc, how)
      const claimed = claimOf(made.payment, {
        mode: how.mode ?? 'optimistic',
        ...(how.purpose === undefined ? {} : { purpose: how.purpose }),
        balanceBlock: await chain.client.getBlockNumber(),
        balance: made.payment.amount,
      })
      await claim(one.actors, claimed)
      if (how.mode !== 'first' && how.delivered !== false)
        await about(one.actors, claimed, paymentDeliver, outcomeOf(claimed))
      return { ...made, claimed, id: settlementOf(made.payment) }
    },
  }
}
export type World = Awaited<ReturnType<typeof world>>

interface How {
  readonly mode: 'optimistic' | 'first'
  readonly delivered: boolean
  readonly seconds: number
  readonly balance: bigint
  readonly purpose: Claim['purpose']
}

async function signedPayment(chain: LocalChain, usdc: number, how: Partial<How>) {
  const payer = privateKeyToAccount(generatePrivateKey())
  const { timestamp } = await chain.client.getBlock()
  const later = BigInt(Math.max(Math.floor(Date.now() / 1000), Number(timestamp)))
  const validBefore = later + BigInt(how.seconds ?? 300)
  const unsigned = paymentOf(usdc, { from: payer.address.toLowerCase(), validBefore })
  await chain.mint(payer.address, how.balance ?? unsigned.amount)
  const signature = await signAuthorization(payer, token, authorizationOf(unsigned))
  return {
    payer,
    payment: { ...unsigned, proof: { kind: 'eip3009', signature } } satisfies Payment,
  }
}

const authorizationOf = ({ from, amount: value, validAfter, validBefore, nonce }: Payment) => ({
  from,
  to: TREASURY,
  value,
  validAfter,
  validBefore,
  nonce: nonce as Hex,
})

export const settleCallOf = (payment: Payment) => {
  if (payment.proof.kind !== 'eip3009') throw new Error('no authorization')
  return transferCall(token, authorizationOf(payment), payment.proof.signature)
}

/** Sends from anybody's account, who is given gas; waits for the block. */
export async function sendFrom(
  chain: LocalChain,
  from: PrivateKeyAccount,
  call: { to: string; data: Hex },
  more: { wait?: boolean; tip?: bigint; gas?: bigint } = {},
) {
  await chain.fund(from.address, 10n ** 18n)
  const { to, data } = call
  const tip = more.tip ?? 10n ** 9n
  const hash = await chain.client.sendTransaction({
    account: from,
    to: to as Hex,
    data,
    gas: more.gas ?? 200_000n,
    maxPriorityFeePerGas: tip,
    maxFeePerGas: tip + 10n ** 11n,
    chain: chain.client.chain,
  })
  if (more.wait !== false) await chain.client.waitForTransactionReceipt({ hash })
  return hash
}

/** A call of the token, by name. */
export const tokenCall = (functionName: string, args: readonly unknown[]) => ({
  to: asset,
  data: encodeFunctionData({ abi: artifacts.MockUSDC.abi, functionName, args: [...args] }),
})

/** The signature that cancels an authorization. */
export const cancelSignature = (payer: PrivateKeyAccount, { nonce }: Payment): Promise<Hex> =>
  payer.signTypedData({
    domain: { ...domain, chainId, verifyingContract: asset },
    types: {
      CancelAuthorization: [
        { name: 'authorizer', type: 'address' },
        { name: 'nonce', type: 'bytes32' },
      ],
    },
    primaryType: 'CancelAuthorization',
    message: { authorizer: payer.address, nonce: nonce as Hex },
  })

/** Longer than anything waits for a transaction that another node may look after. */
export const LONG_MS = 13 * SECOND
export const VOID_MS = 400 * SECOND

export const stranger = () => privateKeyToAccount(generatePrivateKey())
/** Every transaction that was signed, with the attempt of the first purpose it carries. */
export const txsOf = (sql: Sql) =>
  sql`select t.nonce, c.attempt, c.carried, t.state, t.replaced_by is not null as replaced
      from settler_txs t join (select nonce, min(attempt) as attempt, count(*)::int as carried
        from settler_carries group by nonce) c on c.nonce = t.nonce
    order by t.nonce, t.created_at`
/** Time goes by on the chain and here. */
export async function elapse({ chain, clock }: World, ms: number): Promise<void> {
  clock.pass(ms)
  await chain.client.increaseTime({ seconds: ms / SECOND })
  await chain.mine(1)
}

/** The call that cancels an authorization. */
export const tokenCallOfCancel = (from: string, nonce: string, signature: string) => {
  const v = Number.parseInt(signature.slice(130, 132), 16)
  const [r, s] = [signature.slice(0, 66), `0x${signature.slice(66, 130)}`]
  return tokenCall('cancelAuthorization', [from, nonce, v, r, s]).data
}

export const pending = async ({ chain }: World): Promise<number> =>
  (await chain.client.getTxpoolStatus()).pending
/** Looks until it is so; the limit of the whole test ends it. */
export async function until(test: () => Promise<boolean>): Promise<void> {
  while (!(await test())) await new Promise((resolve) => setImmediate(resolve))
}
