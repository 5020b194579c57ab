import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import {
  createTestClient,
  defineChain,
  encodeDeployData,
  encodeFunctionData,
  http,
  numberToHex,
  publicActions,
  walletActions,
} from 'viem'
import { MULTICALL3_ADDRESS } from '../../../chain/evm/multicall.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { PERMIT2_ADDRESS, X402_EXACT_PROXY_ADDRESS } from '../../../chain/evm/permit2.ts'
import { startAnvilNode } from './anvil.ts'
import type { ContractArtifact, ContractArtifacts } from './compile-contracts.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

/** Local Base, BNB Smart Chain and Tempo nodes with funded stablecoins. */

type Hex = `0x${string}`
export type LocalChainClient = ReturnType<typeof createLocalChainClient>

/** A local chain; addresses are in lower case. */
export interface LocalChain {
  readonly rpcUrl: string
  readonly chainId: number
  /** viem's test, public and wallet client. */
  readonly client: LocalChainClient
  readonly usdc: Hex
  /** Transfers new USDC, in atomic units; a watcher sees it as a deposit. */
  mint(to: string, amount: bigint): Promise<Hex>
  /** Gives an address funds for fees: wei, or on Tempo the fee token, added to its balance. */
  fund(address: string, wei: bigint): Promise<void>
  mine(blocks: number): Promise<void>
  /** Replaces the last `depth` blocks by empty ones. */
  reorg(depth: number): Promise<void>
  balanceOf(address: string): Promise<bigint>
  stop(): Promise<void>
}

/** The compiled contracts of this folder, written by `compile-contracts.ts`. */
export const contractArtifacts = JSON.parse(
  readFileSync(join(REPOSITORY_ROOT, 'test/support/chain/contract-artifacts.json'), 'utf8'),
) as ContractArtifacts

const POLL_MS = 50
/**
 * Sends the set-up and mint transactions. Tests have no key for it, so its nonces never conflict.
 */
const FAUCET: Hex = '0x00000000000000000000000000000000000facE7'
/** Non-empty storage slots of MockUSDC after construction. */
const TOKEN_SLOTS = 5
/** The last of anvil's ten accounts; tests may use the other nine. */
const TEMPO_FAUCET: Hex = '0xa0Ee7A142d267C1f36714E4a8F75612F20a79720'
/** The fee token of Tempo; the local node has no USDC.e. */
const PATH_USD: Hex = '0x20c0000000000000000000000000000000000000'

function createLocalChainClient(rpcUrl: string, chainId: number) {
  const chain = defineChain({
    id: chainId,
    name: `local ${chainId}`,
    nativeCurrency: { name: 'native', symbol: 'native', decimals: 18 },
    rpcUrls: { default: { http: [rpcUrl] } },
  })
  const settings = { chain, transport: http(rpcUrl, { retryCount: 0 }), pollingInterval: POLL_MS }
  return createTestClient({ mode: 'anvil', cacheTime: 0, ...settings })
    .extend(publicActions)
    .extend(walletActions)
}

interface LocalChainSettings {
  readonly chainId: number
  readonly options: readonly string[]
  readonly usdc: Hex
  readonly faucet: Hex
  /** Funds an address for fees. */
  readonly fund: (chain: {
    client: LocalChainClient
    mint: LocalChain['mint']
  }) => LocalChain['fund']
  readonly prepare: (client: LocalChainClient) => Promise<void>
  /** The token function that gives funds: `mint`, or `transfer` from the faucet. */
  readonly gives: 'mint' | 'transfer'
}

async function startLocalChain(setting: LocalChainSettings): Promise<LocalChain> {
  const { chainId, options, usdc, faucet, gives } = setting
  const { abi } = contractArtifacts.MockUSDC
  const node = await startAnvilNode(['--chain-id', String(chainId), ...options])
  const client = createLocalChainClient(node.rpcUrl, chainId)
  const mint = (to: string, amount: bigint) =>
    sendFromUnlocked(
      client,
      faucet,
      usdc,
      encodeFunctionData({ abi, functionName: gives, args: [to, amount] }),
    )
  try {
    await setting.prepare(client)
  } catch (error) {
    await node.stop()
    throw error
  }
  return {
    rpcUrl: node.rpcUrl,
    chainId,
    client,
    usdc,
    mint,
    fund: setting.fund({ client, mint }),
    mine: (blocks) => client.mine({ blocks }),
    async reorg(depth) {
      await client.request({ method: 'anvil_reorg', params: [depth, []] } as never)
    },
    async balanceOf(address) {
      const args = [address]
      return (await client.readContract({
        address: usdc,
        abi,
        functionName: 'balanceOf',
        args,
      })) as bigint
    },
    stop: node.stop,
  }
}

/**
 * Sends from an unlocked account and waits for the receipt. Throws when the transaction reverts.
 */
async function sendFromUnlocked(
  client: LocalChainClient,
  from: Hex,
  to: Hex | null,
  data: Hex,
): Promise<Hex> {
  const transaction = { from, data, ...(to === null ? {} : { to }) }
  const request = { method: 'eth_sendTransaction', params: [transaction] }
  const hash: Hex = await client.request(request as never)
  const { status } = await client.waitForTransactionReceipt({ hash })
  if (status !== 'success') throw new Error(`a transaction of the local chain failed: ${hash}`)
  return hash
}

