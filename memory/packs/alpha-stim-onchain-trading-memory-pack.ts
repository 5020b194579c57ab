import type { MemoryPackContentEntry } from './memory-pack-entry.ts'

/** Costs and failures of on-chain trading: formulas an agent can compute before it acts. */
export const ALPHA_STIM_ONCHAIN_TRADING_PACK_ENTRIES: readonly MemoryPackContentEntry[] = [
  {
    content:
      'In a constant product pool (x * y = k) with fee f, selling dx pays dy = y * dx * (1 - f) / (x + dx * (1 - f)). Relative to the price before, the loss to price impact is about dx / (x + dx): a trade of 1 % of the reserve it sells into costs about 1 % beside the fee. Compute it from the reserves of the current block, and set the minimum output from that, not from a displayed price.',
    type: 'fact',
    tags: ['amm', 'price-impact', 'uniswap'],
    importance: 0.9,
    source: 'Uniswap v2 Core whitepaper, https://uniswap.org/whitepaper.pdf (sections 2 and 3)',
  },
  {
    content:
      'Providing both sides of a full-range constant product pool loses 2 * sqrt(r) / (1 + r) - 1 against holding, where r is the new price over the old: r = 1.25 loses 0.6 %, r = 2 loses 5.7 %, r = 4 loses 20 %, r = 5 loses 25.5 %, the same for 1 / r. Fees must exceed that. Concentrated ranges multiply both fees and loss, and outside the range all of it is the asset that fell.',
    type: 'fact',
    tags: ['liquidity', 'impermanent-loss', 'amm'],
    importance: 0.85,
    source:
      'https://docs.uniswap.org/contracts/v2/concepts/advanced-topics/understanding-returns ; Uniswap v3 Core whitepaper, https://uniswap.org/whitepaper-v3.pdf',
  },
  {
    content:
      'Perpetual futures pay funding between the sides: positive funding means longs pay shorts. A rate of 0.01 % every 8 hours is about 11 % a year on the notional, not on the margin, so at 5x leverage it takes about 55 % of the margin. Intervals differ by venue and by contract (1, 4 or 8 hours): read the interval before comparing two rates, and count the cost for the time the position is meant to be held.',
    type: 'fact',
    tags: ['perpetuals', 'funding', 'leverage'],
    importance: 0.85,
    source:
      'https://www.binance.com/en/support/faq/introduction-to-binance-futures-funding-rates-360033525031 ; arithmetic: 0.0001 * 3 * 365 = 10.95 %',
  },
  {
    content:
      'The Kelly fraction of a bet that wins b times the stake with probability p is f = (p * (b + 1) - 1) / b; at even odds f = 2p - 1. Above twice f the wealth shrinks in the long run even with an edge. An estimated p is mostly too high, so use a quarter to a half of f, and nothing when f is not positive. Growth is about mean minus half of variance: volatility costs by itself.',
    type: 'skill',
    tags: ['sizing', 'kelly', 'risk'],
    importance: 0.9,
    source:
      'J. L. Kelly, A New Interpretation of Information Rate, Bell System Technical Journal 35 (1956); E. O. Thorp, The Kelly Criterion in Blackjack, Sports Betting and the Stock Market (2006)',
  },
  {
    content:
      'Never price a decision by the spot price of one pool: a flash loan can move it within a transaction. Use a feed or a time-weighted average, and check a Chainlink feed by latestRoundData(): answer > 0, updatedAt within the heartbeat of that feed, and on L2s the sequencer uptime feed with a grace period after it comes back. If two independent sources differ by more than a few per cent, do not trade, and say so.',
    type: 'skill',
    tags: ['oracle', 'chainlink', 'twap', 'manipulation'],
    importance: 0.95,
    source:
      'https://docs.chain.link/data-feeds/api-reference ; https://docs.chain.link/data-feeds/l2-sequencer-feeds',
  },
  {
    content:
      'On lending markets in the manner of Aave, health factor = sum(collateral * liquidation threshold) / debt, in one currency; below 1 anybody may liquidate, with a bonus out of the collateral. With collateral C, threshold t and debt D in a stable asset, liquidation begins when the collateral has fallen by 1 - D / (C * t). Keep the factor above 1.5 for volatile collateral, and arrange for repaying before borrowing.',
    type: 'fact',
    tags: ['lending', 'liquidation', 'aave'],
    importance: 0.85,
    source:
      'https://aave.com/docs/aave-v3/markets/health-factor ; https://github.com/aave/aave-v3-core (GenericLogic.calculateUserAccountData)',
  },
  {
    content:
      'Under EIP-1559 the base fee changes by at most one eighth (12.5 %) a block: it rises when the block before used more gas than the target and falls when less. A maxFeePerGas of twice the base fee lasts through six full blocks in a row, and what is not needed is not charged. Rollups add a fee for the data they post to L1, which no gas limit shows: ask their gas oracle.',
    type: 'fact',
    tags: ['gas', 'eip-1559', 'fees'],
    importance: 0.8,
    source:
      'https://eips.ethereum.org/EIPS/eip-1559 ; https://docs.optimism.io/stack/transactions/fees (L1 data fee); arithmetic: 1.125^6 = 2.03',
  },
  {
    content:
      'A backtest flatters. Signals may use only what was known at their time, trades fill at the next price with fee, spread and impact, and assets that died belong to the sample. Having tried N variants, the best of them looks good by luck: with N independent trials without any edge the expected best Sharpe ratio grows like sqrt(2 ln N) standard errors. Keep a period untouched, look at it once, and halve what you then expect.',
    type: 'skill',
    tags: ['backtest', 'statistics', 'overfitting'],
    importance: 0.9,
    source:
      'D. H. Bailey, M. Lopez de Prado, The Deflated Sharpe Ratio, Journal of Portfolio Management 40 (2014), https://papers.ssrn.com/sol3/papers.cfm?abstract_id=2460551',
  },
]
