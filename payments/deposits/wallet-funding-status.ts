import { SECOND } from '../../core/clock.ts'
import type {
  PublicAgentFundingInfo,
  FundingPageData,
} from '../../domain/agent-funding-info-and-instructions.ts'
import { asMicros, type Micros } from '../../core/money.ts'
import type { DepositRecord, DepositStore } from '../../persistence/payments/deposit-store.ts'
import type { WalletStore } from '../../persistence/payments/wallet-store.ts'
import type { UnconfirmedDeposit, UnconfirmedDepositCache } from './unconfirmed-deposits.ts'

/** The funding status of an agent's wallet, for the agent and for the public funding page. */

export interface WalletFundingStatusDeps {
  readonly wallets: Pick<WalletStore, 'current' | 'shown' | 'bonusLeft'>
  readonly deposits: Pick<DepositStore, 'listOf'>
  /** Null if the chain is not read. */
  readonly unconfirmed: Pick<UnconfirmedDepositCache, 'to'> | null
  readonly token: string
  readonly chainId: number
  /** Whether deposits are scanned; if not, nobody should send any. */
  readonly watching: boolean
  /** Balance of an address on the chain, in atomic units; null without a chain connection. */
  readonly balanceOf: ((address: string) => Promise<bigint>) | null
}

/** More than the newest blocks bring to one wallet. */
const MAX_RECENT_DEPOSITS = 20

/** An unresponsive chain must not delay the rest of the status. */
const CHAIN_TIMEOUT_MS = 2 * SECOND

/** Creates the reader of wallet status and balance. */
export function createWalletFundingStatusReader(parts: WalletFundingStatusDeps) {
  const { wallets, deposits, unconfirmed, token, chainId, watching, balanceOf } = parts

  /** Null if the agent does not exist. Reads rows only: a public page loads no agent. */
  async function status(
    agentId: string,
  ): Promise<(PublicAgentFundingInfo & { name: string }) | null> {
    const [agent, wallet, recent] = await Promise.all([
      wallets.shown(agentId),
      wallets.current(agentId),
      deposits.listOf(agentId, MAX_RECENT_DEPOSITS, null),
    ])
    if (agent === null) return null
    const address = wallet?.status === 'active' ? wallet.address : null
    const takes = address === null ? ('paused' as const) : ('on' as const)
    const seen = address === null || unconfirmed === null ? [] : unconfirmed.to(address)
    // Between two reads a deposit that was just booked is still among the newest transfers.
    const incoming = seen.filter((one) => !recent.some((deposit) => isSameTransfer(deposit, one)))
    const [lastDeposit = null] = recent
    return { ...agent, address, deposits: watching ? takes : 'off', incoming, lastDeposit }
  }

  return {
    token,
    chainId,
    /** Whether this station takes deposits. */
    watching,
    status,
    bonusLeft: wallets.bonusLeft,

    async view(agentId: string): Promise<FundingPageData | null> {
      const known = await status(agentId)
      return known === null ? null : { ...known, agentId, token, chainId }
    },

    /** Current balance of an address on the chain; null if the chain is off or does not answer. */
    async onChain(address: string): Promise<Micros | null> {
      if (balanceOf === null) return null
      let late: NodeJS.Timeout | undefined
      const patience = new Promise<null>((resolve) => {
        late = setTimeout(resolve, CHAIN_TIMEOUT_MS, null)
      })
      const asked = balanceOf(address).then(asMicros, () => null)
      return Promise.race([asked, patience]).finally(() => clearTimeout(late))
    },
  }
}

/** Whether both are the same transfer; one that a reorg has undone may appear again. */
const isSameTransfer = (deposit: DepositRecord, { tx, logIndex }: UnconfirmedDeposit): boolean =>
  deposit.state !== 'reorged' && deposit.tx === tx && deposit.logIndex === logIndex

export type WalletFundingStatusReader = ReturnType<typeof createWalletFundingStatusReader>
