import { rmSync } from 'node:fs'
import { clientOf, PAID } from '../scripts/prove/agents.ts'
import { freePort, newDataDir, openDatabase, startStation } from '../scripts/prove/station.ts'
import { contest } from './http-rows.ts'
import { giveKeys, populate } from './population.ts'
import { drive } from './processes.ts'
import { row, thousands, times, type Row, type Scale } from './rows.ts'

const CALLED = 1_000
const CHUNK = 100_000

interface Stand {
  readonly port: number
  readonly keys: readonly string[]
  close(): Promise<void>
}

/** A station over a database of its own with so many agents; `CALLED` of them are called. */
async function stand(stored: number, env: Readonly<Record<string, string>>): Promise<Stand> {
  const [dataDir, port] = [newDataDir(), await freePort()]
  const station = await startStation({ dataDir, port, env })
  const [sql, client] = [openDatabase(dataDir), clientOf(station.url, 1)]
  await sql`set statement_timeout = 0`
  const ids = await populate(client, sql, CALLED)
  for (let have = CALLED; have < stored; have += CHUNK) {
    await populate(client, sql, Math.min(CHUNK, stored - have))
  }
  const keys = await giveKeys(dataDir, sql, ids)
  await sql`checkpoint`
  return {
    port,
    keys,
    async close() {
      await client.close()
      await sql.end({ timeout: 1 })
      await station.stop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** The same calls to the same number of agents, in a small table and in a large one. */
export async function storedRow(
  stored: number,
  env: Readonly<Record<string, string>>,
  scale: Scale,
): Promise<Row> {
  const [few, many] = [await stand(CALLED, env), await stand(stored, env)]
  try {
    const plans = [many, few].map(({ port, keys }) => ({
      port,
      keys,
      path: '/api/refuel',
      connections: 64,
    }))
    for (const plan of plans)
      await drive({ ...plan, body: PAID, warmUpMs: 0, measureMs: 1, total: CALLED })
    const [large, small] = await contest(plans, scale)
    const ratio = (large?.rate ?? 0) / (small?.rate ?? 1)
    return row({
      what: `calls of ${thousands(CALLED)} agents with ${thousands(stored)} stored against ${thousands(CALLED)} stored`,
      measured: `${thousands(large?.rate ?? 0)}/s`,
      baseline: `${thousands(small?.rate ?? 0)}/s`,
      result: times(ratio),
      target: '>= 0.8x',
      met: ratio >= 0.8,
      n: `${scale.rounds} rounds, ${thousands(large?.answers ?? 0)} calls`,
    })
  } finally {
    await many.close()
    await few.close()
  }
}
