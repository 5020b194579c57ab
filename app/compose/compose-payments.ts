import { createEvmClient } from '../../chain/evm/evm-client.ts'
import { PAYMENT_NETWORKS } from '../../chain/payment-networks.ts'
import { createSignerRecoveryPool } from '../../chain/evm/signer-recovery-pool.ts'
import { createSolanaPaymentFinder } from '../../chain/solana/find-solana-payment-on-chain.ts'
import { createSolanaRpc } from '../../chain/solana/solana-rpc.ts'
import {
  accountFromPrivateKey,
  findTransactionReceipt,
} from '../../chain/evm/settler-evm-transactions.ts'
import { createFacilitatorClient } from '../../chain/x402/facilitator-client.ts'
import {
  findBlockHash,
  readLatestAndFinalBlocks,
} from '../../chain/evm/incoming-token-transfers.ts'
import type { ActorRuntime } from '../../actors/actor-runtime.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import { startReorgWatchJob } from '../../jobs/finality-and-reorg-watch-job.ts'
import {
  createPaymentChains,
  ConfiguredTokenIsNotUsdcError,
  type PaymentChains,
} from '../../payments/payment-chains.ts'
import {
  createFinalityWatcher,
  type FinalityWatcher,
} from '../../payments/settlement/finality-watcher.ts'
import { createPaymentService } from '../../payments/payment-service.ts'
import type { PaymentService } from '../../payments/payment-service-types.ts'
import { createSettler, type Settler } from '../../payments/settlement/settler.ts'
import { createPaymentVerifier } from '../../payments/payment-verifier.ts'
import type { CallLogStore } from '../../persistence/calls/call-log-store.ts'
import { createFinalityStore } from '../../persistence/payments/finality-store.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import {
  createSettlementQueries,
  type SettlementQueries,
} from '../../persistence/payments/settlement-queries.ts'
import { createSettlerTransactionStore } from '../../persistence/payments/settler-transaction-store.ts'
import { createWalletStore } from '../../persistence/payments/wallet-store.ts'
import { ConfigError, type Config } from '../config.ts'

/** Composes on-chain payments and settlement. */

export interface ComposePaymentsDeps {
  readonly config: Config
  readonly publicUrl: string
  readonly clock: Clock
  readonly sql: Sql
  readonly actors: ActorRuntime
  readonly callLog: CallLogStore
  /** Signs MPP challenges when the operator has set no secret. */
  readonly mppSecret: string
  readonly log: (message: string, error: unknown) => void
}

/** All payment services that use a chain. */
export interface OnChainPaymentServices {
  readonly chains: PaymentChains
  readonly settler: Settler
  /** Services for the routes. */
  readonly served: {
    readonly paying: PaymentService
    readonly rails: PaymentChains['status']
    readonly settlements: SettlementQueries
  }
  close(): Promise<void>
}

const CHECK_EVERY_MS = 10 * SECOND
/** A slow chain does not delay the start; it becomes available later. */
const START_MS = 2 * SECOND

/** Creates the configured chains, the settler and the payment service. */
export async function composePayments(parts: ComposePaymentsDeps): Promise<OnChainPaymentServices> {
  const { config, clock, publicUrl, sql, actors, callLog, log } = parts
  const made = chainsOf(parts)
  await assertChainsUsable(made, log)
  const watch = setInterval(() => {
    made.check().catch((error: unknown) => log('a chain is not usable', error))
  }, CHECK_EVERY_MS)
  watch.unref()
  const settlements = createSettlementQueries(sql)
  const settling = settlerOf(parts, made, settlements)
  const recovery = createSignerRecoveryPool()
  const finality = startReorgWatchJob({ watches: watchesOf(parts, made, settling), log })
  return {
    chains: made,
    settler: settling,
    served: {
      paying: createPaymentService({
        clock,
        publicUrl,
        actors,
        callLog,
        log,
        chains: made,
        settlements,
        settler: settling,
        verify: createPaymentVerifier(made, recovery, createWalletStore(sql).custodial),
        exposure: config.chain.exposure,
      }),
      rails: made.status,
      settlements,
    },
    async close() {
      clearInterval(watch)
      await finality.close()
      await Promise.allSettled([settling.close(), recovery.close()])
    },
  }
}

