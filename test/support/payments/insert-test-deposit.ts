import { stringifyWithBigints } from '../../../core/json/bigint.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../../core/money.ts'
import type { InProcessStation } from '../station/start-test-station.ts'

/**
 * Inserts a deposit as the chain watcher does: ledger row and message in one commit. Resolves to
 * its id.
 */
export async function insertArrivedDeposit(
  { sql }: Pick<InProcessStation, 'sql'>,
  agentId: string,
  usdc: number,
): Promise<string> {
  const [amount, arrival] = [fromUsdc(usdc), newUuidV7(Date.now())]
  const event = { type: 'DEPOSIT', id: arrival, pending: amount, chain: 'base', tx: '0x1' }
  await sql.begin(async (tx) => {
    await tx`insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
      values (${arrival}, ${agentId}, 'world:base', ${`agent:${agentId}:pending`}, ${amount}, 'deposit', now())`
    await tx`insert into inbox (receiver, receiver_kind, id, event, at)
      values (${agentId}, 'agent', ${`deposit:${arrival}`},
              ${stringifyWithBigints({ ...event, source: 'deposit' })}::text::jsonb, now())`
  })
  return arrival
}
