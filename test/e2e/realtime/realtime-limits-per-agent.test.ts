import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import {
  readReplyListField,
  settingsAllowingWebhookReceivers,
  registerTestWebhook,
  waitForWebhookDeliveries,
  type RegisteredWebhook,
} from '../../support/webhooks/test-webhook-registration-and-deliveries.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  startWebhookReceivers,
  type WebhookReceiverBehaviour,
} from '../../support/webhooks/test-webhook-receivers.ts'
import { createTestPauseGate } from '../../support/actors/test-actor-node.ts'
import {
  connectReadyWebSocket,
  openSseReader,
} from '../../support/http/websocket-and-sse-clients.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

const upTo = (n: number) => Array.from({ length: n }, (_, at) => at)

t.test('limits per agent on a node', async (t) => {
  const house = await startWebhookReceivers(t)
  const main = await startInProcessTestStation(t, {
    ...settingsAllowingWebhookReceivers(house),
    STARTER_CREDITS_USDC: '3',
  })
  const newKey = async (guest: TestAgent) => {
    const made = await main.ask('POST', '/api/keys', { key: guest.key, json: {} })
    if (made.status !== 200) throw new Error(made.text)
    return { id: String(made.body['id']), key: made.body.api_key }
  }

  t.test('many slow receivers of one agent do not delay other agents', async (t) => {
    const [her, him] = [await main.onboard(), await main.onboard()]
    const hooks: RegisteredWebhook[] = []
    for (const n of upTo(LIMITS.webhooks))
      hooks.push(await registerTestWebhook(main, house, her, `/hers/${n}`, ['topup']))
    const his = await registerTestWebhook(main, house, him, '/his', ['topup'])
    const held = createTestPauseGate()
    const slow: WebhookReceiverBehaviour = (response) => {
      void held.pass().then(() => response.writeHead(204).end())
      return 204
    }
    for (const hook of hooks) house.answers(hook.path, slow)
    const underWay = async () => {
      const leased = main.sql`select from webhooks where agent_id = ${her.id} and lease is not null`
      return (await leased).length
    }

    const sent: Record<string, unknown>[] = []
    for (let times = 0; times < 2; times += 1) {
      const answer = await main.ask('POST', '/api/webhook/test', { key: her.key, json: {} })
      sent.push(...readReplyListField(answer, 'deliveries'))
    }
    t.equal(sent.length, 40, 'all of them have something to take, twice')
    await eventually(async () => (await underWay()) >= 8, 'as much as one agent may have')
    // Those that fall silent for long stand in the line of those in trouble, with four more.
    t.ok((await underWay()) <= 12, `${await underWay()} under way`)
    await main.ask('POST', '/api/webhook/test', { key: him.key, json: {} })
    await waitForWebhookDeliveries(main, him, his)
    t.equal(house.taken('/his').length, 1)
    t.ok((await underWay()) <= 12)

    held.open()
    for (const hook of hooks) await waitForWebhookDeliveries(main, her, hook)
    for (const hook of hooks) {
      const ids = house.at(hook.path).map(({ id }) => id)
      const wanted = sent.filter((one) => one['webhook_id'] === hook.id)
      const inOrder = wanted.map((one) => one['delivery_id'])
      t.strictSame([...new Set(ids)], inOrder, 'each gets all of it, in order')
    }
  })

  t.test('the streams of an agent are limited over all its keys', async (t) => {
    const [her, him] = [await main.onboard(), await main.onboard()]
    const open = (key: string) => openSseReader(t, `${main.url}/api/signal/stream?channels=a`, key)
    const keys = [her.key]
    while (keys.length < LIMITS.streamsPerAgent / LIMITS.streamsPerKey)
      keys.push((await newKey(her)).key)
    const seats = keys.flatMap((key) => upTo(LIMITS.streamsPerKey).map(() => key))
    const readers = await Promise.all(seats.map(open))
    t.ok(readers.every(({ status }) => status === 200))
    const more = (await newKey(her)).key
    const refused = await open(more)
    t.equal(refused.status, 429)
    t.match(JSON.parse(refused.text), { code: 'rate_limited', limit: LIMITS.streamsPerAgent })
    await t.rejects(connectReadyWebSocket(t, main.url, more), { status: 429, code: 'rate_limited' })
    const json = { tool: 'hive_trending' }
    t.match(await main.ask('POST', '/api/refuel/stream', { key: more, json }), {
      status: 429,
      body: { code: 'rate_limited', limit: LIMITS.streamsPerAgent },
    })
    t.equal((await open(him.key)).status, 200, 'another agent has its own')
    readers[0]?.close()
    await eventually(async () => (await open(more)).status === 200, 'the place that is free again')
  })

  const { realtime } = main.station.server.services
  /** Three signals, and a replay of them to a stream of an agent. */
  const published = async ({ key }: TestAgent) => {
    const since = realtime.marks().signals
    const ids: bigint[] = []
    for (const n of upTo(3)) {
      const json = { channel: 'replayed', type: 'result', payload: { n } }
      const { body } = await main.ask('POST', '/api/signal/publish', { key, json })
      ids.push(BigInt(String(body['id'])))
    }
    await eventually(() => realtime.marks().signals >= (ids.at(-1) ?? 0n), 'what was published')
    const replay = ({ id }: TestAgent, seen: bigint[] = [], waitForRoom = async () => true) =>
      new Promise<void>((live, fail) => {
        realtime
          .replaySignals(id, ['replayed'], {
            since,
            onGap: () => fail(new Error('a gap')),
            onRow: (signal) => void seen.push(signal.id),
            waitForRoom,
            onLive: () => live(),
          })
          .catch(fail)
      })
    return { ids, replay }
  }
  const reading = async () => {
    const [row] = await main.sql`
      select count(*)::int as n from pg_stat_activity where datname = current_database()
         and wait_event_type = 'Lock' and query like '%as channel from unnest%'`
    return Number(row?.['n'])
  }
  /** Blocks all reads of signals from now on. */
  const locked = async () => {
    const [taken, freed] = [createTestPauseGate(), createTestPauseGate()]
    const over = main.sql.begin(async (tx) => {
      await tx`lock table signals in access exclusive mode`
      taken.open()
      await freed.pass()
    })
    await taken.pass()
    return async () => {
      freed.open()
      await over
    }
  }

  t.test('replays read a few pages at a time, and slow readers delay no others', async (t) => {
    const her = await main.onboard()
    const { ids, replay } = await published(her)
    const many: bigint[][] = upTo(10).map(() => [])
    const free = await locked()
    const replays = many.map((seen) => replay(her, seen))
    await eventually(async () => (await reading()) >= 3, 'those that may read')
    for (let looks = 0; looks < 20; looks += 1) t.equal(await reading(), 3)
    await Promise.all([free(), ...replays])
    for (const seen of many) t.strictSame(seen, ids)

    const stuck: bigint[][] = upTo(10).map(() => [])
    const taken = createTestPauseGate()
    const waiting = stuck.map((seen) => replay(her, seen, () => taken.pass().then(() => true)))
    await eventually(() => stuck.every(({ length }) => length === 3), 'a page for each of them')
    const quick: bigint[] = []
    await replay(her, quick)
    t.strictSame(quick, ids)
    taken.open()
    await Promise.all(waiting)
  })

  t.test('the single replay of an agent does not wait for many replays of another', async (t) => {
    const [her, him] = [await main.onboard(), await main.onboard()]
    const { replay } = await published(her)
    const free = await locked()
    const live: string[] = []
    const replays = [...upTo(40).map(() => her), him].map((guest) =>
      replay(guest).then(() => live.push(guest.id)),
    )
    await eventually(async () => (await reading()) >= 4, 'three of hers and his')
    await Promise.all([free(), ...replays])
    t.equal(live.length, 41)
    t.ok(live.indexOf(him.id) < 10, `${live.indexOf(him.id)} streams of hers were before him`)
  })

  t.test('a failed key look-up is retried until it succeeds', async (t) => {
    const her = await main.onboard()
    const { id, key } = await newKey(her)
    const client = await connectReadyWebSocket(t, main.url, key)
    await main.sql.unsafe(`
      create sequence asked;
      create function refuse() returns boolean language plpgsql as
        $$ begin perform nextval('asked'); raise exception 'not now'; end $$;
      update api_keys set revoked_at = now() where id = '${id}';
      alter table api_keys rename to kept_keys;
      create view api_keys as select * from kept_keys where refuse();
      select pg_notify('gas_bus', '${JSON.stringify({ topic: 'keys', message: id })}')`)
    const asked = async (times: number) => {
      const [row] = await main.sql`select last_value >= ${times} and is_called as so from asked`
      return row?.['so'] === true
    }
    await eventually(() => asked(1), 'the look-up that fails')
    await eventually(() => asked(2), 'the next one')
    await main.sql.unsafe('drop view api_keys; alter table kept_keys rename to api_keys')
    t.equal(await client.closed, 4403)
  })

  t.test('gas verify finds no difference', () => main.verify())
})
