import { setTimeout as wait } from 'node:timers/promises'
import {
  readTokenHoldings,
  findBlockHash,
  readLatestAndFinalBlocks,
  readIncomingTransfers,
} from '../../../chain/evm/incoming-token-transfers.ts'
import { createEvmClient } from '../../../chain/evm/evm-client.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { createCustodialWallet } from '../../../chain/custody/custodial-wallets.ts'
import { parseMasterKey, deriveEncryptionKey } from '../../../core/key-derivation-and-encryption.ts'
import { fromUsdc, ZERO_MICROS } from '../../../core/money.ts'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { getAgentBalanceAndDepositsCommand } from '../../../payments/commands/agent-balance-and-pending-deposits-query.ts'
import {
  createDepositScanner,
  type DepositScannerDeps,
  type DepositChainSource,
} from '../../../payments/deposits/deposit-scanner.ts'
import { createDepositStore } from '../../../persistence/payments/deposit-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createWalletStore } from '../../../persistence/payments/wallet-store.ts'
import type { LocalChain } from '../chain/local-chain.ts'
import type { TestActorNode } from '../actors/test-actor-node.ts'

/** Agents with deposit wallets, and deposit watchers over local chains. */

export const TEST_WALLET_SEALING_KEY = deriveEncryptionKey(
  parseMasterKey(Buffer.alloc(32, 5).toString('base64')),
  'wallet',
)

export const usdcToMicrosBigint = (amount: number): bigint => fromUsdc(amount)

interface WalletOwnerOptions {
  readonly referrer?: string
}

/** Creates an agent with a wallet, optionally referred by another. */
export async function createAgentWithDepositWallet(
  on: TestActorNode,
  sql: Sql,
  { referrer }: WalletOwnerOptions = {},
) {
  const id = await on.born(0)
  if (referrer !== undefined) {
    const gone = crypto.randomUUID()
    await on.ask(gone, createReferredAgent, { referrer }, { fresh: true })
    return { id: gone, address: await insertWallet(sql, gone) }
  }
  return { id, address: await insertWallet(sql, id) }
}

const createReferredAgent: AggregateCommand<{ referrer: string }, void> = {
  name: 'agent.referred',
  kind: 'agent',
  creates: true,
  apply(turn, { referrer }) {
    const agentId = turn.aggregateId
    turn.create('agent', agentId, { agentId, promo: ZERO_MICROS, cash: ZERO_MICROS, referrer })
  },
}

/** Inserts an active wallet; returns its address in lower case. */
async function insertWallet(sql: Sql, agentId: string): Promise<string> {
  const { address, sealed, keyId } = createCustodialWallet(TEST_WALLET_SEALING_KEY, agentId)
  await sql`insert into wallets values (${agentId}, ${address}, ${sealed}, ${keyId}, now(), 'active')`
  return address.toLowerCase()
}

/** The chain source of the service; `altered` overrides some of its methods. */
export function createTestDepositChainSource(
  chain: LocalChain,
  altered: Partial<DepositChainSource> = {},
): DepositChainSource {
  const client = evmClientOf(chain)
  return {
    heads: () => readLatestAndFinalBlocks(client),
    blockHash: (block) => findBlockHash(client, block),
    transfersTo: (addresses, from, to) =>
      readIncomingTransfers(client, chain.usdc, addresses, from, to),
    balancesOf: (addresses, block) => readTokenHoldings(client, chain.usdc, addresses, block),
    ...altered,
  }
}

export const evmClientOf = ({ rpcUrl, chainId }: LocalChain) => createEvmClient({ rpcUrl, chainId })
export const usdcTokenDomainOf = ({ usdc: address, chainId }: LocalChain) => ({
  address,
  ...PAYMENT_NETWORKS.base.domain,
  chainId,
})

/** Creates a deposit watcher whose wake-ups and messages go to one node. */
export function createTestDepositWatcher(
  on: TestActorNode,
  sql: Sql,
  source: DepositChainSource,
  more: Partial<DepositScannerDeps> = {},
) {
  const watch = createDepositScanner({
    chain: 'base',
    source,
    store: createDepositStore(sql),
    wallets: createWalletStore(sql),
    wake: (agentId) => on.wake(agentId, 'agent'),
    clock: { now: () => Date.now() },
    log: (message, error) => void on.logged.push({ message, error }),
    ...more,
  })
  return {
    ...watch,
    /** Polls until there is nothing more to read. */
    async catchUp(): Promise<void> {
      while ((await watch.look()).more);
    },
  }
}

/** Cash, promotional credits and pending deposits below the minimum, in USDC. */
export async function readCreditBalances(on: Pick<TestActorNode, 'ask'>, agentId: string) {
  const { cash, promo, pending } = await on.ask(agentId, getAgentBalanceAndDepositsCommand, {})
  return [cash, promo, pending].map((amount) => Number(amount) / 1e6)
}

/** Repeats a request until the reply is as expected; the timeout of the test ends it. */
export async function requestUntilReplyMatches<T>(
  ask: () => Promise<T>,
  holds: (answer: T) => boolean,
): Promise<T> {
  for (;;) {
    const answer = await ask()
    if (holds(answer)) return answer
    await wait(20)
  }
}
