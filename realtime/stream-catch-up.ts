import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { AgentOutboxEvent, OutboxStore } from '../persistence/outbox-store.ts'
import type { AgentSignal, SignalStore } from '../persistence/realtime/channel-signal-store.ts'
import { inboxChannelOf } from './signal-channel-names.ts'

/** History that cannot be replayed. The client reads it over REST. */
export interface ReplayGap {
  readonly channel: string
  readonly from: bigint
  readonly to: bigint
}

/** An agent and the id from which on all its events are stored. */
export interface AgentEventStorageStart {
  readonly agentId: string
  readonly lostThrough: bigint
}

/** A stream that catches up to the present. */
export interface CatchUpSubscriber<T> {
  /** The last id it has received. */
  readonly since: bigint
  onGap(gap: ReplayGap): void
  onRow(row: T): void
  /** Resolves to true when more rows fit, to false when the stream has ended. */
  waitForRoom(): Promise<boolean>
  /**
   * Called once, in the same tick as the last row. A subscriber that starts here misses nothing and
   * gets nothing twice.
   */
  onLive(mark: bigint): void
}

/** With the largest payloads, fewer bytes than a stream's send limit. */
const PAGE_ROWS = 20

/** Rows that this node has delivered. */
export interface DeliveredRowFeed<T> {
  /** Id of the last one. */
  mark(): bigint
  /** Cached rows after an id; null if it is too old for the cache. */
  recent(after: bigint): readonly T[] | null
  /** Whether an id may be a cursor of this database's history (decision 450). */
  issued(id: bigint): boolean
}

interface ReplaySource<T> extends Omit<DeliveredRowFeed<T>, 'issued'> {
  between(after: bigint, through: bigint, limit: number): Promise<T[]>
}

/**
 * Replays pages up to the mark, then switches to live. The mark may move faster than pages are
 * read, so the last step uses cached rows, in one tick.
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

/**
 * Replays unexpired signals of channels. A channel with too many of them, or an unknown cursor,
 * gives a gap.
 */
export async function catchUpSignals(
  store: Pick<SignalStore, 'between' | 'crowded'>,
  clock: Clock,
  present: DeliveredRowFeed<AgentSignal>,
  channels: readonly string[],
  subscriber: CatchUpSubscriber<AgentSignal>,
): Promise<void> {
  const now = () => new Date(clock.now())
  const first = present.mark()
  const isUnknown = subscriber.since > first || !present.issued(subscriber.since)
  const from = isUnknown ? first : subscriber.since
  const crowded =
    from === first
      ? []
      : await store.crowded(channels, from, first, now(), LIMITS.replayedPerChannel)
  const gone = isUnknown ? channels : crowded
  for (const channel of gone) subscriber.onGap({ channel, from: subscriber.since, to: first })
  const uncrowded = channels.filter((channel) => !crowded.includes(channel))
  const between = (after: bigint, through: bigint, limit: number) =>
    store.between(after < first ? uncrowded : channels, after, through, now(), limit)
  // No page crosses the end of a gap: after it the channel is included again.
  const upTo = { mark: () => first, recent: (at: bigint) => (at < first ? null : []), between }
  let alive = false
  await replayUntilLive(upTo, { ...subscriber, onLive: () => void (alive = true) }, from)
  const wanted = new Set(channels)
  const isWanted = ({ channel, expiresAt }: AgentSignal) => wanted.has(channel) && expiresAt > now()
  const recent = (after: bigint) => present.recent(after)?.filter(isWanted) ?? null
  if (alive) await replayUntilLive({ ...present, recent, between }, subscriber, first)
}

/**
 * Replays an agent's events. Too many, events that have been deleted, or a cursor from before the
 * agent listened give a gap.
 */
export async function catchUpOutboxEvents(
  store: Pick<OutboxStore, 'between' | 'oldest'>,
  present: DeliveredRowFeed<AgentOutboxEvent>,
  { agentId, lostThrough }: AgentEventStorageStart,
  subscriber: CatchUpSubscriber<AgentOutboxEvent>,
): Promise<void> {
  const first = present.mark()
  const between = (after: bigint, through: bigint, limit: number) =>
    store.between(agentId, after, through, limit)
  const known = subscriber.since >= lostThrough && present.issued(subscriber.since)
  const from =
    known && (await isReplayable(store, subscriber.since, first, between))
      ? subscriber.since
      : first
  if (from !== subscriber.since)
    subscriber.onGap({ channel: inboxChannelOf(agentId), from: subscriber.since, to: first })
  const recent = (after: bigint) =>
    present.recent(after)?.filter((event) => event.agentId === agentId) ?? null
  await replayUntilLive({ ...present, recent, between }, subscriber, from)
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
