import { performance } from 'node:perf_hooks'
import type { Test } from 'tap'
import { encodeFunctionData, type PrivateKeyAccount } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createEvmClient } from '../../../chain/evm/evm-client.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import type { HexString, NormalizedPayment } from '../../../chain/onchain-payment-types.ts'
import { accountFromPrivateKey } from '../../../chain/evm/settler-evm-transactions.ts'
import { signEip3009Authorization, eip3009TransferCall } from '../../../chain/evm/eip3009.ts'
import { SECOND, type Clock } from '../../../core/clock.ts'
import {
  deliverPaidCallsCommand,
  type PaymentClaimInput,
} from '../../../payments/commands/payment-claim-commands.ts'
import { createSettler, type SettlerDeps } from '../../../payments/settlement/settler.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createSettlementQueries } from '../../../persistence/payments/settlement-queries.ts'
import { createSettlerTransactionStore } from '../../../persistence/payments/settler-transaction-store.ts'
import { contractArtifacts, startLocalBase, type LocalChain } from '../chain/local-chain.ts'
import { assertJournalMatchesActorsAtTestEnd } from '../ledger/compare-journal-with-actors-at-test-end.ts'
import { createTestDatabase } from '../postgres/test-database.ts'
import { startRpcFaultProxy } from '../chain/rpc-fault-proxy.ts'
import {
  runSettlementCommand,
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  samplePaidCallOutcome,
  samplePayment,
  PAYMENT_TIMER_COMMANDS,
  TEST_TREASURY,
} from './sample-payment-claims.ts'
import { toSettlementId } from '../../../payments/commands/payment-claim-commands.ts'
import { createTestActorNode } from '../actors/test-actor-node.ts'

/** The real time plus an offset. */
export function createOffsetClock(): Clock & { pass(ms: number): void } {
  let ahead = 0
  return {
    now: () => Date.now() + ahead,
    mono: () => performance.now() + ahead,
    adjust: () => {},
    setJumpBaseline: () => {},
    hasJumped: () => false,
    pass: (ms) => void (ahead += ms),
  }
}

const { asset, chainId, domain } = PAYMENT_NETWORKS.base
const token = { address: asset, chainId, ...domain }

interface SettlerScenarioOptions {
  readonly nodes?: number
  readonly gas?: bigint
  readonly receiptMs?: number
}

/** A chain, a settlement key, and nodes over one database. */
export async function startSettlerScenario(t: Test, options: SettlerScenarioOptions = {}) {
  const { nodes = 1, gas = 10n ** 18n, receiptMs = 3_000 } = options
  const chain = await startLocalBase()
  t.teardown(() => chain.stop())
  const gate = await startRpcFaultProxy(t, chain.rpcUrl)
  const clock = createOffsetClock()
  const { sql } = await createTestDatabase(t)
  assertJournalMatchesActorsAtTestEnd(t, sql)
  const account = accountFromPrivateKey(generatePrivateKey())
  await chain.fund(account.address, gas)
  const store = createSettlementQueries(sql)
  const logged: string[] = []
  const all = Array.from({ length: nodes }, () => {
    const actors = createTestActorNode(t, sql, { clock, timerCommands: PAYMENT_TIMER_COMMANDS })
    const client = createEvmClient({ rpcUrl: gate.url, chainId, timeoutMs: 5_000 })
    const parts: SettlerDeps = {
      actors,
      store,
      transactions: createSettlerTransactionStore(sql),
      clock,
      base: { client, account, token },
      bsc: null,
      tempo: null,
      facilitator: null,
      log: (message, error) => void logged.push(`${message}: ${String(error)}`),
      receiptMs,
      sweepMs: null,
    }
    const made = createSettler(parts)
    t.teardown(() => made.close())
    return { actors, settler: made, parts }
  })
  const [one] = all as [(typeof all)[number]]
  const find = (claimed: PaymentClaimInput) => store.find(toSettlementId(claimed.payment))
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
    async stateOf(claimed: PaymentClaimInput): Promise<string> {
      const found = await find(claimed)
      return `${found?.money}/${found?.delivery}`
    },
    /** Number of mined transactions of the settler. */
    sent: () => chain.client.getTransactionCount({ address: account.address }),
    /** Claims a payment of a new funded payer; delivered unless it settles first. */
    async paid(usdc: number, how: Partial<PaymentVariant> = {}) {
      const made = await signedPayment(chain, usdc, how)
      const claimed = samplePaymentClaimInput(made.payment, {
        mode: how.mode ?? 'optimistic',
        ...(how.purpose === undefined ? {} : { purpose: how.purpose }),
        balanceBlock: await chain.client.getBlockNumber(),
        balance: made.payment.amount,
      })
      await claimPaymentOnTestNode(one.actors, claimed)
      if (how.mode !== 'first' && how.delivered !== false)
        await runSettlementCommand(
          one.actors,
          claimed,
          deliverPaidCallsCommand,
          samplePaidCallOutcome(claimed),
        )
      return { ...made, claimed, id: toSettlementId(made.payment) }
    },
  }
}
export type SettlerScenario = Awaited<ReturnType<typeof startSettlerScenario>>

