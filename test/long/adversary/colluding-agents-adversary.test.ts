import t from 'tap'
import { formatAdversaryReport } from '../../../chaos/adversary/adversary-report.ts'
import { startLocalAdversaryWebsite } from '../../../chaos/adversary/website-called-by-adversary.ts'
import {
  adversaryStationSettings,
  createSimulatedOperatorActions,
} from '../../../chaos/adversary/adversary-operator-actions.ts'
import {
  ALL_ADVERSARY_OPERATION_WEIGHTS,
  runAdversary,
} from '../../../chaos/adversary/run-adversary.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const OPERATIONS = 2_000
/** Always the same operations; `npm run adversary` draws new ones. */
const SEED = 12

t.test(
  `${OPERATIONS} operations of colluding agents get no unpaid value`,
  { timeout: 290_000 },
  async (t) => {
    const site = await startLocalAdversaryWebsite(t)
    const settings = adversaryStationSettings(site)
    const main = await startInProcessTestStation(t, settings)
    const limited = { ...settings, RATE_LIMITS: 'on' }
    const beside = await startInProcessTestStation(t, limited, { database: main.database })
    const stage = createSimulatedOperatorActions(t, [main.url, beside.url], main.database, site)
    const outcome = await runAdversary(stage, {
      seed: SEED,
      operations: OPERATIONS,
      operationWeights: ALL_ADVERSARY_OPERATION_WEIGHTS,
    })
    for (const line of formatAdversaryReport(SEED, outcome)) t.comment(line)
    t.strictSame(outcome.violations, [], `seed ${SEED}`)
    for (const kind of ['escape', 'onboard bound', 'claim', 'sandbox cut', 'replay rotate'])
      t.ok((outcome.kinds.get(kind) ?? 0) > 0, `${kind} was tried`)
  },
)
