import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { KeyRecord } from '../../persistence/keys.ts'
import type { AddressedEvent } from '../../persistence/outbox.ts'
import type { CatchUp, Gap } from '../../realtime/catch-up.ts'
import { channelNamed, demandReadable, inboxOf, PULSES } from '../../realtime/channels.ts'
import type { Realtime } from '../../realtime/realtime.ts'
import { factFrame, isWithin, signalFrame } from '../../realtime/views.ts'
import { CLOSE } from './frames.ts'
import type { Outlet } from './outlet.ts'

export interface Cursors {
  readonly signals: string
  readonly outbox: string
}

/** What one socket listens to. */
export interface Subscriptions {
  /** From now on, or from a cursor: the own channel, with the facts addressed to the agent. */
  own(from: Cursors | null): Promise<void>
  /** Answers the channels as they are called, and whether nothing was missed. */
  subscribe(names: readonly string[], since: string | null): Promise<Subscribed>
  unsubscribe(names: readonly string[]): string[]
  /** Everything up to here has been sent on every channel. */
  cursors(): Cursors
  /** Tells what waits, and nothing more. */
  end(): void
}

interface Subscribed {
  readonly channels: string[]
  readonly recovered: boolean
}

export function subscriptions(
  realtime: Realtime,
  out: Outlet,
  { agentId, backpackId }: Pick<KeyRecord, 'agentId' | 'backpackId'>,
): Subscriptions {
  const open = new Map<string, () => void>()
  const own = inboxOf(agentId)
  /** It comes back with its cursor. */
  const failed = () => out.close(CLOSE.internal, 'internal error')
  const signals = realtime.listeners.signals(out.tell, failed)
  const heard = backpackId === null ? () => true : isWithin(backpackId)
  const facts = realtime.listeners.facts(out.tell, failed, heard)
  const pulses = realtime.listeners.pulses(out.tellLatest, failed)
  let ended = false

  function listen(channel: string): void {
    if (ended || open.has(channel)) return
    open.set(channel, (channel === PULSES ? pulses : signals).listen(channel))
  }
  function silence(channels: readonly string[]): void {
    for (const channel of channels) {
      open.get(channel)?.()
      open.delete(channel)
    }
  }
  function listenToFacts(): void {
    if (!ended) facts.listen(own)
  }

  /** Catches up from a cursor; answers whether nothing was missed. */
  async function recover<T>(
    since: string,
    frame: (row: T) => string | null,
    replay: (asking: CatchUp<T>) => Promise<void>,
    live: () => void,
  ): Promise<boolean> {
    let recovered = true
    await replay({
      since: BigInt(since),
      gap(gap) {
        recovered = false
        out.send(gapFrame(gap))
      },
      replay(row) {
        const text = frame(row)
        if (text !== null) out.write(text)
      },
      room: out.room,
      live,
    })
    return recovered
  }

  const recoverSignals = (channels: readonly string[], since: string) =>
    recover(
      since,
      signalFrame,
      (asking) => realtime.replaySignals(agentId, channels, asking),
      () => channels.forEach(listen),
    )

  /** What comes meanwhile is replayed: told live as well, it would come twice and out of order. */
  async function recoverAnew(channels: readonly string[], since: string): Promise<boolean> {
    const before = channels.some((channel) => open.has(channel))
    silence(channels)
    try {
      return await recoverSignals(channels, since)
    } catch (error) {
      // A channel that was heard before would stay silent, and nobody know of it.
      if (before) out.close(CLOSE.internal, 'what you missed cannot be read now')
      throw error
    }
  }

  const named = (names: readonly string[]) =>
    names.map((name, at) => channelNamed(name, agentId, `/channels/${at}`))

  return {
    async own(from) {
      if (from !== null) {
        await recover(
          from.outbox,
          (event: AddressedEvent) => (heard(event) ? factFrame(event) : null),
          (asking) => realtime.replayFacts(agentId, asking),
          listenToFacts,
        )
        await recoverSignals([own], from.signals)
      }
      // Also where nothing was replayed, or its reader left before the end.
      listenToFacts()
      listen(own)
    },
    async subscribe(names, since) {
      const channels = [...new Set(named(names))]
      for (const channel of channels) demandReadable(channel, agentId)
      const all = new Set([...open.keys(), ...channels])
      all.delete(own)
      if (all.size > LIMITS.streamChannels)
        throw new ServiceError('limit_reached', { limit: LIMITS.streamChannels })
      let recovered = true
      const storing = channels.filter((channel) => channel !== PULSES)
      if (since !== null && storing.length > 0) {
        recovered = await recoverAnew(storing, since)
      }
      channels.forEach(listen)
      return { channels, recovered }
    },
    unsubscribe(names) {
      const channels = named(names)
      silence(channels.filter((channel) => channel !== own))
      return channels
    },
    cursors: () => ({ signals: String(signals.cursor()), outbox: String(facts.cursor()) }),
    end() {
      ended = true
      for (const listener of [signals, facts, pulses]) {
        listener.flush()
        listener.end()
      }
      open.clear()
    },
  }
}

const gapFrame = ({ channel, from, to }: Gap) => ({
  type: 'gap',
  channel,
  from: String(from),
  to: String(to),
})
