/** Where a symbol is listed: its CoinGecko id (DefiLlama uses it too) and the exchanges that trade it. */
export interface PriceSourceIdsOfSymbol {
  readonly coingecko: string
  /** The base of Kraken's USD pair. */
  readonly kraken: string | null
  /** Traded as SYMBOL-USD. */
  readonly coinbase: boolean
  /** Traded as SYMBOLUSDT. */
  readonly binance: boolean
}

/**
 * Symbol, CoinGecko id, exchanges: c Coinbase, b Binance, k Kraken (k=NAME where it differs). Exchanges
 * refuse a batch with an unknown pair, so only certain ones are listed. Ids were checked in 2026-11 against
 * the Sonarwatch token lists, and those of native coins against published maps of CoinGecko's ids. FRAX is
 * missing: it names both the old dollar and the former FXS.
 */
const LISTING_TABLE = `
BTC bitcoin c b k=XBT
ETH ethereum c b k
USDT tether c k
USDC usd-coin b k
BNB binancecoin b
SOL solana c b k
XRP ripple c b k
DOGE dogecoin c b k=XDG
ADA cardano c b k
TRX tron b k
AVAX avalanche-2 c b k
SHIB shiba-inu c b k
DOT polkadot c b k
LINK chainlink c b k
TON the-open-network b
BCH bitcoin-cash c b k
LTC litecoin c b k
NEAR near c b k
UNI uniswap c b k
MATIC matic-network
POL polygon-ecosystem-token c b k
ICP internet-computer c b k
DAI dai c k
APT aptos c b k
ETC ethereum-classic c b k
XLM stellar c b k
ATOM cosmos c b k
ARB arbitrum c b k
OP optimism c b k
FIL filecoin c b k
HBAR hedera-hashgraph c b
IMX immutable-x c b k
INJ injective-protocol c b k
VET vechain c b
MKR maker
SKY sky
GRT the-graph c b k
RENDER render-token c b
LDO lido-dao c b k
AAVE aave c b k
ALGO algorand c b k
QNT quant-network c b k
FTM fantom
S sonic-3
SUI sui c b k
SEI sei-network c b k
TIA celestia c b k
STX blockstack c b k
RUNE thorchain b k
EGLD elrond-erd-2 b
SAND the-sandbox c b k
MANA decentraland c b k
AXS axie-infinity c b k
THETA theta-token b
FLOW flow c b k
XTZ tezos c b k
EOS eos
CHZ chiliz c b k
KAVA kava b k
SNX havven c b k
CRV curve-dao-token c b k
CVX convex-finance b k
COMP compound-governance-token c b k
1INCH 1inch c b k
SUSHI sushi c b k
YFI yearn-finance c b k
BAL balancer
ENS ethereum-name-service c b k
DYDX dydx-chain b k
GMX gmx b k
PENDLE pendle b k
FXS frax-share
LUSD liquity-usd
TUSD true-usd
PYUSD paypal-usd
USDE ethena-usde
ENA ethena b
USDS usds
USDD usdd
GHO gho
EURC euro-coin
FDUSD first-digital-usd
WBTC wrapped-bitcoin
CBBTC coinbase-wrapped-btc
WETH weth
STETH staked-ether
WSTETH wrapped-steth
RETH rocket-pool-eth
CBETH coinbase-wrapped-staked-eth
WEETH wrapped-eeth
EZETH renzo-restaked-eth
PEPE pepe c b k
WIF dogwifcoin b k
BONK bonk c b k
FLOKI floki b k
BRETT based-brett
DEGEN degen-base
TOSHI toshi
AERO aerodrome-finance c
VELO velodrome-finance
VIRTUAL virtual-protocol
MORPHO morpho
MON monad
JUP jupiter-exchange-solana b k
JTO jito-governance-token b k
PYTH pyth-network b k
RAY raydium b k
ORCA orca
W wormhole b k
HNT helium
MSOL msol
JITOSOL jito-staked-sol
TRUMP official-trump
PENGU pudgy-penguins
FARTCOIN fartcoin
AI16Z ai16z
TAO bittensor b k
FET fetch-ai b k
OCEAN ocean-protocol
WLD worldcoin-wld b
AKT akash-network
AR arweave b
STRK starknet b k
ZK zksync b
MNT mantle
BLAST blast
SCR scroll
MANTA manta-network b
METIS metis-token
LRC loopring c b k
ZRX 0x c b k
BAT basic-attention-token c b k
ZEC zcash c b k
XMR monero k
DASH dash b k
NEO neo b
IOTA iota b
KAS kaspa k
CRO crypto-com-chain c
OKB okb
LEO leo-token
GT gatechain-token
BGB bitget-token
KCS kucoin-shares
HYPE hyperliquid
ONDO ondo-finance
EIGEN eigenlayer b
ETHFI ether-fi b
RPL rocket-pool
SSV ssv-network
ANKR ankr c b k
MASK mask-network b
API3 api3 b
BAND band-protocol b
UMA uma c b k
STORJ storj c b k
GALA gala b k
ILV illuvium
APE apecoin c b k
BLUR blur c b k
ROSE oasis-network b
CELO celo b
MINA mina-protocol c b k
KSM kusama b k
GLMR moonbeam b k
ASTR astar b k
ZIL zilliqa b
ONE harmony b
IOTX iotex b
JASMY jasmycoin c b
CFX conflux-token b
CKB nervos-network b
RVN ravencoin b
DGB digibyte
XDC xdce-crowd-sale
BSV bitcoin-cash-sv
ORDI ordinals b
PAXG pax-gold
XAUT tether-gold
`

/** Every symbol with a price, in upper case. */
export const PRICE_SOURCE_IDS_BY_SYMBOL: ReadonlyMap<string, PriceSourceIdsOfSymbol> = new Map(
  LISTING_TABLE.trim()
    .split('\n')
    .map((line) => {
      const [symbol = '', coingecko = '', ...marks] = line.split(' ')
      const kraken = marks.find((mark) => mark.startsWith('k'))
      const listing = {
        coingecko,
        kraken: kraken === undefined ? null : (kraken.split('=')[1] ?? symbol),
        coinbase: marks.includes('c'),
        binance: marks.includes('b'),
      }
      return [symbol, listing]
    }),
)
