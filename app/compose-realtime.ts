import type { Actors } from '../actors/command.ts'
import type { Clock } from '../core/clock.ts'
import { messaging } from '../http/messaging.ts'
import { publishing } from '../http/publishing.ts'
import { pulsing } from '../http/pulsing.ts'
import type { AggregateChanges } from '../persistence/commit.ts'
import type { KeyStore } from '../persistence/keys.ts'
import type { MessageStore } from '../persistence/messages.ts'
import type { Once } from '../persistence/once.ts'
import { outboxStore } from '../persistence/outbox.ts'
import type { Plane } from '../persistence/plane.ts'
import type { ProfileStore } from '../persistence/profiles.ts'
import { pulseStore } from '../persistence/pulses.ts'
import { signalStore } from '../persistence/signals.ts'
import { realtime } from '../realtime/realtime.ts'
import type { Config } from './config.ts'

export interface RealtimeSettings {
  readonly config: Pick<Config, 'promoTransferable'>
  readonly clock: Clock
  readonly plane: Pick<Plane, 'sql' | 'bus'>
  readonly keys: Pick<KeyStore, 'find'>
  readonly log: (message: string, error: unknown) => void
}

/** What publishing, pulsing and writing messages stand on. */
export interface SpeakerParts {
  readonly actors: Actors
  readonly once: Once
  readonly profiles: Pick<ProfileStore, 'has'>
  readonly messages: MessageStore
}

/** Signals, pulses and the streams of this node. */
export async function composeRealtime({ config, clock, plane, keys, log }: RealtimeSettings) {
  const { sql, bus } = plane
  const [signals, pulses, outbox] = [signalStore(sql), pulseStore(sql), outboxStore(sql)]
  const live = await realtime({ clock, bus, signals, outbox, pulses, keys, log })
  return {
    /** What the routes reach of it. */
    served(speaker: SpeakerParts) {
      const parts = { ...speaker, clock, signals, pulses, realtime: live }
      return {
        messages: speaker.messages,
        events: outbox,
        signals,
        pulses,
        realtime: live,
        publish: publishing({ ...parts, promoTransferable: config.promoTransferable }),
        pulse: pulsing(parts),
        send: messaging(parts),
      }
    },
    /** Called after each commit: what it let out is on its way to every stream at once. */
    committed(changes: readonly AggregateChanges[]): void {
      if (changes.some(({ events }) => events.length > 0)) live.grew('outbox')
      if (changes.some(({ rows }) => rows.some(({ table }) => table === 'signals')))
        live.grew('signals')
    },
    async sweep(now: Date): Promise<void> {
      await Promise.all([signals.sweep(now), pulses.sweep(now)])
    },
    stop: live.stop,
  }
}