function chainsOf({
  config,
  clock,
  publicUrl,
  mppSecret,
  log,
}: ComposePaymentsDeps): PaymentChains {
  const { rpc, treasury, treasurySolana, settlerKey, facilitatorUrl, ...rest } = config.chain
  const on = (name: 'base' | 'bsc' | 'tempo') => {
    const url = rpc[name]?.reveal()
    if (url === undefined) return null
    return createEvmClient({ rpcUrl: url, chainId: PAYMENT_NETWORKS[name].chainId })
  }
  const [base, bsc, tempo] = [on('base'), on('bsc'), on('tempo')]
  const secret = rest.mppSecret?.reveal() ?? mppSecret
  return createPaymentChains({
    base: base === null ? null : { client: base, usdc: rest.usdcBase },
    usdcBase: rest.usdcBase,
    bsc: bsc === null ? null : { client: bsc },
    tempo: tempo === null ? null : { client: tempo, currency: rest.mppCurrency, secret },
    solana:
      facilitatorUrl === null || treasurySolana === null
        ? null
        : {
            facilitator: createFacilitatorClient({ url: facilitatorUrl, clock, send: fetch }),
            payTo: treasurySolana,
          },
    treasury,
    settler:
      settlerKey === null ? null : accountFromPrivateKey(settlerKey.reveal()).address.toLowerCase(),
    realm: new URL(publicUrl).host,
    log,
  })
}

/** Watches settlements on chains with reorganizations until they are final. */
function watchesOf(
  { sql, clock, actors, log }: ComposePaymentsDeps,
  { settings }: PaymentChains,
  { kick }: Pick<Settler, 'kick'>,
): ReadonlyMap<string, FinalityWatcher> {
  const store = createFinalityStore(sql)
  const made = new Map<string, FinalityWatcher>()
  for (const chain of ['base', 'bsc'] as const) {
    const client = settings[chain]?.client
    const { settler: address } = settings
    if (client === undefined || address === null) continue
    const source = {
      heads: () => readLatestAndFinalBlocks(client),
      blockHash: (block: bigint) => findBlockHash(client, block),
      receiptOf: (tx: string) => findTransactionReceipt(client, tx as `0x${string}`),
      sentCount: () =>
        client.getTransactionCount({ address: address as `0x${string}`, blockTag: 'latest' }),
    }
    made.set(
      chain,
      createFinalityWatcher({ chain, source, store, actors, settler: address, kick, clock, log }),
    )
  }
  return made
}

/**
 * Throws when the configured token differs from the token on chain: nothing must be signed for it.
 */
async function assertChainsUsable(
  made: PaymentChains,
  log: ComposePaymentsDeps['log'],
): Promise<void> {
  let late: NodeJS.Timeout | undefined
  const timeout = new Promise<void>((resolve) => {
    late = setTimeout(resolve, START_MS)
  })
  const check = made.check()
  let started = false
  check.catch((error: unknown) => {
    if (started) log('a chain is not usable', error)
  })
  try {
    await Promise.race([check, timeout])
  } catch (error) {
    throw error instanceof ConfiguredTokenIsNotUsdcError ? new ConfigError([error.message]) : error
  } finally {
    started = true
    clearTimeout(late)
  }
}

function settlerOf(
  { config, clock, sql, actors, log }: ComposePaymentsDeps,
  { settings, token }: PaymentChains,
  store: SettlementQueries,
): Settler {
  const key = config.chain.settlerKey
  const account = key === null ? null : accountFromPrivateKey(key.reveal())
  const solanaRpcUrl = config.chain.rpc.solana?.reveal()
  const { asset, domain, chainId } = PAYMENT_NETWORKS.bsc
  const { base, bsc } = settings
  return createSettler({
    actors,
    store,
    transactions: createSettlerTransactionStore(sql),
    clock,
    base:
      base === null || account === null || token === null
        ? null
        : { client: base.client, account, token },
    bsc:
      bsc === null || account === null
        ? null
        : { client: bsc.client, account, token: { address: asset, ...domain, chainId } },
    tempo: settings.tempo?.client ?? null,
    facilitator: settings.solana?.facilitator ?? null,
    solanaLook:
      solanaRpcUrl === undefined
        ? null
        : createSolanaPaymentFinder(createSolanaRpc({ rpcUrl: solanaRpcUrl, send: fetch })),
    log,
  })
}
