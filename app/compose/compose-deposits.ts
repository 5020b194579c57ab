import {
  readTokenHoldings,
  findBlockHash,
  readLatestAndFinalBlocks,
  readIncomingTransfers,
} from '../../chain/evm/incoming-token-transfers.ts'
import type { EvmClient } from '../../chain/evm/evm-client.ts'
import { PAYMENT_NETWORKS } from '../../chain/payment-networks.ts'
import type { ActorRuntime } from '../../actors/actor-runtime.ts'
import type { Clock } from '../../core/clock.ts'
import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import { createDepositScanJob, DEPOSITS_DISABLED_HEALTH } from '../../jobs/deposit-scan-job.ts'
import type { PaymentChains } from '../../payments/payment-chains.ts'
import {
  createDepositScanner,
  type DepositChainSource,
} from '../../payments/deposits/deposit-scanner.ts'
import { createWalletFundingStatusReader } from '../../payments/deposits/wallet-funding-status.ts'
import type { Settler } from '../../payments/settlement/settler.ts'
import { createWalletSweeper, type WalletSweeper } from '../../payments/deposits/wallet-sweeper.ts'
import { createUnconfirmedDepositCache } from '../../payments/deposits/unconfirmed-deposits.ts'
import { createWalletExportService } from '../../payments/deposits/wallet-export.ts'
import { createDepositStore } from '../../persistence/payments/deposit-store.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { createWalletSweepStore } from '../../persistence/payments/wallet-sweep-store.ts'
import { createWalletStore } from '../../persistence/payments/wallet-store.ts'

/** Composes deposits, wallets and sweeps on Base. */

export interface ComposeDepositsDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly actors: Pick<ActorRuntime, 'wake'>
  readonly chains: PaymentChains
  readonly settler: Pick<Settler, 'submit'>
  /** Decrypts the wallet keys. */
  readonly sealing: EncryptionKeys
  readonly log: (message: string, error: unknown) => void
}

/** Creates the wallet services of the routes and the job that scans the chain. */
export function composeDeposits(parts: ComposeDepositsDeps) {
  const { sql, clock, actors, chains, sealing, log } = parts
  const { base, treasury } = chains.settings
  const [wallets, deposits, sweeps] = [
    createWalletStore(sql),
    createDepositStore(sql),
    createWalletSweepStore(sql),
  ]
  const { chainId, asset } = PAYMENT_NETWORKS.base
  const own = { chain: 'base', clock, log } as const
  const source = base === null ? null : sourceOf(base.client, base.usdc)
  const wake = (agentId: string) => actors.wake(agentId, 'agent')
  const sweeping = sweeperOf(parts, { wallets, sweeps })
  const unconfirmed =
    source === null ? null : createUnconfirmedDepositCache({ source, wallets, log })
  const exporting = createWalletExportService({
    ...own,
    wallets,
    sweeps,
    sweeper: sweeping,
    sealing,
  })
  const scan =
    source === null || unconfirmed === null || treasury === null
      ? null
      : createDepositScanJob({
          ...own,
          unconfirmed,
          watch: createDepositScanner({ ...own, source, store: deposits, wallets, wake }),
          sweeper: sweeping,
        })
  return {
    /** Services for the routes. */
    served: {
      deposits,
      walletExports: exporting,
      funding: createWalletFundingStatusReader({
        wallets,
        deposits,
        unconfirmed,
        token: base?.usdc ?? asset,
        chainId,
        watching: scan !== null,
        balanceOf: base === null ? null : (address) => balanceOn(base, address),
      }),
      depositHealth: () => scan?.health() ?? DEPOSITS_DISABLED_HEALTH,
    },
    /** Deletes the keys of exported wallets. */
    forget: exporting.forget,
    start: () => scan?.start(),
    stop: async () => scan?.stop(),
  }
}

function sourceOf(client: EvmClient, token: string): DepositChainSource {
  return {
    heads: () => readLatestAndFinalBlocks(client),
    blockHash: (block) => findBlockHash(client, block),
    transfersTo: (addresses, from, to) => readIncomingTransfers(client, token, addresses, from, to),
    balancesOf: (addresses, block) => readTokenHoldings(client, token, addresses, block),
  }
}

async function balanceOn(base: { client: EvmClient; usdc: string }, address: string) {
  const balances = await readTokenHoldings(base.client, base.usdc, [address])
  return balances.get(address.toLowerCase()) ?? 0n
}

/** Null without a treasury or a settler key that pays gas. */
function sweeperOf(
  { chains, settler, sealing, clock, log }: ComposeDepositsDeps,
  stores: {
    wallets: ReturnType<typeof createWalletStore>
    sweeps: ReturnType<typeof createWalletSweepStore>
  },
): WalletSweeper | null {
  const { token, settings } = chains
  const { base, treasury } = settings
  if (base === null || token === null || treasury === null || settings.settler === null) return null
  return createWalletSweeper({
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
