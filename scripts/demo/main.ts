import { booksAgree } from './books.ts'
import { scoutTriesAll } from './catalogue.ts'
import type { Day } from './day.ts'
import { doorOf } from './door.ts'
import { agentsShare, moneyComesIn } from './funding.ts'
import { strangerPays } from './paying.ts'
import { startWorld, type World } from './world.ts'
import { agentsJoin, ownerSetsLimits, scoutWorks } from './working.ts'

const seconds = () => process.uptime().toFixed(1)

console.log(
  "A day of agents at the gas station: no network, no keys, every answer the service's own.",
)
const world = await startWorld()
try {
  await live(world)
} catch (error) {
  // Broken off, whatever was going on goes wrong.
  if (process.exitCode === undefined) {
    console.error(`\nThe day went wrong after ${seconds()} s: ${messageOf(error)}`)
    process.exitCode = 1
  }
} finally {
  await world.stop()
}
if (process.exitCode === undefined) console.log(`\nThe day is over after ${seconds()} s.`)

async function live({ url, plane }: World): Promise<void> {
  console.log(`A local Base, a local Tempo and a station are up after ${seconds()} s.\n${plane}`)
  const day: Day = { world, ask: doorOf(url), settlements: new Set() }
  const { mentor, scout } = await agentsJoin(day)
  await scoutWorks(day, scout, mentor)
  await ownerSetsLimits(day, scout)
  await strangerPays(day)
  const owner = await moneyComesIn(day, scout, mentor)
  await agentsShare(day, owner, scout, mentor)
  await scoutTriesAll(day, scout)
  await booksAgree(day)
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : `${error.message} (${messageOf(error.cause)})`
}
