/** Installs a minimal price oracle on a local chain. */

type Rpc = (method: string, params: unknown[]) => Promise<unknown>

const word = (value: bigint) => value.toString(16).padStart(16, '0')

/** A price oracle with eight decimals and one round. */
export async function installPriceOracle(rpc: Rpc, feed: string, usd: number, updatedAt: number) {
  const answer = BigInt(Math.round(usd * 1e8))
  const seconds = BigInt(Math.floor(updatedAt / 1_000))
  // decimals() jumps past the round: five words, of which the second and the fourth are used
  const round = `600160005267${word(answer)}60205267${word(seconds)}60605260a06000f3`
  const code = `0x60003560e01c63313ce56714603157${round}5b600860005260206000f3`
  await rpc('anvil_setCode', [feed, code])
}
