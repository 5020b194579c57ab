/** Labels of well-known Ethereum addresses. */

/**
 * Accounts and contracts with a publicly known owner. Checked in 2026-11: exchanges against Etherscan's
 * labels, contracts against what projects publish (Ethereum's clients, Uniswap's deployments, the Aave
 * address book, viem, Tornado Cash), the exploiter against OFAC's list.
 */
const TABLE = `
0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045 Vitalik Buterin
0x28C6c06298d514Db089934071355E5743bf21d60 Binance
0x21a31Ee1afC51d94C2eFcCAa2092aD1028285549 Binance
0xDFd5293D8e347dFe59E90eFd55b2956a1343963d Binance
0xF977814e90dA44bFA03b6295A0616a897441aceC Binance
0xBE0eB53F46cd790Cd13851d5EFf43D12404d33E8 Binance (cold wallet)
0x71660c4005BA85c37ccec55d0C4493E66Fe775d3 Coinbase
0x503828976D22510aad0201ac7EC88293211D23Da Coinbase
0xA9D1e08C7793af67e9d92fe308d5697FB81d3E43 Coinbase
0x2910543Af39abA0Cd09dBb2D50200b3E800A63D2 Kraken
0x742d35Cc6634C0532925a3b844Bc454e4438f44e Bitfinex
0x00000000219ab540356cBB839Cbe05303d7705Fa Beacon deposit contract
0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2 Wrapped Ether
0x7a250d5630B4cF539739dF2C5dAcb4c659F2488D Uniswap V2 router
0xE592427A0AEce92De3Edee1F18E0157C05861564 Uniswap V3 router
0x68b3465833fb72A70ecDF485E0e4C7bD8665Fc45 Uniswap router
0x000000000022D473030F116dDEE9F6B43aC78BA3 Permit2
0xcA11bde05977b3631167028862bE2a173976CA11 Multicall3
0x87870Bca3F3fD6335C3F4ce8392D69350B4fA4E2 Aave V3 pool
0xae7ab96520DE3A18E5e111B5EaAb095312D7fE84 Lido stETH
0xd90e2f925DA726b50C4Ed8D0Fb90Ad053324F31b Tornado Cash router
0x098B716B8Aaf21512996dC57EB0615e2383E2f96 Ronin bridge exploiter (OFAC)
`

const LABELS: ReadonlyMap<string, string> = new Map(
  TABLE.trim()
    .split('\n')
    .map((line) => [line.slice(0, 42).toLowerCase(), line.slice(43)]),
)

/** Returns the owner of an address; null where it is unknown. */
export const findEthereumAddressOwnerLabel = (address: string): string | null =>
  LABELS.get(address.toLowerCase()) ?? null

export const LABELLED_ETHEREUM_ADDRESSES: readonly string[] = TABLE.trim()
  .split('\n')
  .map((line) => line.slice(0, 42))
