/** Generated from the catalogue by `npm run docs:sdk`. */
export interface OnchainToolTypes {
  /** Runs a transaction on the latest block without sending it: whether it succeeds, its gas, the cost of the gas and the reason of a revert. */
  tx_simulate: {
    input: {
      readonly chain: 'base' | 'ethereum' | 'arbitrum' | 'optimism' | 'polygon'
      readonly to: string
      readonly calldata?: string
      /** Decimal digits. */
      readonly value_wei?: string
      readonly from?: string
    }
    output: {
      readonly success: boolean
      readonly gas_estimate: number | null
      readonly gas_cost_usdc: number | null
      readonly revert_reason: string | null
      readonly simulation_result: Readonly<Record<string, unknown>>
      readonly chain: string
      readonly chain_id: number
      readonly network: 'mainnet' | 'local-devnet'
    }
  }
  /** Sends a transaction you have signed. A transaction that is already on the chain counts as sent; a rejected one is not charged. */
  tx_broadcast: {
    input: {
      readonly chain: 'base' | 'ethereum' | 'arbitrum' | 'optimism' | 'polygon'
      /** The signed transaction, serialized, in hex. */
      readonly raw_tx: string
    }
    output: {
      readonly tx_hash: string
      readonly status: 'accepted' | 'already_known' | 'included'
      readonly from: string
      readonly to: string | null
      readonly nonce: number
      readonly value_wei: string
      readonly block_number: number | null
      readonly explorer_url: string | null
      readonly chain: string
      readonly chain_id: number
      readonly network: 'mainnet' | 'local-devnet'
    }
  }
  /** Reports on a token of one chain: price, volume and liquidity of its pools, large transfers, properties of its contract, and signals of risk. Unknown values are null. */
  onchain_insight: {
    input: {
      /** Symbol, address or words. */
      readonly query: string
      readonly chain?: 'base' | 'ethereum' | 'arbitrum' | 'optimism' | 'polygon'
    }
    output: {
      readonly token: Readonly<Record<string, unknown>>
      readonly price_usd: number | null
      readonly volume_24h_usd: number | null
      readonly liquidity_usd: number | null
      readonly whale_flows: readonly Readonly<Record<string, unknown>>[]
      readonly dex_pools: readonly Readonly<Record<string, unknown>>[]
      readonly risk_signals: readonly { readonly code: string; readonly severity: string; readonly detail: string }[]
      readonly sources: readonly string[]
      readonly chain: string
      readonly network: string | null
    }
  }
  /** Investigates an address on public chains: ENS name, known owner, age, balances in USD, recent token transfers and flags of risk. */
  wallet_investigate: {
    input: {
      readonly address: string
      readonly chains?: readonly ('base' | 'ethereum' | 'arbitrum' | 'optimism' | 'polygon')[]
    }
    output: {
      readonly address: string
      readonly ens_name: string | null
      readonly entity_label: string | null
      readonly wallet_age_days: number | null
      readonly usd_balance: number | null
      readonly top_tokens: readonly {
        readonly chain: string
        readonly symbol: string
        readonly address: string | null
        readonly amount: number
        readonly usd_value: number | null
      }[]
      readonly recent_txs: readonly {
        readonly chain: string
        readonly tx_hash: string
        readonly block_number: number
        readonly direction: 'in' | 'out'
        readonly token: string
        readonly amount: number
        readonly counterparty: string
      }[]
      readonly risk_flags: readonly string[]
      readonly chains_checked: readonly string[]
      readonly chains_failed: readonly string[]
    }
  }
}
