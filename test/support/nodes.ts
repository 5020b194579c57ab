import type { Test as Tap } from 'tap'
import type { Command } from '../../actors/command.ts'
import { backpackCreate } from '../../actors/commands/backpacks.ts'
import { DAY } from '../../core/clock.ts'
import { fromUsdc } from '../../core/money.ts'
import { balance } from '../../payments/commands/purse.ts'
import { testDatabase } from './database.ts'
import { type Node, type NodeOptions, breaches, node, testClock } from './runtime.ts'

type Test = { teardown(work: () => unknown): unknown }

/** So many nodes over one database of their own. */
async function nodes(t: Test, count: number, options: NodeOptions = {}) {
  const { sql } = await testDatabase(t)
  const clock = options.clock ?? testClock()
  return { sql, all: Array.from({ length: count }, () => node(t, sql, { ...options, clock })) }
}
export async function single(t: Test, options: NodeOptions = {}) {
  const { sql, all } = await nodes(t, 1, options)
  return { sql, one: all[0] as Node }
}
export async function pair(t: Test, options: NodeOptions = {}) {
  const { sql, all } = await nodes(t, 2, options)
  return { sql, one: all[0] as Node, two: all[1] as Node }
}

/** Whoever spends without a key and outside every Backpack. */
export const UNLIMITED = { key: null, backpackId: null } as const
export const send = (toAgentId: string, usdc: number) => ({
  toAgentId,
  amount: fromUsdc(usdc),
  memo: null,
  promoTransferable: true,
  spender: UNLIMITED,
})
export const name = (text: string) => ({ name: text, budget: fromUsdc(1) })
export const money = async (at: Node, id: string) => (await at.ask(id, balance, {})).promo
export const soundly = async (t: Tap, sql: Parameters<typeof breaches>[0]) =>
  t.strictSame(await breaches(sql), {}, 'gas verify finds nothing')

/** A command that counts how often it is applied and does what it is told. */
export function probe(
  apply: Command<undefined, unknown>['apply'],
): Command<undefined, unknown> & { runs: number } {
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
export const packOf = (at: Node, id: string, perCall: number | null, days = 90, now = Date.now()) =>
  at.ask(id, backpackCreate, {
    agentName: 'scout',
    tools: null,
    fuse: { perCall: perCall === null ? null : fromUsdc(perCall), perDay: null, perMonth: null },
    pager: PAGER,
    expiresAt: now + days * DAY,
  })
