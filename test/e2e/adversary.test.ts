import t from 'tap'
import { reportOf } from '../adversary/report.ts'
import { startSite } from '../adversary/site.ts'
import { settingsFor, stageOf } from '../adversary/stage.ts'
import { EVERYTHING, play } from '../adversary/suite.ts'
import { startStation } from '../support/station.ts'

const OPERATIONS = 2_000
/** Always the same operations; `npm run adversary` draws new ones. */
const SEED = 12

t.test(
  `${OPERATIONS} operations of colluding agents bring no value that is not paid for`,
  { timeout: 290_000 },
  async (t) => {
    const site = await startSite(t)
    const settings = settingsFor(site)
    const main = await startStation(t, settings)
    const limited = { ...settings, RATE_LIMITS: 'on' }
    const beside = await startStation(t, limited, { database: main.database })
    const stage = stageOf(t, [main.url, beside.url], main.database, site)
    const outcome = await play(stage, { seed: SEED, operations: OPERATIONS, profile: EVERYTHING })
    for (const line of reportOf(SEED, outcome)) t.comment(line)
    t.strictSame(outcome.violations, [], `seed ${SEED}`)
    for (const kind of ['escape', 'onboard bound', 'claim', 'sandbox cut', 'replay rotate'])
      t.ok((outcome.kinds.get(kind) ?? 0) > 0, `${kind} was tried`)
  },
)
