import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CallRequest } from '../calls/call-request-and-reply-types.ts'
import type * as Compose from '../app/compose/compose-station.ts'
import type * as Configuration from '../app/config.ts'
import type * as Purse from '../payments/commands/agent-account-commands.ts'
import { CHAOS_PAID_TOOL_REQUEST_BODY } from '../chaos/station-http-client.ts'
import { STATION_BUILD_DIR, OFFLINE_STATION_SETTINGS } from '../chaos/station-process.ts'

/**
 * Runs the service without HTTP, controlled by lines on stdin: `call <agent> <callers> <ms>` pays
 * for calls of one agent and prints calls per second; `hydrate` loads the agents listed on the next
 * lines and prints the memory per agent.
 */

const [, , dataDir = ''] = process.argv
// Imports the built service: a TypeScript loader would distort the result.
const built = async <M>(path: string): Promise<M> =>
  (await import(join(STATION_BUILD_DIR, path))) as M
const { composeStation: compose } = await built<typeof Compose>('app/compose/compose-station.js')
const { loadConfig } = await built<typeof Configuration>('app/config.js')
const { getAgentBalanceCommand: balance } = await built<typeof Purse>(
  'payments/commands/agent-account-commands.js',
)
const env = {
  ...OFFLINE_STATION_SETTINGS,
  DATA_DIR: dataDir,
  PATH: process.env['PATH'],
  RESIDENT_AGENTS: '1000000',
}
const station = await compose(loadConfig(env))
const { calls } = station.server.services

async function pay(agentId: string, callers: number, ms: number): Promise<number> {
  // Each call gets its own signal, as each connection has one: a call listens to it while it runs.
  const request = (): CallRequest => ({
    tool: CHAOS_PAID_TOOL_REQUEST_BODY.tool,
    body: { limit: CHAOS_PAID_TOOL_REQUEST_BODY.limit },
    caller: { agentId, key: null, keyStatus: 'valid', visitorId: 'bench', siteId: null },
    taskId: null,
    backpackId: null,
    ghost: 'off',
    door: { path: '/api/refuel', body: Buffer.alloc(0), paymentHeader: null, fingerprint: '' },
    idempotency: null,
    connection: { closed: false, closeSignal: new AbortController().signal },
    requestId: 'bench',
  })
  let paid = 0
  const until = performance.now() + ms
  const caller = async (): Promise<void> => {
    const own = request()
    while (performance.now() < until) {
      await calls.refuel(own)
      paid += 1
    }
  }
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: callers }, caller))
  return paid / ((performance.now() - startedAt) / 1000)
}

const AT_ONCE = 500

async function hydrate(ids: readonly string[]): Promise<object> {
  const before = await memory()
  const startedAt = performance.now()
  for (let from = 0; from < ids.length; from += AT_ONCE) {
    await Promise.all(
      ids.slice(from, from + AT_ONCE).map((id) => station.actors.ask(id, balance, {})),
    )
  }
  const ms = performance.now() - startedAt
  const after = await memory()
  return {
    ms,
    heap: after.heapUsed - before.heapUsed,
    rss: after.rss - before.rss,
    resident: station.actors.stats().resident,
  }
}

/** Memory after garbage collection. */
async function memory(): Promise<NodeJS.MemoryUsage> {
  for (let times = 0; times < 5; times++) {
    globalThis.gc?.()
    await sleep(200)
  }
  return process.memoryUsage()
}

console.log('ready')
for await (const line of createInterface(process.stdin)) {
  const [word, ...args] = line.split(' ')
  if (word === 'call') {
    const [agentId = '', callers, ms] = args
    console.log(String(await pay(agentId, Number(callers), Number(ms))))
  } else if (word === 'hydrate') {
    console.log(JSON.stringify(await hydrate(args)))
  }
}
await station.close()
