import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { createApiKeyStore } from '../../../persistence/agents/api-key-store.ts'
import { createOutboxStore } from '../../../persistence/outbox-store.ts'
import { startEmbeddedPostgres } from '../../../persistence/postgres/embedded-postgres-server.ts'
import { createAgentGoalPulseStore } from '../../../persistence/realtime/agent-goal-pulse-store.ts'
import { createSignalStore } from '../../../persistence/realtime/channel-signal-store.ts'
import { enterCursorEpochs } from '../../../persistence/realtime/cursor-epochs.ts'
import { startPostgresAndRedis } from '../../../persistence/start-postgres-and-redis.ts'
import { startRealtimeService } from '../../../realtime/realtime-service.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

/** Cursors of databases that were restarted, copied, restored and promoted, on real servers. */

const AGENT = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d'

/** The streams of a node over a database, and what commits of others add to it. */
async function nodeOn(t: Test, place: { dataDir: string; databaseUrl?: string }) {
  const settings = { databaseUrl: null, redisUrl: null, redis: 'none' as const, log: () => {} }
  const plane = await startPostgresAndRedis({ ...settings, ...place })
  const { sql, bus } = plane
  const stores = { signals: createSignalStore(sql), outbox: createOutboxStore(sql) }
  const node = await startRealtimeService({
    ...stores,
    clock: createDatabaseAdjustedClock(),
    bus,
    pulses: createAgentGoalPulseStore(sql),
    epochs: await enterCursorEpochs(sql),
    keys: createApiKeyStore(sql, Buffer.alloc(32, 1)),
    log: () => {},
  })
  const lease = await node.hear(AGENT, () => {})
  async function stop(): Promise<void> {
    lease.release()
    await node.stop()
    await plane.stop()
  }
  t.teardown(stop)
  /** What a client with this cursor is sent: ids, or that it has missed something. */
  async function replayed(kind: 'signals' | 'facts', since: bigint): Promise<unknown[]> {
    const told: unknown[] = []
    const subscriber = {
      since,
      onGap: () => void told.push('gap'),
      onRow: ({ id }: { id: bigint }) => void told.push(id),
      waitForRoom: async () => true,
      onLive: () => {},
    }
    if (kind === 'signals') await node.replaySignals(AGENT, ['c'], subscriber)
    else await node.replayFacts(lease, subscriber)
    return told
  }
  /** Adds so many signals and events, and waits until the node has read them; returns their ids, in order. */
  async function published(count: number) {
    const signals = await sql<{ id: bigint }[]>`
      insert into signals (call_id, agent_id, channel, type, payload, at, expires_at, kept_until)
      select gen_random_uuid(), ${AGENT}, 'c', 'result', '{}', now(), now() + interval '1 hour',
             now() + interval '1 day' from generate_series(1, ${count}) returning id`
    const facts = await sql<{ id: bigint }[]>`
      insert into outbox (agent_id, type, data, at)
      select ${AGENT}, 'topup', '{}', now() from generate_series(1, ${count}) returning id`
    const ids = { signals: signals.map(({ id }) => id), facts: facts.map(({ id }) => id) }
    node.grew('signals')
    node.grew('outbox')
    const [signal = 0n, fact = 0n] = [ids.signals.at(-1), ids.facts.at(-1)]
    while (node.marks().signals < signal || node.marks().outbox < fact) await nextTurn()
    return ids
  }
  return { node, stop, published, replayed }
}

const copied = (t: Test, dataDir: string): string => {
  const copy = join(createStationDataDir(t), 'copy')
  execFileSync('cp', ['-a', dataDir, copy])
  return copy
}

/** As a replica that takes over: the database recovers from an archive, here an empty one, onto a new timeline. */
async function promote(dataDir: string): Promise<void> {
  const cluster = join(dataDir, 'pg18')
  writeFileSync(join(cluster, 'recovery.signal'), '')
  appendFileSync(join(cluster, 'postgresql.auto.conf'), "restore_command = 'false'\n")
  const server = await startEmbeddedPostgres({ dataDir, log: () => {} })
  while (existsSync(join(cluster, 'recovery.signal'))) await sleep(20)
  await server.stop()
}

t.test(
  'a cursor is good in the history that gave it out, and a gap in each other one',
  async (t) => {
    const dataDir = join(createStationDataDir(t), 'data')
    const first = await nodeOn(t, { dataDir })
    const early = await first.published(3)
    await first.stop()
    const backup = copied(t, dataDir)

    const again = await nodeOn(t, { dataDir })
    const lost = await again.published(4)
    for (const kind of ['signals', 'facts'] as const) {
      const [one, ...rest] = early[kind]
      t.strictSame(
        await again.replayed(kind, one ?? 0n),
        [...rest, ...lost[kind]],
        'a restarted server goes on where it was',
      )
    }
    t.strictSame(await again.replayed('signals', 0n), [...early.signals, ...lost.signals])
    await again.stop()

    const restored = await nodeOn(t, { dataDir: backup })
    for (const added of [0, 9]) {
      await restored.published(added)
      for (const kind of ['signals', 'facts'] as const) {
        for (const cursor of lost[kind])
          t.strictSame(await restored.replayed(kind, cursor), ['gap'], `${kind} after ${added}`)
        const kept = await restored.replayed(kind, early[kind][0] ?? 0n)
        t.strictSame(
          kept.slice(0, 2),
          early[kind].slice(1),
          'cursors of before the backup are good',
        )
      }
    }
    const drawn = await restored.published(1)
    t.ok((drawn.signals[0] ?? 0n) < 2n ** 53n, 'ids stay whole numbers of all clients')
    await restored.stop()

    await promote(backup)
    const other = await nodeOn(t, { dataDir: backup })
    for (const kind of ['signals', 'facts'] as const)
      t.strictSame(await other.replayed(kind, drawn[kind][0] ?? 0n), ['gap'], 'another timeline')
  },
)

t.test('a database that is restored while nodes run ends their streams', async (t) => {
  const { settings, sql: admin } = await createTestDatabase(t)
  const { node, published, replayed } = await nodeOn(t, {
    dataDir: createStationDataDir(t),
    ...settings,
  })
  const { signals } = await published(2)
  let ended = ''
  node.enter({
    kind: 'events',
    key: { id: AGENT, agentId: AGENT, expiresAt: null, hash: 'h' },
    end: (why) => void (ended = why),
  })
  await node.renewEpochs()
  t.equal(ended, '', 'the same server')
  t.strictSame(await replayed('signals', signals[0] ?? 0n), [signals[1]])
  await admin`create table copy (like signals including all)`
  await admin`drop table signals`
  await admin`alter table copy rename to signals`
  await admin`alter table signals alter id drop identity`
  await admin`alter table signals alter id add generated by default as identity`
  await node.renewEpochs()
  t.equal(ended, 'restart')
  t.strictSame(await replayed('signals', signals[1] ?? 0n), ['gap'])
})
