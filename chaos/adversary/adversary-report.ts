import type { AdversaryRunResult } from './run-adversary.ts'

/** Formats the result of an adversary run. */

/** Violations shown per rule. */
const MAX_SHOWN_PER_RULE = 4

const sorted = (tally: ReadonlyMap<string, number>): string =>
  [...tally]
    .sort(([, a], [, b]) => b - a)
    .map(([name, times]) => `${name} ${times}`)
    .join(' · ')

/** Formats the figures of a run, its violations, and the operations before the first one. */
export function formatAdversaryReport(
  seed: number,
  { violations, totals, ...outcome }: AdversaryRunResult,
): string[] {
  const { offered, paid, cashIn, promoGranted, verified } = totals
  const usdc = (amount: number) => amount.toFixed(3)
  const lines = [
    `operations: ${sorted(outcome.kinds)}`,
    `answers: ${sorted(outcome.answers)}`,
    `streams delivered ${usdc(offered)} USDC, paid ${usdc(paid)}; cash in ${usdc(cashIn)}, promo granted ${usdc(promoGranted)}; gas verify: ${verified} rules`,
    `seed ${seed}: ${violations.length} violations`,
  ]
  if (violations.length === 0) return lines
  const rules = new Map<string, number>()
  const found: string[] = []
  for (const { rule, description, operation } of violations) {
    const times = (rules.get(rule) ?? 0) + 1
    rules.set(rule, times)
    if (times <= MAX_SHOWN_PER_RULE) found.push(`${rule} at ${operation}: ${description}`)
  }
  return [
    ...lines,
    `by rule: ${sorted(rules)}`,
    ...found,
    'before the first of them:',
    ...outcome.trace,
  ]
}
