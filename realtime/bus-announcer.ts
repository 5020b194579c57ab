import type { MessageBus } from '../persistence/message-bus.ts'

/** The bus topic on which a table is named that has new rows. */
export const TABLE_GROWTH_TOPIC = 'tail'

const MIN_GAP_MS = 10

/**
 * Says on the bus that something is new. The first time at once; under load at most once in ten
 * milliseconds and never twice at the same time, since one message stands for all before it.
 */
export function createThrottledAnnouncer(publish: () => Promise<void>) {
  let busy = false
  let again = false
  let stopped = false

  async function say(): Promise<void> {
    busy = true
    again = false
    // A message that was not sent costs its hearers one look at the table.
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

/** Names ids on the bus, as many in one message as have come together meanwhile. */
export function createIdAnnouncer(
  bus: Pick<MessageBus, 'publish'>,
  topic: string,
  alone: (ids: string[]) => void,
) {
  const waiting = new Set<string>()
  const announce = createThrottledAnnouncer(async () => {
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

/** So many UUIDs fit into one message. */
const MAX_IDS_PER_MESSAGE = 200
