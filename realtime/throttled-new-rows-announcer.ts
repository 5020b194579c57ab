import type { MessageBus } from '../persistence/message-bus.ts'

/** The bus topic that announces tables with new rows. */
export const NEW_TABLE_ROWS_TOPIC = 'tail'

const MIN_GAP_MS = 10

/**
 * Announces on the bus that there is something new: the first time at once, then at most once in
 * `MIN_GAP_MS` and never concurrently. One message covers all events before it.
 */
export function createThrottledBusAnnouncer(publish: () => Promise<void>) {
  let busy = false
  let again = false
  let stopped = false

  async function say(): Promise<void> {
    busy = true
    again = false
    // A lost message only delays receivers until they poll the table.
    await publish().catch(() => {})
    setTimeout(() => {
      busy = false
      if (again && !stopped) void say()
    }, MIN_GAP_MS).unref()
  }

  return {
    tell(): void {
      again = true
      if (!busy && !stopped) void say()
    },
    stop(): void {
      stopped = true
    },
  }
}

/** Announces ids on the bus. Ids that arrive meanwhile share a message. */
export function createBatchedBusIdPublisher(
  bus: Pick<MessageBus, 'publish'>,
  topic: string,
  alone: (ids: string[]) => void,
) {
  const waiting = new Set<string>()
  const announce = createThrottledBusAnnouncer(async () => {
    const ids = [...waiting].slice(0, MAX_IDS_PER_MESSAGE)
    for (const id of ids) waiting.delete(id)
    if (ids.length === 0) return
    await bus.publish(topic, ids.join(',')).catch(() => alone(ids))
    if (waiting.size > 0) announce.tell()
  })
  return {
    tell(id: string): void {
      waiting.add(id)
      announce.tell()
    },
    stop: announce.stop,
  }
}

/** Limit of UUIDs in one message. */
const MAX_IDS_PER_MESSAGE = 200
