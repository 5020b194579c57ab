import { findStorageFault } from '../persistence/storage-monitor.ts'

const UNAVAILABLE_CODES = /^(CONNECTION_|CONNECT_TIMEOUT$|57P0|08|53300$)/
const SOCKET_ERROR_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'ENOTFOUND',
])

/**
 * Whether an error says that Postgres cannot be reached or cannot store anything right now: the driver's
 * own codes, a server that is stopping or starting or has no room (connections, disk, memory), or a
 * socket that does not connect. Looks through causes.
 */
export function isDatabaseUnavailableError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (findStorageFault(error) !== null) return true
  const { code, syscall, address, cause } = error as NodeJS.ErrnoException & {
    address?: string
    cause?: unknown
  }
  if (typeof code === 'string') {
    if (UNAVAILABLE_CODES.test(code)) return true
    // A file that is missing is a bug; a socket that is missing is a database that is away.
    const connecting = syscall === 'connect' || syscall === 'read' || syscall === 'write'
    if (
      SOCKET_ERROR_CODES.has(code) &&
      (connecting || (address !== undefined && code !== 'ENOENT'))
    )
      return true
  }
  if (error instanceof AggregateError && error.errors.some(isDatabaseUnavailableError)) return true
  return cause !== undefined && isDatabaseUnavailableError(cause)
}
