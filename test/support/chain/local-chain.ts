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

type Hex = `0x${string}`
export type LocalChainClient = ReturnType<typeof createLocalChainClient>

/** A chain of one's own, with money for everybody; addresses in lower case. */
export interface LocalChain {
  readonly rpcUrl: string
  readonly chainId: number
  /** viem's test, public and wallet client. */
  readonly client: LocalChainClient
  readonly usdc: Hex
  /** New dollars, in atomic units; a transfer like any other, so a deposit where one is looked for. */
  mint(to: string, amount: bigint): Promise<Hex>
  /** What an address pays fees with, in wei; on Tempo the dollar itself, added to what it has. */
  fund(address: string, wei: bigint): Promise<void>
  mine(blocks: number): Promise<void>
  /** Drops that many blocks and puts empty ones in their place. */
  reorg(depth: number): Promise<void>
  balanceOf(address: string): Promise<bigint>
  stop(): Promise<void>
}

/** The compiled contracts of this folder (`compile.ts` writes them). */
export const contractArtifacts = JSON.parse(
  readFileSync(join(REPOSITORY_ROOT, 'test/support/chain/contract-artifacts.json'), 'utf8'),
) as ContractArtifacts

const POLL_MS = 50
/** Sends what sets the chain up and mints; nobody has its key, so no nonce of it is ever contested. */
const FAUCET: Hex = '0x00000000000000000000000000000000000facE7'
/** Slots of MockUSDC that are not empty after its construction. */
const TOKEN_SLOTS = 5
/** Nine of the ten accounts every anvil has are free; this is the last one. */
const TEMPO_FAUCET: Hex = '0xa0Ee7A142d267C1f36714E4a8F75612F20a79720'
/** The token whose holders pay fees on Tempo; USDC.e is not there. */
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
  /** How money to pay fees comes to an address. */
  readonly fund: (chain: {
    client: LocalChainClient
    mint: LocalChain['mint']
  }) => LocalChain['fund']
  readonly prepare: (client: LocalChainClient) => Promise<void>
  /** The function of the token that gives money: `mint`, or the faucet's own `transfer`. */
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

/** Sends from an account the node signs for, waits until it is mined, and insists on success. */
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

/** Base with USDC at its own address, and Multicall3. */
export async function startLocalBase(): Promise<LocalChain> {
  const { chainId, asset, decimals, domain } = PAYMENT_NETWORKS.base
  return startLocalChain({
    chainId,
    // with two slots in an epoch `safe` and `finalized` move
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

/** BNB Smart Chain: a dollar of 18 decimals, Permit2, the proxy of x402, and Multicall3. */
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

/** Tempo, where fees are paid in dollars and the ten accounts of anvil hold 2^64-1 of them. */
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
    prepare: (client) => client.mine({ blocks: 1 }), // the time of its genesis is 1
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

/** Puts the token where clients expect it: they pay no other one. */
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

/** Contracts of others that a plain node lacks and one of Tempo has: read there, kept nowhere. */
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
