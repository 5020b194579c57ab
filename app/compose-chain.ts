import { evmClient } from '../chain/evm.ts'
import { NETWORKS } from '../chain/networks.ts'
import { recoveryPool } from '../chain/recovery.ts'
import { solanaLook } from '../chain/solana-look.ts'
import { solanaRpc } from '../chain/solana-rpc.ts'
import { accountOf, receiptOf } from '../chain/transactions.ts'
import { facilitatorClient } from '../chain/x402/facilitator.ts'
import { blockHash, heads } from '../chain/deposits.ts'
import type { Runtime } from '../actors/runtime.ts'
import { SECOND, type Clock } from '../core/clock.ts'
import { finalityJob } from '../jobs/finality-watch.ts'
import { chains, WrongTokenError, type Chains } from '../payments/chains.ts'
import { finalityWatch, type FinalityWatch } from '../payments/finality.ts'
import { paying } from '../payments/pay.ts'
import type { Paying } from '../payments/paying.ts'
import { settler, type Settler } from '../payments/settler.ts'
import { verification } from '../payments/verification.ts'
import type { CallLog } from '../persistence/call-log.ts'
import { finalityStore } from '../persistence/finality.ts'
import type { Sql } from '../persistence/plane.ts'
import { settlementStore, type SettlementStore } from '../persistence/settlements.ts'
import { settlerLane } from '../persistence/settler-lane.ts'
import { walletStore } from '../persistence/wallets.ts'
import { ConfigError, type Config } from './config.ts'

export interface ChainParts {
  readonly config: Config
  readonly publicUrl: string
  readonly clock: Clock
  readonly sql: Sql
  readonly actors: Runtime
  readonly callLog: CallLog
  /** Signs MPP challenges where the operator has set no secret. */
  readonly mppSecret: string
  readonly log: (message: string, error: unknown) => void
}

/** Everything of this station that touches a chain. */
export interface ChainSide {
  readonly chains: Chains
  readonly settler: Settler
  /** What the routes reach of it. */
  readonly served: {
    readonly paying: Paying
    readonly rails: Chains['status']
    readonly settlements: SettlementStore
  }
  close(): Promise<void>
}

const CHECK_EVERY_MS = 10 * SECOND
/** A chain that is slow to answer does not hold up the start: it comes on later. */
const START_MS = 2 * SECOND

/** Builds the chains of the settings, the settler and the ways to pay over them. */
export async function composeChain(parts: ChainParts): Promise<ChainSide> {
  const { config, clock, publicUrl, sql, actors, callLog, log } = parts
  const made = chainsOf(parts)
  await checked(made, log)
  const watch = setInterval(() => {
    made.check().catch((error: unknown) => log('a chain is not usable', error))
  }, CHECK_EVERY_MS)
  watch.unref()
  const settlements = settlementStore(sql)
  const settling = settlerOf(parts, made, settlements)
  const recovery = recoveryPool()
  const finality = finalityJob({ watches: watchesOf(parts, made, settling), log })
  return {
    chains: made,
    settler: settling,
    served: {
      paying: paying({
        clock,
        publicUrl,
        actors,
        callLog,
        log,
        chains: made,
        settlements,
        settler: settling,
        verify: verification(made, recovery, walletStore(sql).custodial),
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

function chainsOf({ config, clock, publicUrl, mppSecret, log }: ChainParts): Chains {
  const { rpc, treasury, treasurySolana, settlerKey, facilitatorUrl, ...rest } = config.chain
  const on = (name: 'base' | 'bsc' | 'tempo') => {
    const url = rpc[name]?.reveal()
    if (url === undefined) return null
    return evmClient({ rpcUrl: url, chainId: NETWORKS[name].chainId })
  }
  const [base, bsc, tempo] = [on('base'), on('bsc'), on('tempo')]
  const secret = rest.mppSecret?.reveal() ?? mppSecret
  return chains({
    base: base === null ? null : { client: base, usdc: rest.usdcBase },
    usdcBase: rest.usdcBase,
    bsc: bsc === null ? null : { client: bsc },
    tempo: tempo === null ? null : { client: tempo, currency: rest.mppCurrency, secret },
    solana:
      facilitatorUrl === null || treasurySolana === null
        ? null
        : {
            facilitator: facilitatorClient({ url: facilitatorUrl, clock, send: fetch }),
            payTo: treasurySolana,
          },
    treasury,
    settler: settlerKey === null ? null : accountOf(settlerKey.reveal()).address.toLowerCase(),
    realm: new URL(publicUrl).host,
    log,
  })
}

/** What was booked from a chain whose blocks may be replaced is watched until they may not. */
function watchesOf(
  { sql, clock, actors, log }: ChainParts,
  { settings }: Chains,
  { kick }: Pick<Settler, 'kick'>,
): ReadonlyMap<string, FinalityWatch> {
  const store = finalityStore(sql)
  const made = new Map<string, FinalityWatch>()
  for (const chain of ['base', 'bsc'] as const) {
    const client = settings[chain]?.client
    const { settler: address } = settings
    if (client === undefined || address === null) continue
    const source = {
      heads: () => heads(client),
      blockHash: (block: bigint) => blockHash(client, block),
      receiptOf: (tx: string) => receiptOf(client, tx as `0x${string}`),
      sentCount: () =>
        client.getTransactionCount({ address: address as `0x${string}`, blockTag: 'latest' }),
    }
    made.set(
      chain,
      finalityWatch({ chain, source, store, actors, settler: address, kick, clock, log }),
    )
  }
  return made
}

/** Rejects when the configured token is another one on its chain: nothing must be signed for it. */
async function checked(made: Chains, log: ChainParts['log']): Promise<void> {
  let late: NodeJS.Timeout | undefined
  const patience = new Promise<void>((resolve) => {
    late = setTimeout(resolve, START_MS)
  })
  const check = made.check()
  let started = false
  check.catch((error: unknown) => {
    if (started) log('a chain is not usable', error)
  })
  try {
    await Promise.race([check, patience])
  } catch (error) {
    throw error instanceof WrongTokenError ? new ConfigError([error.message]) : error
  } finally {
    started = true
    clearTimeout(late)
  }
}

function settlerOf(
  { config, clock, sql, actors, log }: ChainParts,
  { settings, token }: Chains,
  store: SettlementStore,
): Settler {
  const key = config.chain.settlerKey
  const account = key === null ? null : accountOf(key.reveal())
  const solanaRpcUrl = config.chain.rpc.solana?.reveal()
  const { asset, domain, chainId } = NETWORKS.bsc
  const { base, bsc } = settings
  return settler({
    actors,
    store,
    lane: settlerLane(sql),
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
        : solanaLook(solanaRpc({ rpcUrl: solanaRpcUrl, send: fetch })),
    log,
  })
}
