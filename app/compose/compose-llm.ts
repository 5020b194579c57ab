import { randomInt } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import { asMicros } from '../../core/money.ts'
import { createLlmSpendStore } from '../../persistence/calls/llm-spend-store.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import { createLlmClient } from '../../providers/llm/llm-client-with-failover-and-budget.ts'
import type { LlmClient } from '../../providers/llm/llm-port.ts'
import { createStreamingPostClient } from '../../providers/upstream/streaming-post-client.ts'
import type { Config } from '../config.ts'

/** Composes the language model client. */

export interface ComposeLlmDeps {
  readonly config: Config['llm']
  readonly clock: Clock
  readonly sql: Sql
  readonly userAgent: string
  readonly log: (message: string, error: unknown) => void
}

/** Creates the client of the operator's language models; null without any. */
export function composeLlm({ config, clock, sql, userAgent, log }: ComposeLlmDeps) {
  const postClient = createStreamingPostClient(userAgent)
  const budget = config.dailyBudget
  const share = asMicros((budget * BigInt(config.callerPercent)) / 100n)
  const spend = createLlmSpendStore(sql, { budget, share })
  const llm: LlmClient | null = createLlmClient({
    providers: config.providers,
    postClient,
    budget: { ...spend, reserve: (taking) => withDatabaseAnswerTimeout(spend.take(taking)) },
    clock,
    random: () => randomInt(2 ** 32) / 2 ** 32,
    log,
  })
  return { llm, close: () => postClient.close() }
}
