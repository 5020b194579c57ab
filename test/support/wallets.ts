import { setTimeout as wait } from 'node:timers/promises'
import { balancesOf, blockHash, heads, transfersTo } from '../../chain/deposits.ts'
import { evmClient } from '../../chain/evm.ts'
import { NETWORKS } from '../../chain/networks.ts'
import { createWallet } from '../../chain/wallets.ts'
import { masterKey, sealingKey } from '../../core/crypto.ts'
import { fromUsdc, ZERO } from '../../core/money.ts'
import type { Command } from '../../actors/command.ts'
import { funds } from '../../payments/commands/funds.ts'
import { depositWatch, type DepositParts, type DepositSource } from '../../payments/deposits.ts'
import { depositStore } from '../../persistence/deposits.ts'
import type { Sql } from '../../persistence/plane.ts'
import { walletStore } from '../../persistence/wallets.ts'
import type { LocalChain } from '../../scripts/chain/local-chain.ts'
import type { Node } from './runtime.ts'

export const sealing = sealingKey(masterKey(Buffer.alloc(32, 5).toString('base64')), 'wallet')

export const usdc = (amount: number): bigint => fromUsdc(amount)

interface Born {
  readonly referrer?: string
}

/** An agent with nothing but a wallet, perhaps referred by another. */
export async function walletOwner(on: Node, sql: Sql, { referrer }: Born = {}) {
  const id = await on.born(0)
  if (referrer !== undefined) {
    const gone = crypto.randomUUID()
    await on.ask(gone, referred, { referrer }, { fresh: true })
    return { id: gone, address: await walletOf(sql, gone) }
  }
  return { id, address: await walletOf(sql, id) }
}

const referred: Command<{ referrer: string }, void> = {
  name: 'agent.referred',
  kind: 'agent',
  creates: true,
  apply(turn, { referrer }) {
    const agentId = turn.aggregateId
    turn.create('agent', agentId, { agentId, promo: ZERO, cash: ZERO, referrer })
  },
}

/** The address of a new active wallet, in lower case. */
async function walletOf(sql: Sql, agentId: string): Promise<string> {
  const { address, sealed, keyId } = createWallet(sealing, agentId)
  await sql`insert into wallets values (${agentId}, ${address}, ${sealed}, ${keyId}, now(), 'active')`
  return address.toLowerCase()
}

/** The chain as the service reads it; `altered` replaces some of its answers. */
export function sourceOf(chain: LocalChain, altered: Partial<DepositSource> = {}): DepositSource {
  const client = clientOf(chain)
  return {
    heads: () => heads(client),
    blockHash: (block) => blockHash(client, block),
    transfersTo: (addresses, from, to) => transfersTo(client, chain.usdc, addresses, from, to),
    balancesOf: (addresses, block) => balancesOf(client, chain.usdc, addresses, block),
    ...altered,
  }
}

export const clientOf = ({ rpcUrl, chainId }: LocalChain) => evmClient({ rpcUrl, chainId })
export const tokenOf = ({ usdc: address, chainId }: LocalChain) => ({
  address,
  ...NETWORKS.base.domain,
  chainId,
})

/** A watcher of one node; what it wakes and says is that node's. */
export function watcher(
  on: Node,
  sql: Sql,
  source: DepositSource,
  more: Partial<DepositParts> = {},
) {
  const watch = depositWatch({
    chain: 'base',
    source,
    store: depositStore(sql),
    wallets: walletStore(sql),
    wake: (agentId) => on.wake(agentId, 'agent'),
    clock: { now: () => Date.now() },
    log: (message, error) => void on.logged.push({ message, error }),
    ...more,
  })
  return {
    ...watch,
    /** Looks until there is nothing more to read. */
    async catchUp(): Promise<void> {
      while ((await watch.look()).more);
    },
  }
}

/** Cash, promotional credits and what waits below the minimum, in USDC. */
export async function purseOf(on: Pick<Node, 'ask'>, agentId: string) {
  const { cash, promo, pending } = await on.ask(agentId, funds, {})
  return [cash, promo, pending].map((amount) => Number(amount) / 1e6)
}

/** Asks again until the answer is as it should become; the time limit of the test is its end. */
export async function until<T>(ask: () => Promise<T>, holds: (answer: T) => boolean): Promise<T> {
  for (;;) {
    const answer = await ask()
    if (holds(answer)) return answer
    await wait(20)
  }
}
