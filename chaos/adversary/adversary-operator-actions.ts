import { randomBytes } from 'node:crypto'
import { openCreditDrop } from '../../app/cli/operator/cli-credit-drops.ts'
import { withCliActorRuntime } from '../../app/cli/operator/temporary-actor-runtime-for-cli.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../core/money.ts'
import { topUpFleetCommand } from '../../payments/commands/fleet-commands.ts'
import { readBonusLeft } from '../../persistence/payments/bonus-left.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import type { TestDatabase } from '../../test/support/postgres/test-database.ts'
import { createScheduleSlotDriver } from '../../test/support/schedules/make-schedule-slots-due.ts'
import type { LocalAdversaryWebsite } from './website-called-by-adversary.ts'
import type { SimulatedOperatorActions } from './run-adversary.ts'

/** Settings and operator actions of the adversary suite. */

interface Teardown {
  teardown(work: () => unknown): unknown
}

const ONBOARD_PER_HOUR = 10

/** Settings of every station of the suite. */
export const adversaryStationSettings = (site: { base: string; port: number }) => ({
  PROMO_TRANSFERABLE: 'false',
  ONBOARD_PER_HOUR_PER_IP: String(ONBOARD_PER_HOUR),
  SSRF_ALLOW: `127.0.0.1:${site.port}`,
  SEARXNG_URL: site.base,
  COINGECKO_BASE: site.base,
})

/** Operator actions on running stations. */
export function createSimulatedOperatorActions(
  t: Teardown,
  nodes: readonly string[],
  database: TestDatabase,
  site: LocalAdversaryWebsite,
): SimulatedOperatorActions {
  const { sql } = database
  const time = createScheduleSlotDriver(t, database)
  return {
    nodes,
    sql,
    site,
    terms: { startersAnAddress: ONBOARD_PER_HOUR },
    deposit: (agentId, usdc) => deposit(sql, agentId, usdc),
    fundFleet: (fleetId, usdc) => fundFleet(sql, fleetId, usdc),
    openDrop: async () => (await openCreditDrop(sql))[0]?.code ?? '',
    makeSlotsDue: () => time.pass(),
    waitForSlots: () => time.settled(),
  }
}

/** Credits a top-up as the service does after it finds the transaction. */
async function fundFleet(sql: Sql, fleetId: string, usdc: number): Promise<void> {
  const tx = `0x${randomBytes(32).toString('hex')}`
  const transfers = [{ logIndex: 0, amount: fromUsdc(usdc) }]
  const bonusLeft = await readBonusLeft(sql, fleetId)
  await withCliActorRuntime(sql, ({ ask }) =>
    ask(fleetId, topUpFleetCommand, { tx, transfers, bonusLeft }),
  )
}

/** Credits a deposit as the chain watcher does: ledger row and message in one commit. */
async function deposit(sql: Sql, agentId: string, usdc: number): Promise<void> {
  const [amount, arrival] = [fromUsdc(usdc), newUuidV7(Date.now())]
  const event = { type: 'DEPOSIT', id: arrival, pending: amount, chain: 'base', tx: '0x1' }
  await sql.begin(async (tx) => {
    await tx`insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
      values (${arrival}, ${agentId}, 'world:base', ${`agent:${agentId}:pending`}, ${amount}, 'deposit', now())`
    await tx`insert into inbox (receiver, receiver_kind, id, event, at)
      values (${agentId}, 'agent', ${`deposit:${arrival}`},
              ${stringifyWithBigints({ ...event, source: 'deposit' })}::text::jsonb, now())`
  })
}
