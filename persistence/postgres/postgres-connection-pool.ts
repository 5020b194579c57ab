import { connect as connectSocket } from 'node:net'
import postgres from 'postgres'
import { waitForConnections } from './connection-wait.ts'
import type { DatabaseAddress } from './database-address.ts'
import { POSTGRES_ARRAY_TYPES } from './postgres-driver-array-type-codecs.ts'
import { postgresSocketPath } from './postmaster-pid-file.ts'
import {
  createSelfReplacingPostgresClient,
  type PostgresClientEvents,
  type RenewableConnections,
} from './self-replacing-postgres-client.ts'
import { createTransactionSessions } from './database-transaction-sessions.ts'

/** int8 comes back as bigint; sums need a cast to `::bigint`. */
export type Sql = postgres.Sql<{ bigint: bigint }>

export interface PostgresPoolOptions {
  readonly max: number
  /** The ids of the master keys of the connecting station. */
  readonly keyIds?: readonly string[]
}

export interface DedicatedConnectionOptions {
  /** Called when the connection closes. */
  readonly onclose: () => void
  readonly onnotify: (channel: string, payload: string) => void
}

/** Concurrent transactions per pool; most writes are single statements. */
const MAX_CONCURRENT_TRANSACTIONS = 6

/**
 * Opens a pool that fails fast: without a server a query is rejected within the connect timeout. A
 * server without free connections is asked again for up to eight seconds. A fixed short pause
 * replaces the growing one, so that the pool recovers with the server. A closed connection is never
 * reused. Transactions use up to six connections of their own, opened on demand.
 */
export function openPostgresPool(
  target: DatabaseAddress,
  options: PostgresPoolOptions,
): Sql & RenewableConnections {
  const { keyIds = [] } = options
  const pool = createSelfReplacingPostgresClient((events) =>
    openClient(target, { ...options, ...events }),
  )
  const session = (onclose: () => void) =>
    openClient(target, { max: 1, standing: true, keyIds, onclose })
  const { begin, drop, end } = createTransactionSessions(pool, session, MAX_CONCURRENT_TRANSACTIONS)
  const { renew } = pool
  return Object.assign(pool, {
    begin: begin as Sql['begin'],
    end,
    renew() {
      drop()
      renew()
    },
  })
}

/** Opens a single long-lived connection. */
export const openDedicatedConnection = (
  target: DatabaseAddress,
  options: DedicatedConnectionOptions,
): Sql => openClient(target, { ...options, max: 1, standing: true })

interface PostgresClientOptions
  extends PostgresPoolOptions, Partial<PostgresClientEvents & DedicatedConnectionOptions> {
  readonly standing?: boolean
}

function openClient(
  target: DatabaseAddress,
  { onrefused, ...settings }: PostgresClientOptions,
): Sql {
  const client = createDriverClient(target, settings)
  return onrefused === undefined ? client : waitForConnections(client, onrefused)
}

function createDriverClient(
  target: DatabaseAddress,
  { max, standing = false, keyIds = [], ...hooks }: Omit<PostgresClientOptions, 'onrefused'>,
): Sql {
  const { options: sessionOptions = '' } = target
  const options = {
    ...hooks,
    max,
    types: { bigint: postgres.BigInt, ...POSTGRES_ARRAY_TYPES },
    fetch_types: false,
    ...(standing ? { max_lifetime: null, idle_timeout: 0 } : {}),
    // Long enough that a briefly busy process does not report itself as disconnected.
    connect_timeout: 4,
    backoff: () => 0.02,
    prepare: true,
    onnotice: () => undefined,
    connection: {
      application_name: ['gas-station', ...(keyIds.length > 0 ? ['key', ...keyIds] : [])].join(' '),
      // Compiling a statement takes longer than running any of ours. On by default where LLVM is installed.
      jit: 'off',
      statement_timeout: 30_000,
      lock_timeout: 10_000,
      idle_in_transaction_session_timeout: 30_000,
      ...(sessionOptions === '' ? {} : { options: sessionOptions }),
    },
  }
  return postgres({ ...options, ...toServerOptions(target) } as postgres.Options<{
    bigint: postgres.PostgresType<bigint>
  }>)
}

/** Everything that the driver would else take from variables such as `PGHOST`. */
function toServerOptions(target: DatabaseAddress) {
  const { database, user } = target
  const login = { database, user, password: target.password ?? '' }
  if ('socketDir' in target) {
    const { socketDir, port } = target
    const socket = (): unknown => connectSocket(postgresSocketPath(socketDir(), port))
    return { ...login, host: 'localhost', ssl: false, socket }
  }
  const { host, port, tls } = target
  return { ...login, host: [host], port: [port], ssl: tls === 'disable' ? false : tls }
}
