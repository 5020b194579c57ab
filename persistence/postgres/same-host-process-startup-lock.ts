import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { acceptsPostgresConnections } from './postmaster-pid-file.ts'

/** A start lock between the processes of a machine. */

const RETRY_MS = 20

/**
 * Lets one process of this machine at a time start something, so that two never remove each other's
 * files. The lock is a bound socket: the kernel frees it when its holder ends.
 */
export async function withMachineWideStartupLock<T>(
  subject: string,
  work: () => Promise<T>,
): Promise<T> {
  const name = `gas-station-lock-${createHash('sha1').update(subject).digest('hex').slice(0, 16)}`
  const path = process.platform === 'linux' ? `\0${name}` : join(tmpdir(), name)
  let held = await tryBind(path)
  while (held === null) {
    if (!path.startsWith('\0') && !(await acceptsPostgresConnections(path)))
      rmSync(path, { force: true })
    await sleep(RETRY_MS)
    held = await tryBind(path)
  }
  const server = held
  try {
    return await work()
  } finally {
    await new Promise((done) => server.close(done))
  }
}

function tryBind(path: string): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(null) : reject(error),
    )
    server.listen(path, () => resolve(server))
  })
}
