import { namehash, parseAbi, type Hex } from 'viem'
import { isRpcUnavailable } from './evm-client.ts'
import type { EvmReadClient } from './evm-read-client.ts'

/** Resolves ENS names and addresses. */

/** From ethereum-lists/chains (checked in 2026-11). */
const REGISTRY = '0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e'
const ABI = parseAbi([
  'function resolver(bytes32 node) view returns (address)',
  'function name(bytes32 node) view returns (string)',
  'function addr(bytes32 node) view returns (address)',
])
const ZERO_ADDRESS_PATTERN = /^0x0{40}$/

/**
 * Resolves names through the registry only: offchain resolvers (CCIP read) would have us fetch from
 * an address that the name's owner chose.
 */
export async function resolveEnsName(client: EvmReadClient, name: string): Promise<Hex | null> {
  const spelled = await normalised(name)
  if (spelled === null) return null
  const node = namehash(spelled)
  const resolver = await resolverOf(client, node)
  if (resolver === null) return null
  const found = await nullIfReverts(
    client.readContract({ address: resolver, abi: ABI, functionName: 'addr', args: [node] }),
  )
  return found === null || ZERO_ADDRESS_PATTERN.test(found) ? null : found
}

/** The primary name of an address, if the name resolves back to it. */
export async function reverseResolveEns(
  client: EvmReadClient,
  address: Hex,
): Promise<string | null> {
  const node = namehash(`${address.slice(2).toLowerCase()}.addr.reverse`)
  const resolver = await resolverOf(client, node)
  if (resolver === null) return null
  const name = await nullIfReverts(
    client.readContract({ address: resolver, abi: ABI, functionName: 'name', args: [node] }),
  )
  // A name that is not in normal form may imitate another one.
  if (name === null || name === '' || (await normalised(name)) !== name) return null
  const forward = await resolveEnsName(client, name)
  return forward?.toLowerCase() === address.toLowerCase() ? name : null
}

async function resolverOf(client: EvmReadClient, node: Hex): Promise<Hex | null> {
  const found = await nullIfReverts(
    client.readContract({ address: REGISTRY, abi: ABI, functionName: 'resolver', args: [node] }),
  )
  return found === null || ZERO_ADDRESS_PATTERN.test(found) ? null : found
}

/** Null if the contract is missing or reverts; rejects if the node does not answer. */
async function nullIfReverts<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    if (isRpcUnavailable(error)) throw error
    return null
  }
}

/** Normalizes by ENSIP-15; its tables are large, so the first name loads them. */
async function normalised(name: string): Promise<string | null> {
  const { normalize } = await import('viem/ens')
  try {
    return normalize(name)
  } catch {
    return null
  }
}
