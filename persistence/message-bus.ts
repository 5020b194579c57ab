import { createDatabaseAdjustedClock, SECOND } from '../core/clock.ts'
import { succeedsWithin } from './query-timeout.ts'
import { openDedicatedConnection } from './postgres/postgres-connection-pool.ts'
import type { Sql } from './postgres/postgres-connection-pool.ts'
import type { DatabaseAddress } from './postgres/database-address.ts'

/** Short messages to all nodes, including this one. They are hints: the rows are authoritative. */
export interface MessageBus {
  publish(topic: string, message: string): Promise<void>
  /**
   * Calls `missed` after an interruption, before `healthy` is true again: cached values may be
   * outdated. Returns a function that unsubscribes.
   */
  subscribe(topic: string, heard: (message: string) => void, missed?: () => void): () => void
  /**
   * Calls `heard` when a new connection is answered and the previous one still is not: other
   * connections opened before are probably dead, too, and would stay open for many minutes.
   */
  onDeadConnections(heard: () => void): void
  /** Opens the line anew and counts the connections of before as dead: their server is not the one to use. */
  renew(): void
  /**
   * False while a message could be missed: caches that rely on messages must not be trusted. The line is asked
   * rarely while nobody calls this, so the first call after a while may return false and have it asked at once.
   */
  healthy(): boolean
  /**
   * Whether Postgres has left the line without an answer, or has refused a new one. Asks it, so it is known about two
   * seconds later; a line that was not asked for a while is not down.
   */
  isDown(): boolean
  /** Whether the line answers within `ms`; asks it if the last answer is old. */
  answers(ms: number): Promise<boolean>
  stop(): Promise<void>
}

interface BusSubscriber {
  readonly heard: (message: string) => void
  readonly missed: () => void
}

const NOTIFY_CHANNEL = 'gas_bus'
/** NOTIFY accepts 8000 bytes at most. */
const MAX_PAYLOAD_BYTES = 7_900
const RECONNECT_DELAY_MS = 50
/** A dead connection is detected within the sum of both. */
const PROBE_INTERVAL_MS = 1_000
const PROBE_TIMEOUT_MS = 1_000
/** While nobody relies on the line. */
const IDLE_PROBE_INTERVAL_MS = 15 * SECOND
/** How long somebody relies on the line who has asked for its health. */
const RELIED_ON_MS = 10 * SECOND

export interface PostgresNotifyBusDeps {
  readonly sql: Sql
  readonly target: DatabaseAddress
  readonly log: (line: string, level?: 'info' | 'warn') => void
}

/** LISTEN and NOTIFY on a dedicated connection. Rejects only if the first LISTEN fails. */
export async function startPostgresNotifyBus({
  sql,
  target,
  log,
}: PostgresNotifyBusDeps): Promise<MessageBus> {
  const topics = new Map<string, Set<BusSubscriber>>()
  const onDead: (() => void)[] = []
  let healthy = false
  let stopped = false
  let nextProbe: NodeJS.Timeout | undefined
  let probing: Promise<void> | null = null
  let answeredAt = -Infinity
  let reliedOnUntil = -Infinity
  const { mono } = createDatabaseAdjustedClock()
  let line = open()

  function open(): Sql {
    const opened: Sql = openDedicatedConnection(target, {
      onclose: () => opened === line && lost(),
      onnotify: (_channel, payload) => deliver(payload),
    })
    return opened
  }
  function deliver(payload: string): void {
    guarded(() => {
      const { topic, message } = JSON.parse(payload) as { topic: string; message: string }
      for (const { heard } of topics.get(topic) ?? []) guarded(() => heard(message))
    })
  }
  function guarded(work: () => void): void {
    try {
      work()
    } catch (error) {
      log(`bus: a message was lost on a listener: ${(error as Error).message}`)
    }
  }
  /** `heard` resolves with a late answer on the old connection, if the server was only stalled. */
  function lost(heard: Promise<unknown> | null = null): void {
    if (stopped || !healthy) return
    healthy = false
    log('bus: the line is down')
    void relisten(line, heard)
  }
  async function relisten(old: Sql, heard: Promise<unknown> | null): Promise<void> {
    while (!stopped && !healthy) {
      line = open()
      try {
        await listen()
        log('bus: the line is up again', 'info')
      } catch {
        await line.end({ timeout: 0 })
        await new Promise((done) => setTimeout(done, RECONNECT_DELAY_MS).unref())
      }
    }
    if (heard !== null && !stopped && !(await succeedsWithin(heard, PROBE_TIMEOUT_MS))) {
      log('bus: lines of before are dead')
      for (const told of onDead) guarded(told)
    }
    await old.end({ timeout: 0 })
  }
  async function listen(): Promise<void> {
    await line.unsafe(`listen ${NOTIFY_CHANNEL}`)
    for (const listeners of topics.values()) for (const { missed } of listeners) guarded(missed)
    answeredAt = mono()
    healthy = true
  }
  async function ask(): Promise<void> {
    const asked = line`select 1`.execute()
    const heard = asked.then(
      () => {},
      () => {}, // closed, so not a dead connection
    )
    if (await succeedsWithin(asked, PROBE_TIMEOUT_MS)) answeredAt = mono()
    else lost(heard)
  }
  function probe(): Promise<void> {
    clearTimeout(nextProbe)
    probing ??= (healthy ? ask() : Promise.resolve()).finally(() => {
      probing = null
      scheduleProbe()
    })
    return probing
  }
  function scheduleProbe(): void {
    if (stopped) return
    clearTimeout(nextProbe)
    const everyMs = mono() < reliedOnUntil ? PROBE_INTERVAL_MS : IDLE_PROBE_INTERVAL_MS
    nextProbe = setTimeout(() => void probe(), everyMs).unref()
  }
  /** Whether a message missed before now would be known. */
  function isCurrent(): boolean {
    const now = mono()
    if (now >= reliedOnUntil && probing === null) void probe()
    reliedOnUntil = now + RELIED_ON_MS
    return healthy && now - answeredAt <= PROBE_INTERVAL_MS + PROBE_TIMEOUT_MS
  }

  await listen().catch(async (error: unknown) => {
    await line.end({ timeout: 0 })
    throw error
  })
  scheduleProbe()
  return {
    async publish(topic, message) {
      const payload = JSON.stringify({ topic, message })
      if (Buffer.byteLength(payload) > MAX_PAYLOAD_BYTES)
        throw new RangeError(`a bus message of ${topic} is too long: send an id`)
      await sql`select pg_notify(${NOTIFY_CHANNEL}, ${payload})`
    },
    subscribe(topic, heard, missed = () => undefined) {
      const listener = { heard, missed }
      const listeners = topics.get(topic) ?? new Set<BusSubscriber>()
      topics.set(topic, listeners.add(listener))
      return () => {
        listeners.delete(listener)
        if (listeners.size === 0 && topics.get(topic) === listeners) topics.delete(topic)
      }
    },
    onDeadConnections: (heard) => void onDead.push(heard),
    renew: () => lost(new Promise(() => {})),
    healthy: isCurrent,
    isDown: () => !isCurrent() && !healthy,
    async answers(ms) {
      if (isCurrent()) return true
      await succeedsWithin(probe(), ms)
      return isCurrent()
    },
    async stop() {
      stopped = true
      healthy = false
      clearTimeout(nextProbe)
      await line.end({ timeout: 0 })
    },
  }
}
