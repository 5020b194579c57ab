import type { ActorSystem } from '../../actors/aggregate-command-types.ts'
import type { Clock } from '../../core/clock.ts'
import { createSendAgentMessage } from '../../http/actions/send-agent-message.ts'
import { createPublishSignal } from '../../http/actions/publish-signal.ts'
import { createPublishAgentPulse } from '../../http/actions/publish-pulse.ts'
import type { AggregateChanges, CommitBatchResult } from '../../persistence/commit-batch.ts'
import type { ApiKeyStore } from '../../persistence/agents/api-key-store.ts'
import type { AgentMessageStore } from '../../persistence/agents/agent-message-store.ts'
import type { IdempotentWrites } from '../../persistence/idempotency/idempotent-writes.ts'
import { createOutboxStore } from '../../persistence/outbox-store.ts'
import type { StationPostgresAndRedis } from '../../persistence/start-postgres-and-redis.ts'
import type { AgentProfileStore } from '../../persistence/agents/agent-profile-store.ts'
import { createAgentGoalPulseStore } from '../../persistence/realtime/agent-goal-pulse-store.ts'
import { enterCursorEpochs } from '../../persistence/realtime/cursor-epochs.ts'
import { createSignalStore } from '../../persistence/realtime/channel-signal-store.ts'
import { startRealtimeService } from '../../realtime/realtime-service.ts'
import type { Config } from '../config.ts'

/** Composes signals, pulses, messages and streams. */

export interface ComposeRealtimeDeps {
  readonly config: Pick<Config, 'promoTransferable'>
  readonly clock: Clock
  readonly plane: Pick<StationPostgresAndRedis, 'sql' | 'bus'>
  readonly keys: Pick<ApiKeyStore, 'find'>
  readonly log: (message: string, error: unknown) => void
}

/** Services that publishing needs. */
export interface RealtimePublishingDeps {
  readonly actors: ActorSystem
  readonly once: IdempotentWrites
  readonly profiles: Pick<AgentProfileStore, 'has'>
  readonly messages: AgentMessageStore
}

/** Creates the realtime services of this node. */
export async function composeRealtime({ config, clock, plane, keys, log }: ComposeRealtimeDeps) {
  const { sql, bus } = plane
  const [signals, pulses, outbox] = [
    createSignalStore(sql),
    createAgentGoalPulseStore(sql),
    createOutboxStore(sql),
  ]
  const epochs = await enterCursorEpochs(sql)
  const stores = { signals, outbox, pulses, keys, epochs }
  const live = await startRealtimeService({ ...stores, clock, bus, log })
  return {
    /** Services for the routes. */
    served(deps: RealtimePublishingDeps) {
      const parts = { ...deps, clock, signals, pulses, realtime: live }
      return {
        messages: deps.messages,
        events: outbox,
        signals,
        pulses,
        realtime: live,
        publish: createPublishSignal({ ...parts, promoTransferable: config.promoTransferable }),
        pulse: createPublishAgentPulse(parts),
        send: createSendAgentMessage(parts),
      }
    },
    /** Called after each commit: announces its events and signals. */
    committed(changes: readonly AggregateChanges[], { storedEvents }: CommitBatchResult): void {
      if (storedEvents > 0) live.grew('outbox')
      if (changes.some(({ rows }) => rows.some(({ table }) => table === 'signals')))
        live.grew('signals')
    },
    async sweep(now: Date): Promise<void> {
      await Promise.all([
        ...[signals.sweep(now), pulses.sweep(now)],
        ...[live.keepHearing(), live.renewEpochs()],
      ])
    },
    stop: live.stop,
  }
}
