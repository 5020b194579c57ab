import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createSeededRandom } from '../../../chaos/seeded-random.ts'
import { buildMutantOfService, CHAOS_PROOF_MUTANTS } from '../../../chaos/chaos-proof-mutants.ts'
import { raceLimitsOnStations } from '../../../chaos/limit-race-stations.ts'
import type { LimitRaceResult } from '../../../chaos/limit-races.ts'
import { createProofDataDirectory } from '../../../chaos/station-process.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { buildUnmodifiedService } from '../../../chaos/adversary/build-mutants.ts'

/** Always the same sizes of limits; `npm run prove` draws new ones. */
const SEED = 11
const NODES = 2

const sound = await buildUnmodifiedService(join(REPOSITORY_ROOT, '.cache/mutations'))

/** A mutant may never answer; then its clients need not wait for its longest command. */
const MUTANT_ANSWER_MS = 10_000

/** The first race that is not as it must be, by its name; empty if all are. */
async function faultsOf(code: string, answerMs?: number): Promise<string[]> {
  const dataDir = createProofDataDirectory()
  try {
    const races = await raceLimitsOnStations(
      NODES,
      1,
      {
        code,
        dataDir,
        chance: createSeededRandom(SEED),
        endsAfter: isBroken,
        ...(answerMs !== undefined && { answerMs }),
      },
      () => {},
    )
    return races.filter(isBroken).map(({ name }) => name)
  } catch (error) {
    if ((error as { code?: string }).code !== 'UND_ERR_HEADERS_TIMEOUT') throw error
    return ['a request without an answer']
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

const isBroken = ({ overserved, wronglyRejected, faults }: LimitRaceResult) =>
  overserved > 0 || wronglyRejected > 0 || faults.length > 0

t.test('the races find nothing in the unchanged service', async (t) => {
  t.strictSame(await faultsOf(sound), [])
})

/** Mutations that the races find in seconds; for the others use `npm run prove -- --plant all`. */
for (const name of ['version', 'greedy', 'budget', 'fuse', 'keys']) {
  const plant = CHAOS_PROOF_MUTANTS[name]
  if (plant === undefined) throw new Error(`no bug ${name}`)
  t.test(`the races find ${name}: ${plant.description}`, async (t) => {
    const broken = await faultsOf(await buildMutantOfService(plant, sound), MUTANT_ANSWER_MS)
    t.comment(broken.join(', '))
    t.not(broken.length, 0)
  })
}
