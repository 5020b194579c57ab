import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import {
  createAgentGoalPulseStore,
  type AgentGoalPulse,
} from '../../persistence/realtime/agent-goal-pulse-store.ts'
import { PULSES_CHANNEL } from '../../realtime/signal-channel-names.ts'
import { createBroadcastHub } from '../../realtime/broadcast-hub.ts'
import { createPulseSubscriberRelay } from '../../realtime/pulse-relay.ts'
import { createWebSocketAndSseEventEncoder } from '../../realtime/encoded-websocket-and-sse-events.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

const AGENTS = 150
const TIMES = 5

t.test('a slow listener gets the latest pulse of each agent only', async (t) => {
  const { sql } = await createTestDatabase(t)
  const clock = createDatabaseAdjustedClock()
  const store = createAgentGoalPulseStore(sql)
  const log = (message: string) => t.fail(message)
  const encoder = createWebSocketAndSseEventEncoder<AgentGoalPulse>(
    ({ agentId, idleCycles }) => `${agentId} ${idleCycles}\n`,
  )
  const at = createBroadcastHub<AgentGoalPulse>({
    clock,
    channelOf: () => PULSES_CHANNEL,
    encoder,
    log,
  })
  const [latest, lines] = [new Map<string, string>(), [] as string[]]
  let [passed, most] = [0, 0]
  const listener = at.addSubscriber(
    (told) => {
      for (const line of String(Buffer.concat(told.events())).trim().split('\n')) {
        lines.push(line)
        const [agentId = '', cycles = ''] = line.split(' ')
        latest.set(agentId, cycles)
      }
      const until = performance.now() + 20
      while (performance.now() < until);
    },
    () => t.fail('it did not throw'),
  )
  listener.listen(PULSES_CHANNEL)
  const pass = (rows: readonly AgentGoalPulse[], through: bigint) => {
    passed += rows.length
    most = Math.max(most, passed - lines.length)
    at.pass(rows, through)
  }
  const passer = createPulseSubscriberRelay({ clock, log, pulses: store, hub: { ...at, pass } })

  const agents = Array.from({ length: AGENTS }, () => randomUUID())
  for (let cycle = 1; cycle <= TIMES; cycle += 1) {
    await sql.begin(async (tx) => {
      for (const agentId of agents) {
        const [now, later] = [new Date(), new Date(Date.now() + 60_000)]
        const pulse = { agentId, goalVector: 'g', confidence: 1, idleCycles: cycle }
        await store.put(tx, { ...pulse, at: now, expiresAt: later })
      }
    })
    passer.of(agents)
  }
  while (latest.size < AGENTS || [...latest.values()].some((cycles) => cycles !== String(TIMES)))
    await new Promise((resolve) => setImmediate(resolve))
  t.ok(lines.length < AGENTS * TIMES, `${lines.length} were told`)
  t.ok(most <= 80, `${most} waited at most`)
})
