import { toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { SpendLine } from '../persistence/backpack-statement.ts'
import type { CallCause, StatementLine, StatementPage, Walk } from '../persistence/statement.ts'
import { totalOf, type Balances } from '../persistence/statement-rows.ts'
import { instant } from './schemas.ts'
import type { Services } from './services.ts'
import type { Subject } from './statement-cursor.ts'
import { wordsOf, type Words } from './statement-words.ts'

/** A movement as the interface tells it. */
export interface Entry {
  readonly movement_id: string
  readonly id: string
  readonly kind: string
  readonly description: string
  readonly amount_usdc: number
  readonly promo_usdc: number | null
  readonly cash_usdc: number | null
  readonly held_usdc: number | null
  readonly fee_usdc: number
  readonly rail: string | null
  readonly call_id: string | null
  readonly tool: string | null
  readonly task_id: string | null
  readonly backpack_id: string | null
  readonly counterparty: Words['counterparty']
  readonly agent_id: string | null
  readonly reference: string | null
  readonly memo: string | null
  readonly balance: BalanceView | null
  readonly spent_total_usdc: number | null
  readonly created_at: string
}

export interface BalanceView {
  readonly promo_usdc: number
  readonly cash_usdc: number
  readonly held_usdc: number
  readonly total_usdc: number
}

/** What a statement is read from: the credits of an agent, or the spend of one Backpack. */
export interface Source {
  begin(): Promise<Walk>
  page(walk: Walk, limit: number): Promise<{ entries: Entry[]; next: Walk | null }>
}

/** The statement of an agent: every movement of its credits, with the balances it left. */
export function agentSource({ statements }: Services, agentId: string, { span }: Subject): Source {
  return {
    begin: () => statements.begin(agentId, span),
    async page(walk, limit) {
      const page = await statements.page(agentId, span, walk, limit)
      const causes = await causesOf(statements, agentId, page)
      const entries = page.lines.map((line) =>
        presentLine(line, agentId, causes.get(line.callId ?? '') ?? null),
      )
      return { entries, next: page.next }
    },
  }
}

/** The statement of a Backpack: what its calls cost, by any rail, and what it has spent after each. */
export function backpackSource(
  { backpackStatements: store }: Services,
  agentId: string,
  backpackId: string,
  { span }: Subject,
): Source {
  return {
    begin: () => store.begin(agentId, backpackId, span),
    async page(walk, limit) {
      const { lines, next } = await store.page(agentId, backpackId, span, walk, limit)
      return { entries: lines.map((line) => presentSpend(line, backpackId)), next }
    },
  }
}

/** Calls are the agent's own: what a caller of somebody else asked is not told. */
function causesOf(
  statements: Services['statements'],
  agentId: string,
  { lines }: StatementPage,
): Promise<Map<string, CallCause>> {
  const ids = lines.flatMap(({ owner, callId }) =>
    owner === agentId && callId !== null ? [callId] : [],
  )
  return statements.callsOf(agentId, [...new Set(ids)])
}

const TRANSFERS: ReadonlySet<string> = new Set(['send', 'tip'])

function presentLine(line: StatementLine, agentId: string, cause: CallCause | null): Entry {
  const {
    kind,
    description,
    counterparty,
    agentId: other,
    reference,
  } = wordsOf(line, agentId, cause)
  const { promo, cash, held } = line.change
  const isTransfer = TRANSFERS.has(line.kind)
  return {
    movement_id: line.id,
    id: line.id,
    kind,
    description,
    amount_usdc: toUsdc(totalOf(line.change)),
    promo_usdc: toUsdc(promo),
    cash_usdc: toUsdc(cash),
    held_usdc: toUsdc(held),
    fee_usdc: toUsdc(line.fee),
    rail: null,
    // A share belongs to the call of somebody else, and a transfer to no call.
    call_id: isTransfer || line.kind === 'share' ? null : line.callId,
    tool: cause?.tool ?? null,
    task_id: cause?.taskId ?? null,
    backpack_id: cause?.backpackId ?? null,
    counterparty,
    agent_id: other,
    reference: isTransfer ? line.callId : reference,
    memo: isTransfer ? line.memo : null,
    balance: presentBalances(line.after),
    spent_total_usdc: null,
    created_at: instant(line.at),
  }
}

const NONE = { fee_usdc: 0, agent_id: null, reference: null, memo: null, balance: null } as const
const negative = (amount: Micros): number => (amount === ZERO ? 0 : -toUsdc(amount))

const presentSpend = (line: SpendLine, backpackId: string): Entry => ({
  ...NONE,
  movement_id: line.id,
  id: line.id,
  kind: 'call',
  description: `Price of ${line.tool ?? line.operation}`,
  amount_usdc: negative(line.cost),
  promo_usdc: null,
  cash_usdc: null,
  held_usdc: null,
  rail: line.rail,
  call_id: line.id,
  tool: line.tool,
  task_id: line.taskId,
  backpack_id: backpackId,
  counterparty: 'station',
  spent_total_usdc: toUsdc(line.spentAfter),
  created_at: instant(line.at),
})

export const presentBalances = (balances: Balances): BalanceView => ({
  promo_usdc: toUsdc(balances.promo),
  cash_usdc: toUsdc(balances.cash),
  held_usdc: toUsdc(balances.held),
  total_usdc: toUsdc(totalOf(balances)),
})
