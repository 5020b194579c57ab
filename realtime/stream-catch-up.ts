import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { AgentOutboxEvent, OutboxStore } from '../persistence/outbox-store.ts'
import type { AgentSignal, SignalStore } from '../persistence/realtime/signal-store.ts'
import { inboxChannelOf } from './channel-names.ts'

/** History that cannot be replayed: whoever is told so reads it anew over REST. */
export interface ReplayGap {
  readonly channel: string
  readonly from: bigint
  readonly to: bigint
}

/** Who catches up, from what it has seen to the present. */
export interface CatchUpSubscriber<T> {
  /** The last id it has seen. */
  readonly since: bigint
  onGap(gap: ReplayGap): void
  onRow(row: T): void
  /** Resolves when there is room for more; false when nobody listens any more. */
  waitForRoom(): Promise<boolean>
  /**
   * Called once, in the turn in which it has caught up with everything passed on so far: who starts
   * to listen here misses nothing and hears nothing twice.
   */
  onLive(mark: bigint): void
}

/** Of the largest payloads so many are less than a stream may have waiting. */
const PAGE_ROWS = 20

/** What has been passed on by this node. */
export interface LiveFeed<T> {
  /** The last of it. */
  mark(): bigint
  /** What came after a row; null where that is too long ago to be known without a reading. */
  recent(after: bigint): readonly T[] | null
}

interface ReplaySource<T> extends LiveFeed<T> {
  between(after: bigint, through: bigint, limit: number): Promise<T[]>
}

/**
 * Page after page up to the mark, then live. The mark moves on meanwhile, perhaps sooner than a page is
 * read: the last step is made from what was passed on lately, and in one turn.
 */
async function replayUntilLive<T extends { id: bigint }>(
  { mark, recent, between }: ReplaySource<T>,
  { onRow, waitForRoom, onLive }: CatchUpSubscriber<T>,
  from: bigint,
): Promise<void> {
  for (let at = from; ;) {
    const through = mark()
    const late = recent(at)
    const rows = late?.slice(0, PAGE_ROWS) ?? (await between(at, through, PAGE_ROWS))
    for (const row of rows) onRow(row)
    if (late !== null && late.length <= PAGE_ROWS) return onLive(through)
    at = rows.length < PAGE_ROWS ? through : (rows.at(-1)?.id ?? through)
    if (!(await waitForRoom())) return
  }
}

/** Living signals of some channels; one with too many of them is a gap, and so is an unknown cursor. */
export async function catchUpSignals(
  store: Pick<SignalStore, 'between' | 'crowded'>,
  clock: Clock,
  present: LiveFeed<AgentSignal>,
  channels: readonly string[],
  asking: CatchUpSubscriber<AgentSignal>,
): Promise<void> {
  const now = () => new Date(clock.now())
  const first = present.mark()
  const from = asking.since > first ? first : asking.since
  const crowded =
    from === first
      ? []
      : await store.crowded(channels, from, first, now(), LIMITS.replayedPerChannel)
  const gone = asking.since > first ? channels : crowded
  for (const channel of gone) asking.onGap({ channel, from: asking.since, to: first })
  const calm = channels.filter((channel) => !crowded.includes(channel))
  const between = (after: bigint, through: bigint, limit: number) =>
    store.between(after < first ? calm : channels, after, through, now(), limit)
  // A page does not reach over the end of a gap: from there on its channel takes part again.
  const upTo = { mark: () => first, recent: (at: bigint) => (at < first ? null : []), between }
  let alive = false
  await replayUntilLive(upTo, { ...asking, onLive: () => void (alive = true) }, from)
  const wanted = new Set(channels)
  const isWanted = ({ channel, expiresAt }: AgentSignal) => wanted.has(channel) && expiresAt > now()
  const recent = (after: bigint) => present.recent(after)?.filter(isWanted) ?? null
  if (alive) await replayUntilLive({ ...present, recent, between }, asking, first)
}

/** What was addressed to an agent; too much of it, or older than what is kept, is a gap. */
export async function catchUpOutboxEvents(
  store: Pick<OutboxStore, 'between' | 'oldest'>,
  present: LiveFeed<AgentOutboxEvent>,
  agentId: string,
  asking: CatchUpSubscriber<AgentOutboxEvent>,
): Promise<void> {
  const first = present.mark()
  const between = (after: bigint, through: bigint, limit: number) =>
    store.between(agentId, after, through, limit)
  const from = (await isReplayable(store, asking.since, first, between)) ? asking.since : first
  if (from !== asking.since)
    asking.onGap({ channel: inboxChannelOf(agentId), from: asking.since, to: first })
  const recent = (after: bigint) =>
    present.recent(after)?.filter((fact) => fact.agentId === agentId) ?? null
  await replayUntilLive({ ...present, recent, between }, asking, from)
}

async function isReplayable(
  store: Pick<OutboxStore, 'oldest'>,
  since: bigint,
  mark: bigint,
  between: ReplaySource<AgentOutboxEvent>['between'],
): Promise<boolean> {
  if (since >= mark) return since === mark
  const oldest = (await store.oldest()) ?? mark + 1n
  if (since + 1n < oldest) return false
  const most = LIMITS.replayedPerChannel
  return (await between(since, mark, most + 1)).length <= most
}
