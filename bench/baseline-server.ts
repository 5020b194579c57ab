import { createInterface } from 'node:readline'
import { join } from 'node:path'
import fastify from 'fastify'
import postgres from 'postgres'
import {
  postgresSocketPath,
  readPostmasterPidFile,
} from '../persistence/postgres/postmaster-pid-file.ts'

/**
 * Baseline server: the same Fastify route over the same database with a row lock and one
 * transaction per call, plus a route that only parses and echoes. It is what a careful author writes:
 * a pool of open connections, prepared statements, an index for each read, no query but the four it needs.
 */

const [, , dataDir = '', keyCount = '1'] = process.argv
const PRICE = 5_000
/** As many as the station has; the pool of the station would run six transactions at once. */
const CONNECTIONS = 10

const socketDir = readPostmasterPidFile(join(dataDir, 'pg18'))?.socketDir ?? dataDir
const sql = postgres({
  path: postgresSocketPath(socketDir),
  database: 'gas',
  username: 'gas',
  max: CONNECTIONS,
  // Each statement is parsed and planned once a connection.
  prepare: true,
  fetch_types: false,
  onnotice: () => undefined,
  types: { bigint: postgres.BigInt },
})
await sql`drop schema if exists naive cascade`
await sql`create schema naive`
await sql`create table naive.accounts (id int primary key, balance bigint not null check (balance >= 0))`
await sql`create table naive.ledger (
  id bigint generated always as identity primary key, account int not null, amount bigint not null,
  tool text not null, at timestamptz not null default now())`
await sql`insert into naive.accounts select n, 1000000000000 from generate_series(0, ${Number(keyCount)}::int - 1) n`

const app = fastify()
const schema = {
  body: {
    type: 'object',
    required: ['tool'],
    properties: { tool: { type: 'string' }, limit: { type: 'integer' } },
  },
} as const

app.post('/echo', { schema }, async ({ body }) => body)

app.post('/api/refuel', { schema }, async ({ body, headers }, reply) => {
  const account = Number(headers['x-api-key'])
  const { tool } = body as { tool: string }
  const balance = await sql.begin(async (tx) => {
    const [row] = await tx<{ balance: bigint }[]>`
      select balance from naive.accounts where id = ${account} for update`
    if (row === undefined || row.balance < BigInt(PRICE)) return null
    await tx`update naive.accounts set balance = balance - ${PRICE} where id = ${account}`
    await tx`insert into naive.ledger (account, amount, tool) values (${account}, ${PRICE}, ${tool})`
    return row.balance - BigInt(PRICE)
  })
  if (balance === null) return reply.code(402).send({ code: 'payment_required' })
  return { tool, cost_usdc: PRICE / 1_000_000, balance_usdc: Number(balance) / 1_000_000 }
})

const address = await app.listen({ port: 0, host: '127.0.0.1' })
console.log(new URL(address).port)
createInterface(process.stdin).once('close', () => {
  void app.close().then(() => sql.end({ timeout: 1 }))
})
