import type { Test as Tap } from 'tap'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { createBackpackCommand } from '../../../actors/commands/backpacks-commands.ts'
import { DAY } from '../../../core/clock.ts'
import { fromUsdc } from '../../../core/money.ts'
import { getAgentBalanceCommand } from '../../../payments/commands/agent-account-commands.ts'
import { createTestDatabase } from '../postgres/test-database.ts'
import {
  type TestActorNode,
  type TestActorNodeOptions,
  findInvariantViolations,
  createTestActorNode,
  createTestClock,
} from './test-actor-node.ts'

/** One or two nodes over a new database, and commands to probe them. */

type Test = { teardown(work: () => unknown): unknown }

/** Creates this number of nodes over one new database. */
async function createNodes(t: Test, count: number, options: TestActorNodeOptions = {}) {
  const { sql } = await createTestDatabase(t)
  const clock = options.clock ?? createTestClock()
  return {
    sql,
    all: Array.from({ length: count }, () => createTestActorNode(t, sql, { ...options, clock })),
  }
}
export async function createSingleTestActorNode(t: Test, options: TestActorNodeOptions = {}) {
  const { sql, all } = await createNodes(t, 1, options)
  return { sql, one: all[0] as TestActorNode }
}
export async function createTestActorNodePair(t: Test, options: TestActorNodeOptions = {}) {
  const { sql, all } = await createNodes(t, 2, options)
  return { sql, one: all[0] as TestActorNode, two: all[1] as TestActorNode }
}

/** A spender without a key, outside every Backpack and task. */
export const UNLIMITED_SPENDER = { key: null, backpackId: null, taskId: null } as const
export const sampleCreditTransferInput = (toAgentId: string, usdc: number) => ({
  toAgentId,
  amount: fromUsdc(usdc),
  memo: null,
  promoTransferable: true,
  spender: UNLIMITED_SPENDER,
})
export const sampleTaskInput = (text: string) => ({ name: text, budget: fromUsdc(1) })
export const readPromoBalance = async (at: TestActorNode, id: string) =>
  (await at.ask(id, getAgentBalanceCommand, {})).promo
export const assertNoInvariantViolations = async (
  t: Tap,
  sql: Parameters<typeof findInvariantViolations>[0],
) => t.strictSame(await findInvariantViolations(sql), {}, 'gas verify finds nothing')

/** A command that counts its executions and runs the given function. */
export function createCountingAggregateCommand(
  apply: AggregateCommand<undefined, unknown>['apply'],
): AggregateCommand<undefined, unknown> & { runs: number } {
  const command = {
    name: 'probe',
    kind: 'agent' as const,
    runs: 0,
    apply(turn: Parameters<typeof apply>[0]) {
      command.runs += 1
      return apply(turn, undefined)
    },
  }
  return command
}

const PAGER = { webhookUrl: null, ownerEmail: null, ownerTelegram: null }
export const createTestBackpack = (
  at: TestActorNode,
  id: string,
  perCall: number | null,
  days = 90,
  now = Date.now(),
) =>
  at.ask(id, createBackpackCommand, {
    agentName: 'scout',
    tools: null,
    fuse: { perCall: perCall === null ? null : fromUsdc(perCall), perDay: null, perMonth: null },
    pager: PAGER,
    expiresAt: now + days * DAY,
  })
