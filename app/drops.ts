import { runtime, type Runtime } from '../actors/runtime.ts'
import { systemClock } from '../core/clock.ts'
import { newName } from '../core/ids.ts'
import { isDatabaseLost } from '../http/database-lost.ts'
import { absorb } from '../payments/absorb.ts'
import { dropGet, dropOpen, type DropView } from '../payments/commands/drop.ts'
import { aggregateStore } from '../persistence/aggregates.ts'
import { callLog } from '../persistence/call-log.ts'
import { commitBatch } from '../persistence/commit.ts'
import { dropStore } from '../persistence/drops.ts'
import type { Sql } from '../persistence/plane.ts'

const SHOWN = 10
const CODE_CHARACTERS = 12

/** Opens a radio drop, straight in the database like every command of the operator. */
export const openDrop = (sql: Sql): Promise<DropView[]> =>
  asNode(sql, async ({ ask }) => [await ask(newCode(), dropOpen, {}, { fresh: true })])

/** The latest drops with what is left of them. */
export const listDrops = (sql: Sql): Promise<DropView[]> =>
  asNode(sql, async ({ ask }) => {
    const drops = await dropStore(sql).latest(SHOWN)
    return Promise.all(drops.map(({ code }) => ask(code, dropGet, {})))
  })

/** `RADIODROP-<code>` (spec 2.5), in characters that survive being read out. */
const newCode = (): string =>
  newName('RADIODROP')
    .toUpperCase()
    .replace('_', '-')
    .slice(0, 'RADIODROP-'.length + CODE_CHARACTERS)

/** A node for one errand: it takes part in the versions like any other. */
async function asNode<T>(sql: Sql, errand: (actors: Runtime) => Promise<T>): Promise<T> {
  const [clock, store] = [systemClock(), aggregateStore(sql)]
  clock.correct(await store.clockOffset(() => clock.now()))
  const actors = runtime({
    clock,
    store,
    callLog: callLog(sql),
    cache: null,
    commit: (changes, assertions) => commitBatch(sql, changes, assertions),
    isOutage: isDatabaseLost,
    absorb,
    log: (message, error) => console.error(`${message}: ${String(error)}`),
  })
  try {
    return await errand(actors)
  } finally {
    await actors.close()
  }
}
