import { connect, isIPv6 } from 'node:net'
import type { ConnectionOptions } from 'node:tls'

/** Where a database is, in the terms of both drivers, so that they never read one text in two ways. */

interface DatabaseLogin {
  readonly database: string
  readonly user: string
  readonly password?: string | null
  /** Settings of the session, as `-c name=value`. */
  readonly options?: string
}

/** A server on the network. */
export interface NetworkDatabase extends DatabaseLogin {
  readonly host: string
  readonly port: number
  readonly tls: DatabaseTls
}

/** A server on a unix socket, whose directory may change on a restart. */
export interface SocketDatabase extends DatabaseLogin {
  readonly socketDir: () => string
  readonly port?: number
}

export type DatabaseAddress = NetworkDatabase | SocketDatabase

/** `prefer` encrypts where the server can; it is decided once, before the first connection. */
export type DatabaseTls = 'disable' | 'prefer' | ConnectionOptions

/** Host, port and name of a database, for people. */
export function describeDatabase(target: DatabaseAddress): string {
  if ('socketDir' in target) return `${target.socketDir()}, database ${target.database}`
  const { host, port, database } = target
  return `${isIPv6(host) ? `[${host}]` : host}:${port}/${database}`
}

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])
const PROBE_MS = 4_000

/** Replaces `prefer` by what the server can, so that all connections do the same. */
export async function decideTls(target: DatabaseAddress): Promise<DatabaseAddress> {
  if ('socketDir' in target || target.tls !== 'prefer') return target
  const offered = await offersTls(target)
  return { ...target, tls: offered ? { rejectUnauthorized: false } : 'disable' }
}

/** An unreachable server offers none: the first connection tells why. */
function offersTls({ host, port }: NetworkDatabase): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: PROBE_MS })
    const settle = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => socket.write(SSL_REQUEST))
    socket.once('data', (data) => settle(data[0] === 'S'.charCodeAt(0)))
    for (const event of ['error', 'close', 'timeout']) socket.once(event, () => settle(false))
  })
}
