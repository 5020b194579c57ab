import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Finds TCP ports that stay free across restarts. */

/** Below the ephemeral port range. */
const [FIRST, COUNT] = [10_000, 20_000]

/**
 * Returns a free port that the system does not assign to another process, even while a station
 * restarts.
 */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = FIRST + randomInt(COUNT)
    if (await isPortFree(port)) return port
  }
}

function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer().once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
