import { randomUUID } from 'node:crypto'
import t from 'tap'
import { systemClock } from '../../core/clock.ts'
import { pulseStore, type Pulse } from '../../persistence/pulses.ts'
import { PULSES } from '../../realtime/channels.ts'
import { hub } from '../../realtime/hub.ts'
import { pulsePasser } from '../../realtime/pulse-passer.ts'
import { wording } from '../../realtime/told.ts'
import { testDatabase } from '../support/database.ts'

const AGENTS = 150
const TIMES = 5

t.test('who listens slowly is told the latest of each agent, and not all that was', async (t) => {
  const { sql } = await testDatabase(t)
  const clock = systemClock()
  const store = pulseStore(sql)
  const log = (message: string) => t.fail(message)
  const words = wording<Pulse>(({ agentId, idleCycles }) => `${agentId} ${idleCycles}\n`)
  const at = hub<Pulse>({ clock, channelOf: () => PULSES, words, log })
  const [latest, lines] = [new Map<string, string>(), [] as string[]]
  let [passed, most] = [0, 0]
  const listener = at.listener(
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
  listener.listen(PULSES)
  const pass = (rows: readonly Pulse[], through: bigint) => {
    passed += rows.length
    most = Math.max(most, passed - lines.length)
    at.pass(rows, through)
  }
  const passer = pulsePasser({ clock, log, pulses: store, hub: { ...at, pass } })

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
