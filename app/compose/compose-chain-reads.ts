import { getAddress, isAddress, type Hex } from 'viem'
import {
  readEvmAccount,
  readTokenBalances,
  findFirstTransactionTime,
} from '../../chain/evm/evm-account-lookup.ts'
import {
  findEvmBlock,
  readBaseFee,
  findLatestChainlinkRound,
  findEvmTransaction,
} from '../../chain/evm/block-and-transaction-lookup.ts'
import {
  broadcastRawTransaction,
  decodeSignedTransaction,
} from '../../chain/evm/broadcast-raw-transaction.ts'
import { resolveEnsName, reverseResolveEns } from '../../chain/evm/ens.ts'
import {
  withEvmNodeFailuresAsServiceErrors,
  evmNetworkKindOfNodeUrls,
  EVM_READ_CHAINS,
  createEvmReadClient,
  type EvmReadClient,
} from '../../chain/evm/evm-read-client.ts'
import { simulateEvmCall } from '../../chain/evm/simulate-evm-call.ts'
import {
  readLargeTransfers,
  readRecentTransfers,
  readTokenMetadata,
} from '../../chain/evm/token-metadata-and-transfers.ts'
import {
  READABLE_CHAIN_NAMES,
  type ChainReader,
  type ReadableChainName,
} from '../../providers/chain-data/chain-data-port.ts'
import type { Config } from '../config.ts'

/**
 * Creates the chain reader. Each chain is read through the operator's RPC nodes, else through
 * public ones.
 */
export function composeChainReads(rpc: Config['reads']): ChainReader {
  const urlsOf = (name: ReadableChainName): readonly string[] => {
    const set = rpc[name]?.reveal()
    return set === undefined
      ? EVM_READ_CHAINS[name].publicUrls
      : set.split(',').map((url) => url.trim())
  }
  const clients = new Map<ReadableChainName, EvmReadClient>()
  const clientOf = (name: ReadableChainName): EvmReadClient => {
    const client =
      clients.get(name) ?? createEvmReadClient(EVM_READ_CHAINS[name].chainId, urlsOf(name))
    clients.set(name, client)
    return client
  }
  const on = <T>(
    name: ReadableChainName,
    work: (client: EvmReadClient) => Promise<T>,
  ): Promise<T> => withEvmNodeFailuresAsServiceErrors(name, work(clientOf(name)))
  const views = new Map(
    READABLE_CHAIN_NAMES.map((name) => {
      const { chainId, native, explorer } = EVM_READ_CHAINS[name]
      return [
        name,
        { chainId, native, explorer, network: evmNetworkKindOfNodeUrls(urlsOf(name)) },
      ] as const
    }),
  )
  return {
    about(name) {
      const view = views.get(name)
      if (view === undefined) throw new Error(`${name} is not read`)
      return view
    },
    simulate: (name, call) =>
      on(name, (client) => simulateEvmCall(client, EVM_READ_CHAINS[name], call)),
    decode: decodeSignedTransaction,
    send: (name, raw, hash) => on(name, (client) => broadcastRawTransaction(client, raw, hash)),
    account: (name, address) => on(name, (client) => readEvmAccount(client, address)),
    firstSentAt: (name, address, nonce) =>
      on(name, (client) => findFirstTransactionTime(client, address, nonce)),
    balances: (name, address, tokens) =>
      on(name, (client) => readTokenBalances(client, address, tokens)),
    movements: (name, address, tokens) =>
      on(name, (client) => readRecentTransfers(client, address, tokens)),
    ensName: (address) => on('ethereum', (client) => reverseResolveEns(client, address)),
    ensAddress: (name) => on('ethereum', (client) => resolveEnsName(client, name)),
    token: (name, address) => on(name, (client) => readTokenMetadata(client, address)),
    largeTransfers: (name, token, minimum) =>
      on(name, (client) => readLargeTransfers(client, token, minimum)),
    block: (name, number) => on(name, (client) => findEvmBlock(client, number)),
    baseFee: (name) => on(name, readBaseFee),
    transaction: (name, hash) => on(name, (client) => findEvmTransaction(client, hash)),
    round: (name, feed) => on(name, (client) => findLatestChainlinkRound(client, feed)),
    checksum: (address) =>
      isAddress(address, { strict: false }) ? getAddress(address as Hex) : null,
  }
}
