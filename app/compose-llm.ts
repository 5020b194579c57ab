import { randomInt } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { micros } from '../core/money.ts'
import { llmSpend } from '../persistence/llm-spend.ts'
import type { Sql } from '../persistence/plane.ts'
import { answered } from '../persistence/within.ts'
import { createLlm } from '../tools/llm/llm.ts'
import type { Llm } from '../tools/llm/port.ts'
import { createPosting } from '../tools/upstream/posting.ts'
import type { Config } from './config.ts'

export interface LlmParts {
  readonly config: Config['llm']
  readonly clock: Clock
  readonly sql: Sql
  readonly userAgent: string
  readonly log: (message: string, error: unknown) => void
}

/** The operator's language models; null when there are none. */
export function composeLlm({ config, clock, sql, userAgent, log }: LlmParts) {
  const posting = createPosting(userAgent)
  const budget = config.dailyBudget
  const share = micros((budget * BigInt(config.callerPercent)) / 100n)
  const spend = llmSpend(sql, { budget, share })
  const llm: Llm | null = createLlm({
    providers: config.providers,
    posting,
    budget: { ...spend, take: (taking) => answered(spend.take(taking)) },
    clock,
    chance: () => randomInt(2 ** 32) / 2 ** 32,
    log,
  })
  return { llm, close: () => posting.close() }
}
