import t from 'tap'
import {
  adversaryStationSettings,
  createSimulatedOperatorActions,
} from '../../../chaos/adversary/adversary-operator-actions.ts'
import { formatAdversaryReport } from '../../../chaos/adversary/adversary-report.ts'
import { startLocalAdversaryWebsite } from '../../../chaos/adversary/website-called-by-adversary.ts'
import { runAdversary } from '../../../chaos/adversary/run-adversary.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/**
 * Random trades where promotional credits may reach other agents: no sequence of them takes out more
 * cash than came in.
 */

const OPERATIONS = 640
/** Always the same operations. */
const SEED = 17
/** What moves value, and the calls that spend it. */
const TRADES = {
  cheapCall: 4,
  send: 6,
  postBounty: 6,
  claimBounty: 6,
  cancelBounty: 3,
  createReferral: 3,
  onboardReferred: 3,
  redeemDrop: 3,
  publishStrategy: 3,
  forkStrategy: 6,
  createFleet: 1,
  joinFleet: 1,
  buyPass: 3,
  writeVault: 6,
  sellMemory: 8,
  buyListing: 16,
  withdrawListing: 2,
  registerTool: 4,
  invokeTool: 24,
  changeTool: 3,
}
/** Promotional credits may reach other agents here. */
const ALLOWED = new Set(['promo-received'])

t.test('no sequence of trades takes out more cash than came in', async (t) => {
  const site = await startLocalAdversaryWebsite(t)
  const settings = { ...adversaryStationSettings(site), PROMO_TRANSFERABLE: 'true' }
  const main = await startInProcessTestStation(t, settings)
  const stage = createSimulatedOperatorActions(t, [main.url], main.database, site)
  const outcome = await runAdversary(stage, {
    seed: SEED,
    operations: OPERATIONS,
    operationWeights: TRADES,
  })
  for (const line of formatAdversaryReport(SEED, outcome)) t.comment(line)
  t.strictSame(
    outcome.violations.filter(({ rule }) => !ALLOWED.has(rule)),
    [],
    `seed ${SEED}`,
  )
  for (const kind of ['sell', 'buy', 'fork', 'invoke', 'claim', 'bounty', 'referral pay-out'])
    t.ok((outcome.kinds.get(kind) ?? 0) > 0, `${kind} was tried`)

  // Builders were paid in both kinds of credits, and somebody was refunded.
  const shares = await main.sql<{ promo: boolean; n: number }[]>`
    select debit like '%:promo' as promo, count(*)::int as n from transfers t
     where kind = 'share' and exists (
             select from community_tool_calls c where c.call_id = t.call_id and c.ok)
     group by 1 order by 1`
  t.match([...shares], [{ promo: false }, { promo: true }], 'shares of builders')
  const [refunds] = await main.sql<{ n: number }[]>`
    select count(*)::int as n from community_tool_calls where not ok`
  t.ok((refunds?.n ?? 0) > 0, `${refunds?.n ?? 0} refunds`)

  // The rows of the ledger alone: what agents could take out, and what the station earned of them.
  const [sums] = await main.sql<{ arrived: bigint; extractable: bigint; earned: bigint }[]>`
    with moves as (
      select debit as account, -amount_micros as amount from transfers
      union all select credit, amount_micros from transfers),
    kinds as (select amount, case
        when account like 'world:%' or account like 'owed:%' then 'world'
        when account like '%:promo' then 'promo'
        when account in ('platform:tools', 'treasury:fees') then 'station' else 'agents' end as side from moves)
    select coalesce(-sum(amount) filter (where side = 'world'), 0)::bigint as arrived,
           coalesce(sum(amount) filter (where side = 'agents'), 0)::bigint as extractable,
           (select coalesce(sum(case when credit in ('platform:tools', 'treasury:fees') then amount_micros else -amount_micros end), 0)
              from transfers where (credit in ('platform:tools', 'treasury:fees') and debit not like '%:promo')
                or (debit in ('platform:tools', 'treasury:fees') and credit not like '%:promo'))::bigint as earned
      from kinds`
  const { arrived = 0n, extractable = 0n, earned = 0n } = sums ?? {}
  t.comment(`${arrived} arrived, ${extractable} can be taken out, the station earned ${earned}`)
  t.ok(arrived > 0n && earned > 0n)
  t.ok(extractable <= arrived, 'cash of agents never exceeds the deposits')
  t.equal(extractable + earned, arrived, 'cash is either with agents or with the station')
  await main.verify()
})
