import { randomBytes } from 'node:crypto'
import { openDrop } from '../../app/drops.ts'
import { asNode } from '../../app/errand.ts'
import { encode } from '../../core/codec.ts'
import { newId } from '../../core/ids.ts'
import { fromUsdc } from '../../core/money.ts'
import { fleetTopUp } from '../../payments/commands/fleet.ts'
import type { Sql } from '../../persistence/plane.ts'
import type { TestDatabase } from '../support/database.ts'
import { dueSlots } from '../support/due-slots.ts'
import type { startSite } from './site.ts'
import type { Stage } from './suite.ts'

interface Teardown {
  teardown(work: () => unknown): unknown
}

const ONBOARD_PER_HOUR = 10

/** What every station of the suite is started with. */
export const settingsFor = (site: { base: string; port: number }) => ({
  PROMO_TRANSFERABLE: 'false',
  ONBOARD_PER_HOUR_PER_IP: String(ONBOARD_PER_HOUR),
  SSRF_ALLOW: `127.0.0.1:${site.port}`,
  SEARXNG_URL: site.base,
  COINGECKO_BASE: site.base,
})

/** The operator's side of the suite over stations that are running. */
export function stageOf(
  t: Teardown,
  nodes: readonly string[],
  database: TestDatabase,
  site: Awaited<ReturnType<typeof startSite>>,
): Stage {
  const { sql } = database
  const time = dueSlots(t, database)
  return {
    nodes,
    sql,
    site: site.base,
    terms: { startersAnAddress: ONBOARD_PER_HOUR },
    deposit: (agentId, usdc) => deposit(sql, agentId, usdc),
    fundFleet: (fleetId, usdc) => fundFleet(sql, fleetId, usdc),
    openDrop: async () => (await openDrop(sql))[0]?.code ?? '',
    passTime: () => time.pass(),
    settle: () => time.settled(),
  }
}

/** A top-up as it is booked when its transaction was found on the chain. */
async function fundFleet(sql: Sql, fleetId: string, usdc: number): Promise<void> {
  const tx = `0x${randomBytes(32).toString('hex')}`
  const transfers = [{ logIndex: 0, amount: fromUsdc(usdc) }]
  await asNode(sql, ({ ask }) => ask(fleetId, fleetTopUp, { tx, transfers }))
}

/** A deposit as the watcher of the chain books it: the ledger row and the message, in one commit. */
async function deposit(sql: Sql, agentId: string, usdc: number): Promise<void> {
  const [amount, arrival] = [fromUsdc(usdc), newId(Date.now())]
  const event = { type: 'DEPOSIT', id: arrival, pending: amount, chain: 'base', tx: '0x1' }
  await sql.begin(async (tx) => {
    await tx`insert into transfers (id, owner, debit, credit, amount_micros, kind, at)
      values (${arrival}, ${agentId}, 'world:base', ${`agent:${agentId}:pending`}, ${amount}, 'deposit', now())`
    await tx`insert into inbox (receiver, receiver_kind, id, event, at)
      values (${agentId}, 'agent', ${`deposit:${arrival}`},
              ${encode({ ...event, source: 'deposit' })}::text::jsonb, now())`
  })
}
