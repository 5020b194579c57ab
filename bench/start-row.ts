import { rmSync } from 'node:fs'
import { as, clientOf, must, onboard, PAID } from '../scripts/prove/agents.ts'
import { median } from '../scripts/prove/figures.ts'
import { freePort, newDataDir, startStation } from '../scripts/prove/station.ts'
import { row, type Row } from './rows.ts'

/** From the start of the process to the answer of the first paid call. */
async function firstCall(dataDir: string): Promise<number> {
  const port = await freePort()
  const startedAt = performance.now()
  const station = await startStation({ dataDir, port })
  const client = clientOf(station.url, 1)
  try {
    const [agent] = await onboard(client, 1)
    if (agent === undefined) throw new Error('no agent was made')
    await must(client.send('POST', '/api/refuel', as(agent), PAID))
    return performance.now() - startedAt
  } finally {
    await client.close()
    await station.stop()
  }
}

/** Cold is an empty data directory: the database is made; warm finds it. */
export async function startRow(rounds: number): Promise<Row> {
  const [cold, warm] = [[] as number[], [] as number[]]
  for (let at = 0; at < rounds; at++) {
    const dataDir = newDataDir()
    try {
      cold.push(await firstCall(dataDir))
      warm.push(await firstCall(dataDir))
    } finally {
      rmSync(dataDir, { recursive: true, force: true })
    }
  }
  const seconds = (of: readonly number[]) => (median(of) / 1000).toFixed(2)
  return row({
    what: 'start of the built service to the answer of the first paid call, onboarding included',
    measured: `cold ${seconds(cold)} s, warm ${seconds(warm)} s`,
    baseline: '',
    result: `cold ${seconds(cold)} s, warm ${seconds(warm)} s`,
    target: 'cold <= 5 s, warm <= 1.5 s',
    met: median(cold) <= 5_000 && median(warm) <= 1_500,
    n: `${rounds} rounds`,
  })
}
