import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Below the ports that systems deal out by themselves. */
const [FIRST, COUNT] = [10_000, 20_000]

/** A port that stays free: nobody is given it by chance between this look and its use, or while a station restarts. */
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
