import { toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { BackpackSpendLine } from '../../persistence/account-statement/backpack-account-statement-store.ts'
import type {
  AccountStatementCallDetails,
  AccountStatementLine,
  AccountStatementPage,
  AccountStatementPosition,
} from '../../persistence/account-statement/account-statement-store.ts'
import {
  totalCreditBalance,
  type CreditBalances,
} from '../../persistence/account-statement/account-statement-movements.ts'
import { getAgentBalanceCommand } from '../../payments/commands/agent-account-commands.ts'
import { toIsoTime } from '../schemas/shared-schemas.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'
import type { AccountStatementCursorScope } from './account-statement-cursor.ts'
import {
  describeLedgerMovement,
  type LedgerMovementDescription,
} from './ledger-movement-description.ts'

/** A movement as the API returns it. */
export interface AccountStatementEntry {
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
  readonly counterparty: LedgerMovementDescription['counterparty']
  readonly agent_id: string | null
  readonly reference: string | null
  readonly memo: string | null
  readonly balance: CreditBalancesUsdc | null
  readonly spent_total_usdc: number | null
  readonly created_at: string
}

export interface CreditBalancesUsdc {
  readonly promo_usdc: number
  readonly cash_usdc: number
  readonly held_usdc: number
  readonly total_usdc: number
}

/** The source of a statement: the credits of an agent, or the spending of one Backpack. */
export interface AccountStatementSource {
  begin(): Promise<AccountStatementPosition>
  page(
    walk: AccountStatementPosition,
    limit: number,
  ): Promise<{ entries: AccountStatementEntry[]; next: AccountStatementPosition | null }>
}

/** The statement of an agent: every movement of its credits, with the resulting balances. */
export function createAgentAccountStatementSource(
  { actors, statements }: HttpServices,
  agentId: string,
  { timeBounds }: AccountStatementCursorScope,
): AccountStatementSource {
  return {
    async begin() {
      // Absorbs the inbox: a deposit that waits there is in the balance of the agent, and is credited
      // in the ledger only then.
      await actors.ask(agentId, getAgentBalanceCommand, {})
      return statements.begin(agentId, timeBounds)
    },
    async page(walk, limit) {
      const page = await statements.page(agentId, timeBounds, walk, limit)
      const causes = await readCallCauses(statements, agentId, page)
      const entries = page.lines.map((line) =>
        presentLine(line, agentId, causes.get(line.callId ?? '') ?? null),
      )
      return { entries, next: page.next }
    },
  }
}

/** The statement of a Backpack: the cost of its calls on any rail, with the running total. */
export function createBackpackAccountStatementSource(
  { backpackStatements: store }: HttpServices,
  agentId: string,
  backpackId: string,
  { timeBounds }: AccountStatementCursorScope,
): AccountStatementSource {
  return {
    begin: () => store.begin(agentId, backpackId, timeBounds),
    async page(walk, limit) {
      const { lines, next } = await store.page(agentId, backpackId, timeBounds, walk, limit)
      return { entries: lines.map((line) => presentSpend(line, backpackId)), next }
    },
  }
}

/** Reads the agent's own calls only; calls of other agents stay private. */
function readCallCauses(
  statements: HttpServices['statements'],
  agentId: string,
  { lines }: AccountStatementPage,
): Promise<Map<string, AccountStatementCallDetails>> {
  const ids = lines.flatMap(({ owner, callId }) =>
    owner === agentId && callId !== null ? [callId] : [],
  )
  return statements.callsOf(agentId, [...new Set(ids)])
}

/** Movements that belong to another agent's call, or to a purchase. */
const WITHOUT_CALL: ReadonlySet<string> = new Set(['share', 'sale'])
const TRANSFERS: ReadonlySet<string> = new Set(['send', 'tip'])

function presentLine(
  line: AccountStatementLine,
  agentId: string,
  cause: AccountStatementCallDetails | null,
): AccountStatementEntry {
  const {
    kind,
    description,
    counterparty,
    agentId: other,
    reference,
  } = describeLedgerMovement(line, agentId, cause)
  const { promo, cash, held } = line.change
  const isTransfer = TRANSFERS.has(line.kind)
  return {
    movement_id: line.id,
    id: line.id,
    kind,
    description,
    amount_usdc: toUsdc(totalCreditBalance(line.change)),
    promo_usdc: toUsdc(promo),
    cash_usdc: toUsdc(cash),
    held_usdc: toUsdc(held),
    fee_usdc: toUsdc(line.fee),
    rail: line.kind === 'pass_call' ? 'pass' : null,
    call_id: isTransfer || WITHOUT_CALL.has(line.kind) ? null : line.callId,
    tool: cause?.tool ?? null,
    task_id: cause?.taskId ?? null,
    backpack_id: cause?.backpackId ?? null,
    counterparty,
    agent_id: other,
    reference: isTransfer ? line.callId : reference,
    memo: isTransfer ? line.memo : null,
    balance: toCreditBalancesUsdc(line.after),
    spent_total_usdc: null,
    created_at: toIsoTime(line.at),
  }
}

const EMPTY_ENTRY_FIELDS = {
  fee_usdc: 0,
  agent_id: null,
  reference: null,
  memo: null,
  balance: null,
} as const
const negativeUsdc = (amount: Micros): number => (amount === ZERO_MICROS ? 0 : -toUsdc(amount))

const presentSpend = (line: BackpackSpendLine, backpackId: string): AccountStatementEntry => ({
  ...EMPTY_ENTRY_FIELDS,
  movement_id: line.id,
  id: line.id,
  kind: 'call',
  description: `Price of ${line.tool ?? line.operation}`,
  amount_usdc: negativeUsdc(line.cost),
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
  created_at: toIsoTime(line.at),
})

export const toCreditBalancesUsdc = (balances: CreditBalances): CreditBalancesUsdc => ({
  promo_usdc: toUsdc(balances.promo),
  cash_usdc: toUsdc(balances.cash),
  held_usdc: toUsdc(balances.held),
  total_usdc: toUsdc(totalCreditBalance(balances)),
})
