import { describePostgresStorageFault } from '../persistence/database-writability-monitor.ts'

/** Recognises errors that mean Postgres is unavailable. */

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
 * Returns whether an error means that Postgres cannot be reached or cannot store anything now: codes of the
 * driver; a server that stops, starts or has no connections, disk or memory left; a socket that does not
 * connect. Follows causes.
 */
export function isDatabaseUnavailableError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (describePostgresStorageFault(error) !== null) return true
  const { code, syscall, address, cause } = error as NodeJS.ErrnoException & {
    address?: string
    cause?: unknown
  }
  if (typeof code === 'string') {
    if (UNAVAILABLE_CODES.test(code)) return true
    // ENOENT of a file is a bug; ENOENT of a socket means that the database is down.
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
