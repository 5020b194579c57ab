import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { chanceOf } from '../../scripts/prove/chance.ts'
import { planted, plants } from '../../scripts/prove/plants.ts'
import { raceOn } from '../../scripts/prove/race-stations.ts'
import type { Race } from '../../scripts/prove/races.ts'
import { newDataDir } from '../../scripts/prove/station.ts'
import { ROOT } from '../../scripts/root.ts'
import { buildService } from '../adversary/planting.ts'

/** Always the same sizes of limits; `npm run prove` draws new ones. */
const SEED = 11
const NODES = 2

const sound = await buildService(join(ROOT, '.cache/mutations'))

/** The races that are not as they must be, by their names. */
async function faultsOf(code: string): Promise<string[]> {
  const dataDir = newDataDir()
  try {
    const races = await raceOn(NODES, 1, { code, dataDir, chance: chanceOf(SEED) }, () => {})
    return races.filter(isBroken).map(({ name }) => name)
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

const isBroken = ({ over, wrong, faults }: Race) => over > 0 || wrong > 0 || faults.length > 0

t.test('the races find nothing in the service as it is', async (t) => {
  t.strictSame(await faultsOf(sound), [])
})

/** What the races find in seconds; the others take longer: `npm run prove -- --plant all`. */
for (const name of ['version', 'greedy', 'budget']) {
  const plant = plants[name]
  if (plant === undefined) throw new Error(`no bug ${name}`)
  t.test(`the races find ${name}: ${plant.says}`, async (t) => {
    const broken = await faultsOf(await planted(plant, sound))
    t.comment(broken.join(', '))
    t.not(broken.length, 0)
  })
}