interface PaymentVariant {
  readonly mode: 'optimistic' | 'first'
  readonly delivered: boolean
  readonly seconds: number
  readonly balance: bigint
  readonly purpose: PaymentClaimInput['purpose']
}

async function signedPayment(chain: LocalChain, usdc: number, how: Partial<PaymentVariant>) {
  const payer = privateKeyToAccount(generatePrivateKey())
  const { timestamp } = await chain.client.getBlock()
  const later = BigInt(Math.max(Math.floor(Date.now() / 1000), Number(timestamp)))
  const validBefore = later + BigInt(how.seconds ?? 300)
  const unsigned = samplePayment(usdc, { from: payer.address.toLowerCase(), validBefore })
  await chain.mint(payer.address, how.balance ?? unsigned.amount)
  const signature = await signEip3009Authorization(payer, token, authorizationOf(unsigned))
  return {
    payer,
    payment: { ...unsigned, proof: { kind: 'eip3009', signature } } satisfies NormalizedPayment,
  }
}

const authorizationOf = ({
  from,
  amount: value,
  validAfter,
  validBefore,
  nonce,
}: NormalizedPayment) => ({
  from,
  to: TEST_TREASURY,
  value,
  validAfter,
  validBefore,
  nonce: nonce as HexString,
})

export const settlementTransferCallOf = (payment: NormalizedPayment) => {
  if (payment.proof.kind !== 'eip3009') throw new Error('no authorization')
  return eip3009TransferCall(token, authorizationOf(payment), payment.proof.signature)
}

/** Sends from a given account after funding its gas; waits for the block. */
export async function sendTransactionFrom(
  chain: LocalChain,
  from: PrivateKeyAccount,
  call: { to: string; data: HexString },
  more: { wait?: boolean; tip?: bigint; gas?: bigint } = {},
) {
  await chain.fund(from.address, 10n ** 18n)
  const { to, data } = call
  const tip = more.tip ?? 10n ** 9n
  const hash = await chain.client.sendTransaction({
    account: from,
    to: to as HexString,
    data,
    gas: more.gas ?? 200_000n,
    maxPriorityFeePerGas: tip,
    maxFeePerGas: tip + 10n ** 11n,
    chain: chain.client.chain,
  })
  if (more.wait !== false) await chain.client.waitForTransactionReceipt({ hash })
  return hash
}

/** Encodes a call of the token by function name. */
export const encodeTokenCall = (functionName: string, args: readonly unknown[]) => ({
  to: asset,
  data: encodeFunctionData({ abi: contractArtifacts.MockUSDC.abi, functionName, args: [...args] }),
})

/** Signs the cancellation of an authorization. */
export const signAuthorizationCancellation = (
  payer: PrivateKeyAccount,
  { nonce }: Pick<NormalizedPayment, 'nonce'>,
): Promise<HexString> =>
  payer.signTypedData({
    domain: { ...domain, chainId, verifyingContract: asset },
    types: {
      CancelAuthorization: [
        { name: 'authorizer', type: 'address' },
        { name: 'nonce', type: 'bytes32' },
      ],
    },
    primaryType: 'CancelAuthorization',
    message: { authorizer: payer.address, nonce: nonce as HexString },
  })

/** Longer than the time for which a node leaves a transaction to another node. */
export const SETTLER_TRANSACTION_HANDOVER_MS = 13 * SECOND
export const AUTHORIZATION_LIFETIME_MS = 400 * SECOND

export const createRandomEvmAccount = () => privateKeyToAccount(generatePrivateKey())
/** All signed transactions, with the attempt number of their first purpose. */
export const listSettlerTransactions = (sql: Sql) =>
  sql`select t.nonce, c.attempt, c.carried, t.state, t.replaced_by is not null as replaced
      from settler_txs t join (select nonce, min(attempt) as attempt, count(*)::int as carried
        from settler_tx_settlements group by nonce) c on c.nonce = t.nonce
    order by t.nonce, t.created_at`
/** Advances the time of the chain and of the nodes. */
export async function advanceChainAndNodeTime(
  { chain, clock }: SettlerScenario,
  ms: number,
): Promise<void> {
  clock.pass(ms)
  await chain.client.increaseTime({ seconds: ms / SECOND })
  await chain.mine(1)
}

/** Encodes the call that cancels an authorization. */
export const encodeCancelAuthorization = (from: string, nonce: string, signature: string) => {
  const v = Number.parseInt(signature.slice(130, 132), 16)
  const [r, s] = [signature.slice(0, 66), `0x${signature.slice(66, 130)}`]
  return encodeTokenCall('cancelAuthorization', [from, nonce, v, r, s]).data
}

export const countMempoolTransactions = async ({ chain }: SettlerScenario): Promise<number> =>
  (await chain.client.getTxpoolStatus()).pending

const POLL_MS = 5

/** Polls until the condition holds; the timeout of the test ends it. */
export async function pollUntilTrue(test: () => Promise<boolean>): Promise<void> {
  while (!(await test())) await new Promise((resolve) => setTimeout(resolve, POLL_MS))
}