const inWei =
  ({ client }: { client: LocalChainClient }) =>
  (address: string, wei: bigint) =>
    client.setBalance({ address: address as Hex, value: wei })

/** Starts Base with USDC at its real address, and Multicall3. */
export async function startLocalBase(): Promise<LocalChain> {
  const { chainId, asset, decimals, domain } = PAYMENT_NETWORKS.base
  return startLocalChain({
    chainId,
    // two slots per epoch make `safe` and `finalized` advance
    options: ['--slots-in-an-epoch', '2'],
    usdc: asset,
    faucet: FAUCET,
    gives: 'mint',
    fund: inWei,
    async prepare(client) {
      await openFaucet(client)
      await putToken(client, asset, [domain.name, domain.version, 'USDC', decimals])
      await client.setCode({
        address: MULTICALL3_ADDRESS,
        bytecode: (await knownCode()).multicall3,
      })
    },
  })
}

/** Starts BNB Smart Chain with an 18-decimal stablecoin, Permit2, the x402 proxy and Multicall3. */
export async function startLocalBsc(): Promise<LocalChain> {
  const { chainId, asset, decimals, domain } = PAYMENT_NETWORKS.bsc
  return startLocalChain({
    chainId,
    options: ['--slots-in-an-epoch', '2'],
    usdc: asset,
    faucet: FAUCET,
    gives: 'mint',
    fund: inWei,
    async prepare(client) {
      await openFaucet(client)
      await putToken(client, asset, [domain.name, domain.version, 'USDC', decimals])
      const { multicall3, permit2 } = await knownCode()
      await client.setCode({ address: MULTICALL3_ADDRESS, bytecode: multicall3 })
      await client.setCode({ address: PERMIT2_ADDRESS, bytecode: permit2 })
      const proxy = await deployContract(client, contractArtifacts.MockPermit2Proxy, [])
      await client.setCode({
        address: X402_EXACT_PROXY_ADDRESS,
        bytecode: await readContractCode(client, proxy),
      })
    },
  })
}

/** Starts Tempo, where fees are paid in stablecoins; each of anvil's ten accounts holds 2^64-1. */
export async function startLocalTempo(): Promise<LocalChain> {
  return startLocalChain({
    chainId: PAYMENT_NETWORKS.tempo.chainId,
    options: ['--network', 'tempo'],
    usdc: PATH_USD,
    faucet: TEMPO_FAUCET,
    gives: 'transfer',
    fund:
      ({ mint }) =>
      async (address, amount) =>
        void (await mint(address, amount)),
    prepare: (client) => client.mine({ blocks: 1 }), // the genesis block has timestamp 1
  })
}

async function openFaucet(client: LocalChainClient): Promise<void> {
  await client.impersonateAccount({ address: FAUCET })
  await client.setBalance({ address: FAUCET, value: 10n ** 24n })
}

async function deployContract(
  client: LocalChainClient,
  { abi, bytecode }: ContractArtifact,
  args: unknown[],
) {
  const hash = await sendFromUnlocked(
    client,
    FAUCET,
    null,
    encodeDeployData({ abi, bytecode, args }),
  )
  const { contractAddress } = await client.getTransactionReceipt({ hash })
  if (contractAddress == null) throw new Error('nothing was deployed')
  return contractAddress
}

async function readContractCode(client: LocalChainClient, address: Hex): Promise<Hex> {
  const code = await client.getCode({ address })
  if (code === undefined) throw new Error(`there is no code on ${address}`)
  return code
}

/** Installs the token at its real address, the only one that clients pay. */
async function putToken(client: LocalChainClient, address: Hex, args: unknown[]): Promise<void> {
  const from = await deployContract(client, contractArtifacts.MockUSDC, args)
  await client.setCode({ address, bytecode: await readContractCode(client, from) })
  for (let at = 0; at < TOKEN_SLOTS; at += 1) {
    const slot = numberToHex(at, { size: 32 })
    const value =
      (await client.getStorageAt({ address: from, slot })) ?? numberToHex(0, { size: 32 })
    await client.setStorageAt({ address, index: slot, value })
  }
}

interface KnownCode {
  readonly multicall3: Hex
  readonly permit2: Hex
}

let knownCodePromise: Promise<KnownCode> | undefined

/** Code of third-party contracts missing on a plain node, read from a Tempo node and not stored. */
const knownCode = (): Promise<KnownCode> => (knownCodePromise ??= readKnownCode())

async function readKnownCode(): Promise<KnownCode> {
  const node = await startAnvilNode(['--chain-id', '4217', '--network', 'tempo'])
  try {
    const client = createLocalChainClient(node.rpcUrl, 4217)
    return {
      multicall3: await readContractCode(client, MULTICALL3_ADDRESS),
      permit2: await readContractCode(client, PERMIT2_ADDRESS),
    }
  } finally {
    await node.stop()
  }
}
