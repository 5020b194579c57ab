import { getAddress, isAddress, type Hex } from 'viem'
import { accountOn, balancesOn, firstSentAt } from '../chain/accounts.ts'
import { blockOn, roundOn, transactionOn } from '../chain/blocks.ts'
import { broadcast, decodeSigned } from '../chain/broadcast.ts'
import { ensAddress, ensName } from '../chain/ens.ts'
import {
  fromNode,
  networkOf,
  READ_CHAINS,
  readClient,
  type ReadClient,
} from '../chain/read-client.ts'
import { simulate } from '../chain/simulation.ts'
import { largeTransfers, movementsOn, tokenOn } from '../chain/token-facts.ts'
import { CHAIN_NAMES, type Chain, type ChainName } from '../tools/chain/port.ts'
import type { Config } from './config.ts'

/** The port `chain`: each chain is read by the operator's nodes, else by public ones. */
export function composeChainReads(rpc: Config['reads']): Chain {
  const urlsOf = (name: ChainName): readonly string[] => {
    const set = rpc[name]?.reveal()
    return set === undefined
      ? READ_CHAINS[name].publicUrls
      : set.split(',').map((url) => url.trim())
  }
  const clients = new Map<ChainName, ReadClient>()
  const clientOf = (name: ChainName): ReadClient => {
    const client = clients.get(name) ?? readClient(READ_CHAINS[name].chainId, urlsOf(name))
    clients.set(name, client)
    return client
  }
  const on = <T>(name: ChainName, work: (client: ReadClient) => Promise<T>): Promise<T> =>
    fromNode(name, work(clientOf(name)))
  const views = new Map(
    CHAIN_NAMES.map((name) => {
      const { chainId, native, explorer } = READ_CHAINS[name]
      return [name, { chainId, native, explorer, network: networkOf(urlsOf(name)) }] as const
    }),
  )
  return {
    about(name) {
      const view = views.get(name)
      if (view === undefined) throw new Error(`${name} is not read`)
      return view
    },
    simulate: (name, call) => on(name, (client) => simulate(client, READ_CHAINS[name], call)),
    decode: decodeSigned,
    send: (name, raw, hash) => on(name, (client) => broadcast(client, raw, hash)),
    account: (name, address) => on(name, (client) => accountOn(client, address)),
    firstSentAt: (name, address, nonce) =>
      on(name, (client) => firstSentAt(client, address, nonce)),
    balances: (name, address, tokens) => on(name, (client) => balancesOn(client, address, tokens)),
    movements: (name, address, tokens) =>
      on(name, (client) => movementsOn(client, address, tokens)),
    ensName: (address) => on('ethereum', (client) => ensName(client, address)),
    ensAddress: (name) => on('ethereum', (client) => ensAddress(client, name)),
    token: (name, address) => on(name, (client) => tokenOn(client, address)),
    largeTransfers: (name, token, least) =>
      on(name, (client) => largeTransfers(client, token, least)),
    block: (name, number) => on(name, (client) => blockOn(client, number)),
    transaction: (name, hash) => on(name, (client) => transactionOn(client, hash)),
    round: (name, feed) => on(name, (client) => roundOn(client, feed)),
    checksum: (address) =>
      isAddress(address, { strict: false }) ? getAddress(address as Hex) : null,
  }
}
