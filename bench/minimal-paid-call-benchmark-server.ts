import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'
import fastify from 'fastify'
import { signCallReceipt } from '../calls/call-receipts.ts'
import { connectToEmbeddedStationDatabase } from '../chaos/station-process.ts'
import type { CallRow } from '../core/aggregate-commit-row-types.ts'
import { newUuidV7 } from '../core/ids-and-api-keys.ts'
import { asMicros, toUsdc, type Micros } from '../core/money.ts'
import { commitBatch, type AggregateChanges } from '../persistence/commit-batch.ts'
import { migrateSchema } from '../persistence/migrate-schema.ts'

/**
 * The floor: the least service that keeps the promises of a paid call. One Fastify route checks a key
 * and a balance in memory, and commits the same rows through the same `commit_batch` in groups before it
 * answers with a receipt. It has no hooks, limits, machines, tools or other routes.
 */

const [, , dataDir = '', keyCount = '1'] = process.argv
const PRICE = asMicros(5_000n)
const FEE = asMicros(900n)
const DATABASE = 'floor'
const RECEIPT_KEY = Buffer.alloc(32, 1)

const admin = connectToEmbeddedStationDatabase(dataDir)
await admin`drop database if exists ${admin(DATABASE)} with (force)`
await admin`create database ${admin(DATABASE)}`
await admin.end({ timeout: 1 })
const sql = connectToEmbeddedStationDatabase(dataDir, 4, DATABASE)
await migrateSchema(sql)

interface FloorAgent {
  readonly id: string
  version: number
  balance: Micros
  calls: number
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('base64')
const agents = new Map<string, FloorAgent>()
for (let at = 0; at < Number(keyCount); at++) {
  const id = newUuidV7(Date.now())
  agents.set(sha256(String(at)), { id, version: 0, balance: asMicros(10n ** 12n), calls: 0 })
}

/** The state of an agent as text, of about the size that the service stores. */
const stateOf = ({ id, balance, calls }: FloorAgent): string =>
  JSON.stringify({
    value: 'healthy',
    context: { agentId: id, promo: `${balance}n`, cash: '0n', held: '0n', holds: {}, calls },
  })

type OpenChanges = { -readonly [K in keyof AggregateChanges]: AggregateChanges[K] } & {
  agent: FloorAgent
  journal: AggregateChanges['journal'][number][]
  prices: AggregateChanges['prices'][number][]
  calls: CallRow[]
  events: AggregateChanges['events'][number][]
}

let open = new Map<string, OpenChanges>()
let waiting: (() => void)[] = []
let running = false

const emptyChanges = (agent: FloorAgent): OpenChanges => ({
  agent,
  id: agent.id,
  kind: 'agent',
  oldVersion: agent.version,
  newVersion: agent.version,
  journal: [],
  actors: [],
  transfers: [],
  prices: [],
  calls: [],
  inbox: [],
  absorbed: [],
  events: [],
  removedTimers: [],
  timers: [],
  rows: [],
})

/** Commits what has come in since the last commit, as long as there is anything. */
async function commitWaiting(): Promise<void> {
  running = true
  while (waiting.length > 0) {
    const changes = [...open.values()].map(({ agent, ...one }) => ({
      ...one,
      actors: [
        { kind: 'agent', id: agent.id, machineVersion: 1, state: stateOf(agent), archived: false },
      ],
    }))
    const answers = waiting
    open = new Map()
    waiting = []
    const { bad } = await commitBatch(sql, changes, [])
    if (bad.size > 0) throw new Error('the floor has no other writer')
    for (const answer of answers) answer()
  }
  running = false
}

function recordCall(agent: FloorAgent, row: CallRow): void {
  const changes = open.get(agent.id) ?? emptyChanges(agent)
  open.set(agent.id, changes)
  agent.version += 1
  changes.newVersion = agent.version
  const { callId, at, tool } = row
  const note = { name: 'call.spend', input: { callId, tool, cost: '5000n' } }
  changes.journal.push({
    version: agent.version,
    commandId: newUuidV7(at),
    at,
    command: JSON.stringify(note),
    changed: `[{"kind":"agent","id":"${agent.id}","set":{"promo":"${agent.balance}n"}}]`,
  })
  const split = { source: 'free', amount: PRICE, fee: FEE, promo: PRICE } as const
  changes.prices.push({ ...split, id: newUuidV7(at), at, callId })
  changes.calls.push(row)
  const data = { call_id: callId, tool, rail: 'credits', cost_usdc: toUsdc(PRICE), ms: 0 }
  const about = { to: agent.id, backpackId: null, data, at, onlyIfHeard: true }
  changes.events.push({ type: 'tool_call', ...about })
}

const toRow = (agent: FloorAgent, at: number): CallRow => ({
  callId: newUuidV7(at),
  agentId: agent.id,
  keyId: null,
  operation: 'refuel',
  tool: 'hive_trending',
  rail: 'credits',
  cost: PRICE,
  status: 'ok',
  errorCode: null,
  ms: 0,
  taskId: null,
  backpackId: null,
  ghost: false,
  idempotencyKey: null,
  requestHash: null,
  response: null,
  at,
})

const app = fastify()
const schema = {
  body: {
    type: 'object',
    required: ['tool'],
    properties: { tool: { type: 'string' }, limit: { type: 'integer' } },
  },
} as const

app.post('/api/refuel', { schema }, async ({ headers }, reply) => {
  const agent = agents.get(sha256(String(headers['x-api-key'])))
  if (agent === undefined) return reply.code(401).send({ code: 'unauthenticated' })
  if (agent.balance < PRICE) return reply.code(402).send({ code: 'payment_required' })
  agent.balance = asMicros(agent.balance - PRICE)
  agent.calls += 1
  const at = Date.now()
  const row = toRow(agent, at)
  recordCall(agent, row)
  const balance = toUsdc(agent.balance)
  const committed = new Promise<void>((resolve) => waiting.push(resolve))
  if (!running) setImmediate(() => (running ? undefined : void commitWaiting()))
  await committed
  return {
    window_hours: 24,
    domains: [],
    tools: [],
    generated_at: new Date(at).toISOString(),
    _meta: {
      call_id: row.callId,
      cost_usdc: toUsdc(PRICE),
      balance_usdc: balance,
      rail: 'credits',
      ms: 0,
      receipt: signCallReceipt(RECEIPT_KEY, row, agent.id),
    },
  }
})

const address = await app.listen({ port: 0, host: '127.0.0.1' })
console.log(new URL(address).port)
createInterface(process.stdin).once('close', () => {
  void app.close().then(() => sql.end({ timeout: 1 }))
})
