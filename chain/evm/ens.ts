import { namehash, parseAbi, type Hex } from 'viem'
import { isRpcUnavailable } from './evm-client.ts'
import type { EvmReadClient } from './read-client.ts'

/** As ethereum-lists/chains has it (checked in 2026-11). */
const REGISTRY = '0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e'
const ABI = parseAbi([
  'function resolver(bytes32 node) view returns (address)',
  'function name(bytes32 node) view returns (string)',
  'function addr(bytes32 node) view returns (address)',
])
const ZERO_ADDRESS_PATTERN = /^0x0{40}$/

/**
 * Names by the registry alone: one that a resolver keeps elsewhere (CCIP read) would have us fetch
 * from an address that a stranger chose.
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

/** The primary name of an address; one that does not lead back to it is not its name. */
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
  // A name that is not spelled as it is looked up may look like another one.
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

/** Null for a contract that is not there or reverts; rejects when the node does not answer. */
async function nullIfReverts<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    if (isRpcUnavailable(error)) throw error
    return null
  }
}

/** ENSIP-15; its tables are large, so they are loaded by the first name. */
async function normalised(name: string): Promise<string | null> {
  const { normalize } = await import('viem/ens')
  try {
    return normalize(name)
  } catch {
    return null
  }
}
