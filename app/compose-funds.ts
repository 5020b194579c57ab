import { balancesOf, blockHash, heads, transfersTo } from '../chain/deposits.ts'
import type { EvmClient } from '../chain/evm.ts'
import { NETWORKS } from '../chain/networks.ts'
import type { Runtime } from '../actors/runtime.ts'
import type { Clock } from '../core/clock.ts'
import type { SealingKeys } from '../core/crypto.ts'
import { depositScan, NO_DEPOSITS } from '../jobs/deposit-scan.ts'
import type { Chains } from '../payments/chains.ts'
import { depositWatch, type DepositSource } from '../payments/deposits.ts'
import { funding } from '../payments/funding.ts'
import type { Settler } from '../payments/settler.ts'
import { sweeper, type Sweeper } from '../payments/sweep.ts'
import { createUnconfirmedDeposits } from '../payments/unconfirmed-deposits.ts'
import { walletExports } from '../payments/wallet-export.ts'
import { depositStore } from '../persistence/deposits.ts'
import type { Sql } from '../persistence/plane.ts'
import { sweepStore } from '../persistence/sweeps.ts'
import { walletStore } from '../persistence/wallets.ts'

export interface FundsParts {
  readonly sql: Sql
  readonly clock: Clock
  readonly actors: Pick<Runtime, 'wake'>
  readonly chains: Chains
  readonly settler: Pick<Settler, 'submit'>
  /** Opens the envelopes of the wallets. */
  readonly sealing: SealingKeys
  readonly log: (message: string, error: unknown) => void
}

/** Deposits, wallets and sweeps on Base: what the routes ask, and the job that reads the chain. */
export function composeFunds(parts: FundsParts) {
  const { sql, clock, actors, chains, sealing, log } = parts
  const { base, treasury } = chains.settings
  const [wallets, deposits, sweeps] = [walletStore(sql), depositStore(sql), sweepStore(sql)]
  const { chainId, asset } = NETWORKS.base
  const own = { chain: 'base', clock, log } as const
  const source = base === null ? null : sourceOf(base.client, base.usdc)
  const wake = (agentId: string) => actors.wake(agentId, 'agent')
  const sweeping = sweeperOf(parts, { wallets, sweeps })
  const unconfirmed = source === null ? null : createUnconfirmedDeposits({ source, wallets, log })
  const exporting = walletExports({ ...own, wallets, sweeps, sweeper: sweeping, sealing })
  const scan =
    source === null || unconfirmed === null || treasury === null
      ? null
      : depositScan({
          ...own,
          unconfirmed,
          watch: depositWatch({ ...own, source, store: deposits, wallets, wake }),
          sweeper: sweeping,
        })
  return {
    /** What the routes reach of it. */
    served: {
      deposits,
      walletExports: exporting,
      funding: funding({
        wallets,
        deposits,
        unconfirmed,
        token: base?.usdc ?? asset,
        chainId,
        watching: scan !== null,
        balanceOf: base === null ? null : (address) => balanceOn(base, address),
      }),
      depositHealth: () => scan?.health() ?? NO_DEPOSITS,
    },
    /** Forgets the keys of wallets that were handed over. */
    forget: exporting.forget,
    start: () => scan?.start(),
    stop: async () => scan?.stop(),
  }
}

function sourceOf(client: EvmClient, token: string): DepositSource {
  return {
    heads: () => heads(client),
    blockHash: (block) => blockHash(client, block),
    transfersTo: (addresses, from, to) => transfersTo(client, token, addresses, from, to),
    balancesOf: (addresses, block) => balancesOf(client, token, addresses, block),
  }
}

async function balanceOn(base: { client: EvmClient; usdc: string }, address: string) {
  const balances = await balancesOf(base.client, base.usdc, [address])
  return balances.get(address.toLowerCase()) ?? 0n
}

/** Nothing can be moved without a treasury to move it to and a key that pays the gas. */
function sweeperOf(
  { chains, settler, sealing, clock, log }: FundsParts,
  stores: { wallets: ReturnType<typeof walletStore>; sweeps: ReturnType<typeof sweepStore> },
): Sweeper | null {
  const { token, settings } = chains
  const { base, treasury } = settings
  if (base === null || token === null || treasury === null || settings.settler === null) return null
  return sweeper({
    chain: 'base',
    client: base.client,
    token,
    treasury,
    store: stores.sweeps,
    wallets: stores.wallets,
    sealing,
    submit: (purpose, call) => settler.submit({ ...call, chain: 'base', purpose }),
    clock,
    log,
  })
}
