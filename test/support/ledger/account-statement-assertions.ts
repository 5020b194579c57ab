import type { Test } from 'tap'
import type { TestAgent, TestStation, InProcessStation } from '../station/start-test-station.ts'

/** Balances of a statement, in USDC. */
export interface PromoCashHeldBalances {
  readonly promo_usdc: number
  readonly cash_usdc: number
  readonly held_usdc: number
  readonly total_usdc: number
}

/** Fields of a statement movement that tests read. */
export interface AccountStatementMovementFields extends PromoCashHeldBalances {
  readonly movement_id: string
  readonly kind: string
  readonly amount_usdc: number
  readonly fee_usdc: number
  readonly call_id: string | null
  readonly tool: string | null
  readonly agent_id: string | null
  readonly reference: string | null
  readonly memo: string | null
  readonly balance: PromoCashHeldBalances
  readonly spent_total_usdc: number | null
  readonly created_at: string
}

const BALANCE_FIELDS = ['promo_usdc', 'cash_usdc', 'held_usdc'] as const
const micros = (usdc: number): number => Math.round(usdc * 1e6)

/** Reads all pages of a statement; `between` runs before each page but the first. */
export async function readWholeAccountStatement(
  node: Pick<TestStation, 'ask'>,
  { key }: Pick<TestAgent, 'key'>,
  limit: number,
  query = '',
  between: () => Promise<unknown> = async () => {},
): Promise<AccountStatementMovementFields[]> {
  const lines: AccountStatementMovementFields[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const at: string = cursor === '' ? '' : `&cursor=${cursor}`
    const path = `/api/agent/statement?limit=${limit}${at}${query}`
    const { status, body, text } = await node.ask('GET', path, { key })
    if (status !== 200) throw new Error(`statement answered ${status}: ${text}`)
    lines.push(...(body['movements'] as AccountStatementMovementFields[]))
    cursor = body['next_cursor'] as string | null
    if (cursor !== null) await between()
  }
  return lines
}

/** Asserts that each balance equals the previous one plus the movement, starting at zero. */
export function assertRunningBalances(
  t: Pick<Test, 'strictSame'>,
  lines: readonly AccountStatementMovementFields[],
): void {
  const wrong = lines.filter((line, at) => {
    const before = lines[at + 1]?.balance
    const isNext = BALANCE_FIELDS.every(
      (part) => micros(line.balance[part]) === micros(before?.[part] ?? 0) + micros(line[part]),
    )
    const sum = BALANCE_FIELDS.reduce((all, part) => all + micros(line[part]), 0)
    const total = BALANCE_FIELDS.reduce((all, part) => all + micros(line.balance[part]), 0)
    return !isNext || sum !== micros(line.amount_usdc) || total !== micros(line.balance.total_usdc)
  })
  t.strictSame(wrong, [], 'each balance follows from the one before it')
}

/** Asserts that the statement adds up and equals the balance route and the ledger. */
export async function assertAccountStatementMatchesLedger(
  t: Pick<Test, 'strictSame' | 'equal'>,
  node: InProcessStation,
  guest: TestAgent,
): Promise<AccountStatementMovementFields[]> {
  const lines = await readWholeAccountStatement(node, guest, 7)
  assertRunningBalances(t, lines)
  const { body } = await node.ask('GET', '/api/credits/balance', { key: guest.key })
  const ledger = await node.sql<{ part: string; amount: bigint }[]>`
    select part, coalesce((select sum(case when credit = a then amount_micros else -amount_micros end)
             from transfers where credit = a or debit = a), 0)::bigint as amount
      from unnest(array['promo', 'cash', 'held']) p(part), lateral (select 'agent:' || ${guest.id}::text || ':' || part) l(a)`
  for (const part of BALANCE_FIELDS) {
    const sum = lines.reduce((all, line) => all + micros(line[part]), 0)
    t.equal(sum, micros(Number(body[part])), `${part} is what the balance says`)
    const booked = ledger.find((row) => `${row.part}_usdc` === part)?.amount
    t.equal(BigInt(sum), booked, `${part} is what the ledger says`)
    t.equal(micros(lines[0]?.balance[part] ?? 0), sum, `${part} is the last balance`)
  }
  t.equal(new Set(lines.map((line) => line.movement_id)).size, lines.length, 'each id once')
  return lines
}
