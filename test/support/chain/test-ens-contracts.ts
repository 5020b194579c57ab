import { stringToHex } from 'viem'

/** Installs minimal ENS contracts on a local chain. */

type Rpc = (method: string, params: unknown[]) => Promise<unknown>

const REGISTRY = '0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e'
const RESOLVER = '0x00000000000000000000000000000000000E4501'

/**
 * Installs a registry that returns one resolver for every name, and a resolver that returns one
 * name and one address.
 */
export async function installEnsContracts(
  rpc: Rpc,
  { address, name }: { address: string; name: string },
) {
  // PUSH20 resolver, MSTORE at 0, RETURN 32 bytes
  await rpc('anvil_setCode', [REGISTRY, `0x73${RESOLVER.slice(2)}60005260206000f3`])
  const text = stringToHex(name, { size: 32 }).slice(2)
  const length = name.length.toString(16).padStart(2, '0')
  // jumps to 0x34 for the selector of name(bytes32), else returns the address
  const head = `60003560e01c63691f343114602c57`
  const addr = `73${address.slice(2)}60005260206000f3`
  const padding = '5b'.repeat(0x2c - (head.length + addr.length) / 2)
  const told = `5b602060005260${length}6020527f${text}60405260606000f3`
  await rpc('anvil_setCode', [RESOLVER, `0x${head}${addr}${padding}${told}`])
}
