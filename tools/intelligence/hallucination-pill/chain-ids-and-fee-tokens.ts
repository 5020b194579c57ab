/** The bundled list of chains, their ids and fee tokens. */

/**
 * Chains by id: fee token (* where other tokens are right too) and names. From viem/chains 2.57.1. Ids and
 * tokens were compared in 2026-11 with ethereum-lists/chains and the Hyperlane registry, and differences
 * (Fraxtal, Data Network) with what the projects publish.
 */
const TABLE = `
1|ETH|Ethereum|ethereum mainnet|mainnet|eth mainnet|ethereum l1
10|ETH|OP Mainnet|OP|optimism|optimism mainnet
14|FLR|Flare Mainnet|Flare
19|SGB|Songbird Canary-Network
25|CRO|Cronos Mainnet|Cronos
30|RBTC|Rootstock Mainnet|Rootstock
40|TLOS|Telos
42|LYX|LUKSO
50|XDC|XDC Network
56|BNB|BNB Smart Chain|bsc|bnb chain|binance smart chain|bnb smart chain mainnet
57|SYS|Syscoin Mainnet|Syscoin
61|ETC|Ethereum Classic
66|OKT|OKC
88|VIC|Viction
96|KUB|KUB Mainnet|KUB
100|XDAI|Gnosis|gnosis chain|xdai
106|VLX|Velas EVM Mainnet|Velas EVM
108|TT|ThunderCore Mainnet|ThunderCore
109|BONE|Shibarium
122|FUSE|Fuse
130|ETH|Unichain|unichain mainnet
137|POL|Polygon|polygon pos|polygon mainnet|matic
143|MON|Monad|monad mainnet
146|S|Sonic
148|SMR|Shimmer
168|AIOZ|AIOZ Network
169|ETH|Manta Pacific Mainnet|Manta Pacific
185|ETH|Mint Mainnet|Mint
196|OKB|X Layer Mainnet|X Layer
199|BTT|BitTorrent
204|BNB|opBNB
223|BTC|B2
232|GHO|Lens
239|TAC|TAC
246|EWT|Energy Mainnet|Energy
248|OAS|Oasys
250|FTM|Fantom|fantom opera
252|FRAX|Fraxtal
255|ETH|Kroma
288|ETH|Boba Network
295|HBAR|Hedera Mainnet|Hedera
314|FIL|Filecoin Mainnet|Filecoin
321|KCS|KCC Mainnet|KCC
324|ETH|ZKsync Era|zksync|zksync era mainnet
336|SDN|Shiden
360|ETH|Shape
361|TFUEL|Theta Mainnet|Theta
369|PLS|PulseChain
388|zkCRO*|Cronos zkEVM Mainnet|Cronos zkEVM
397|NEAR|NEAR Protocol
480|ETH|World Chain|worldchain
592|ASTR|Astar
686|KAR|Karura
690|ETH|Redstone
747|FLOW|Flow EVM Mainnet|Flow EVM
787|ACA|Acala
888|WAN|Wanchain
988|USDT0|Stable Mainnet|Stable
999|HYPE|HyperEVM|hyperliquid evm|hyperevm mainnet
999|WAN*|Wanchain Testnet
1030|CFX|Conflux eSpace
1088|METIS|Metis
1100|DYM|Dymension
1101|ETH|Polygon zkEVM|polygon zkevm mainnet
1111|WEMIX|WEMIX
1116|CORE|Core Dao
1135|ETH|Lisk
1284|GLMR|Moonbeam
1285|MOVR|Moonriver
1329|SEI|Sei Network
1480|VANA|Vana
1514|DATA*|Data Network|Story
1625|G|Gravity Alpha Mainnet|Gravity Alpha
1729|ETH|Reya Network
1750|ETH|Metal L2
1776|INJ|Injective
1868|ETH|Soneium Mainnet|Soneium
1923|ETH|Swellchain
2000|WDOGE*|Dogechain
2020|RON|Ronin
2222|KAVA|Kava EVM
2345|BTC|GOAT
2741|ETH|Abstract
2818|ETH|Morph
3338|PEAQ|Peaq
4200|BTC|Merlin
4217|USD*|Tempo Mainnet|Tempo
4326|ETH|MegaETH
4337|BEAM|Beam
4352|M|MemeCore
4689|IOTX|IoTeX
5000|MNT|Mantle|mantle mainnet
5031|SOMI|Somnia
5330|ETH|Superseed
6900|NIBI|Nibiru
7000|ZETA|ZetaChain
7700|CANTO|Canto
8217|KAIA|Kaia|Klaytn|kaia mainnet
8333|ETH|B3
8453|ETH|Base|base mainnet
9001|EVMOS|Evmos
9745|XPL|Plasma
12553|RSS3|RSS3 VSL Mainnet|RSS3 VSL
13371|IMX|Immutable zkEVM
16661|0G|0G Mainnet|0G
23294|ROSE|Oasis Sapphire
33139|APE|ApeChain
34443|ETH|Mode Mainnet|Mode
41455|AZERO|Aleph Zero
42161|ETH|Arbitrum One|arbitrum|arbitrum mainnet
42170|ETH|Arbitrum Nova
42220|CELO*|Celo|celo mainnet
42793|XTZ|Etherlink
43111|ETH|Hemi
43114|AVAX|Avalanche|avalanche c chain|avalanche c-chain|avax
47763|GAS|Neo X Mainnet|Neo X
48900|ETH|Zircuit Mainnet|Zircuit
50104|SOPH|Sophon
53935|JEWEL|DFK Chain
57073|ETH|Ink
59144|ETH|Linea Mainnet|Linea
60808|ETH|BOB
80094|BERA|Berachain
81457|ETH|Blast
88888|CHZ|Chiliz Chain
98866|PLUME|Plume
167000|ETH|Taiko Mainnet|Taiko
200901|BTC|Bitlayer Mainnet|Bitlayer
534352|ETH|Scroll
660279|XAI|Xai Mainnet|Xai
747474|ETH|Katana
810180|ETH|zkLink Nova
7777777|ETH|Zora
245022934|NEON|Neon EVM MainNet
666666666|DEGEN|Degen
728126428|TRX|Tron|tron mainnet
1313161554|ETH|Aurora
1666600000|ONE|Harmony One
11155111|ETH|Sepolia|sepolia testnet|ethereum sepolia
17000|ETH|Holesky|holesky testnet
560048|ETH|Hoodi
84532|ETH|Base Sepolia|base sepolia testnet
421614|ETH|Arbitrum Sepolia|arbitrum sepolia testnet
11155420|ETH|OP Sepolia
80002|POL|Polygon Amoy
97|tBNB*|BNB Smart Chain Testnet
43113|AVAX|Avalanche Fuji
10143|MON|Monad Testnet
42431|USD*|Tempo Testnet (Moderato)
4202|ETH|Lisk Sepolia
300|ETH|ZKsync Sepolia Testnet
59141|ETH|Linea Sepolia Testnet
168587773|ETH|Blast Sepolia
1301|ETH|Unichain Sepolia
`

export interface KnownChain {
  readonly id: number
  readonly native: string
  /** Fees are paid in other tokens too, or the token's name is uncertain. */
  readonly open: boolean
  readonly names: readonly string[]
}

export const KNOWN_CHAINS_SOURCE = 'viem/chains 2.57.1'

export const KNOWN_CHAINS: readonly KnownChain[] = TABLE.trim()
  .split('\n')
  .map((line) => {
    const [id, native = '', ...names] = line.split('|')
    return { id: Number(id), native: native.replace('*', ''), open: native.endsWith('*'), names }
  })
