import t from 'tap'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../../core/limits.ts'
import { createBackpackRefusalStore } from '../../../persistence/calls/backpack-refusal-store.ts'
import {
  createAgentKeyRequester,
  createAgentBackpack as backpack,
  createBackpackBoundKey as bound,
} from '../../support/agents/test-backpack-bound-keys.ts'
import { countReplies } from '../../support/http/test-http-client.ts'
import {
  startInProcessTestStation,
  spawnSecondNode,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'
const PACK = 'iagent-core'
const ALL = ['agent_send', 'tip', 'bounty', 'purchase', TOOL]

/** Method, path and body of a request. */
type Order = readonly [string, string, object]

/** Every way to spend outside tools, with its face value. */
const ways = (to: string) => ({
  agent_send: (usdc: number): Order => [
    'POST',
    '/api/agent/send',
    { to_agent_id: to, amount_usdc: usdc },
  ],
  tip: (usdc: number): Order => ['POST', '/api/tip', { to_agent_id: to, amount_usdc: usdc }],
  bounty: (usdc: number): Order => [
    'POST',
    '/api/bounties',
    { title: 'x', description: 'x', domain: 'x', reward_usdc: usdc },
  ],
})

/** A row of a spend ledger. */
interface Listed {
  readonly tool: string
  readonly success: boolean
  readonly error_code: string | null
  readonly times: number
}

/** The spending of a Backpack, as its owner sees it. */
const spentOf = async (node: TestStation, owner: TestAgent, id: string) => {
  const { body } = await createAgentKeyRequester(node, owner)('GET', `/api/backpack/${id}/state`)
  return [
    body['spent_today_usdc'],
    body['spent_month_usdc'],
    body['spent_total_usdc'],
    body['calls'],
  ]
}

t.test('sends of a bound key', async (t) => {
  const main = await startInProcessTestStation(t)
  const friend = await main.onboard()
  const spend = ways(friend.id)
  const names = Object.keys(spend) as (keyof typeof spend)[]

  t.test('counts in the fuse at face value, and the ledger lists it', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: ALL, fuse: { per_day_usdc: 0.3 } })
    const ask = createAgentKeyRequester(main, await bound(main, owner, id))
    for (const name of names) t.ok((await ask(...spend[name](0.1))).status < 300, name)
    t.strictSame(await spentOf(main, owner, id), [0.3, 0.3, 0.3, 3])
    for (const name of names) {
      const refused = await ask(...spend[name](0.1))
      t.match(refused, { status: 403, body: { code: 'FUSE_TRIPPED', backpack_id: id } }, name)
      t.match(refused.body, {
        limit_source: 'backpack.per_day',
        limit_usdc: 0.3,
        spent_usdc: 0.3,
        needed_usdc: 0.1,
        remedy: { action: 'ask_owner' },
      })
      t.match(
        String(refused.body['detail']),
        /^0\.3 of 0\.3 USDC is spent today .* costs 0\.1; .* 00:00 UTC/,
      )
    }
    t.match(await main.call({ ...owner, key: owner.key }, TOOL, {}, { 'x-backpack-id': id }), {
      body: { code: 'FUSE_TRIPPED' },
    })
    const { body } = await createAgentKeyRequester(main, owner)(
      'GET',
      `/api/backpack/${id}/spend?success=true`,
    )
    const rows = body['calls'] as { tool: string; cost_usdc: number; success: boolean }[]
    t.strictSame(
      rows.map(({ tool, cost_usdc, success }) => [tool, cost_usdc, success]),
      names.toReversed().map((name) => [name, 0.1, true]),
    )
    const tips = await createAgentKeyRequester(main, owner)(
      'GET',
      `/api/backpack/${id}/spend?tool=tip&success=true`,
    )
    t.equal((tips.body['calls'] as unknown[]).length, 1)
    await main.verify()
  })

  t.test('are reported to the pager of its Backpack like calls', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: ALL, fuse: { per_call_usdc: 0.01 } })
    const ask = createAgentKeyRequester(main, await bound(main, owner, id))
    await ask(...spend.agent_send(0.01))
    await ask(...spend.tip(0.02))
    const { body } = await createAgentKeyRequester(main, owner)(
      'GET',
      `/api/backpack/${id}/notifications`,
    )
    const told = body['notifications'] as { type: string; data: object }[]
    t.match(
      told.filter(({ type }) => type !== 'backpack.created'),
      [
        { type: 'fuse.tripped', data: { limit: 'per_call', tool: 'tip', needed_usdc: 0.02 } },
        { type: 'tool_call', data: { tool: 'agent_send', cost_usdc: 0.01, status: 'ok' } },
      ],
    )
  })

  t.test('needs its name in the list, which a null list does not include', async (t) => {
    const owner = await main.onboard()
    for (const tools of [[TOOL], [], null]) {
      const id = await backpack(main, owner, { tools })
      const ask = createAgentKeyRequester(main, await bound(main, owner, id))
      for (const name of names) {
        const { status, body } = await ask(...spend[name](0.1))
        t.match({ status, body }, { status: 403, body: { code: 'TOOL_NOT_ALLOWED', tool: name } })
      }
      const pack = await ask('POST', '/api/packs/install', { slug: PACK })
      t.match(pack.body, { code: 'TOOL_NOT_ALLOWED', tool: 'pack_install' })
    }
    const only = await backpack(main, owner, { tools: ['tip'] })
    const ask = createAgentKeyRequester(main, await bound(main, owner, only))
    t.equal((await ask(...spend.tip(0.01))).status, 200)
    t.match((await ask(...spend.agent_send(0.01))).body, { code: 'TOOL_NOT_ALLOWED' })
    const { body } = await createAgentKeyRequester(main, owner)('GET', '/api/credits/balance')
    t.match(body, { balance_usdc: 0.49 }, 'what was refused cost nothing')
  })

  t.test('is rejected after the end of the Backpack', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: ALL })
    const ask = createAgentKeyRequester(main, await bound(main, owner, id))
    await createAgentKeyRequester(main, owner)('POST', `/api/backpack/${id}/revoke`, {})
    for (const name of names)
      t.match(await ask(...spend[name](0.1)), { status: 403, body: { code: 'REVOKED' } }, name)
  })

  t.test('is counted once for any number of repetitions', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: ALL })
    const ask = createAgentKeyRequester(main, await bound(main, owner, id))
    for (const name of names) {
      const headers = { 'idempotency-key': `once-${name}` }
      const first = await ask(...spend[name](0.1), { headers })
      const again = await ask(...spend[name](0.1), { headers })
      t.equal(again.headers['idempotency-replayed'], 'true')
      t.same(again.body, first.body)
    }
    t.strictSame(await spentOf(main, owner, id), [0.3, 0.3, 0.3, 3])
    await main.verify()
  })

  t.test('stay counted when a bounty is refunded', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: ALL, fuse: { per_day_usdc: 0.1 } })
    const agent = await bound(main, owner, id)
    const ask = createAgentKeyRequester(main, agent)
    const posted = await ask(...spend.bounty(0.1))
    const gone = await ask('DELETE', `/api/bounties/${String(posted.body['bounty_id'])}`)
    t.match(gone, { status: 200, body: { returned_usdc: 0.1 } })
    t.match((await ask(...spend.bounty(0.1))).body, { code: 'FUSE_TRIPPED', spent_usdc: 0.1 })
    await main.verify()
  })

  t.test('counts under an unbound key that names a Backpack, and not elsewhere', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: ALL, fuse: { per_day_usdc: 0.05 } })
    const ask = createAgentKeyRequester(main, owner)
    const within = { headers: { 'x-backpack-id': id } }
    t.equal((await ask(...spend.tip(0.05), within)).status, 200)
    t.match((await ask(...spend.tip(0.05), within)).body, { code: 'FUSE_TRIPPED' })
    t.equal((await ask(...spend.tip(0.05))).status, 200)
    t.match((await ask(...spend.tip(0.05), { headers: { 'x-backpack-id': 'bp_none' } })).body, {
      code: 'NOT_FOUND',
    })
    t.match(await spentOf(main, owner, id), [0.05])
  })
})

t.test('rejections in a Backpack', async (t) => {
  const main = await startInProcessTestStation(t)
  const friend = await main.onboard()
  const spend = ways(friend.id)
  const ledger = async (owner: TestAgent, id: string, query = '') => {
    const { body } = await createAgentKeyRequester(main, owner)(
      'GET',
      `/api/backpack/${id}/spend${query}`,
    )
    return body as unknown as { calls: Listed[]; next_cursor: string | null }
  }

  t.test('are recorded once per tool, code and minute', async (t) => {
    const owner = await main.onboard()
    const tools = [TOOL, 'tip', 'bounty']
    const id = await backpack(main, owner, { tools, fuse: { per_call_usdc: 0.01 } })
    const ask = createAgentKeyRequester(main, await bound(main, owner, id))
    const versions = async () =>
      (await main.sql`select version from aggregates where id = ${owner.id}`)[0]?.['version']
    t.equal((await ask('POST', '/api/refuel', { tool: TOOL })).status, 200)
    await ask(...spend.tip(0.5))
    const before = await versions()
    for (let times = 0; times < 5; times += 1) {
      await ask(...spend.tip(0.5))
      await ask(...spend.agent_send(0.01))
      await ask('POST', '/api/refuel', { tool: 'hive_read', query: 'x' })
      await ask(...spend.bounty(0.5))
    }
    t.equal(await versions(), before, 'refusing commits nothing')
    const { calls } = await ledger(owner, id)
    const refused = calls.filter(({ success }) => !success)
    const kinds: Record<string, number> = {}
    for (const { tool, error_code: code, times } of refused) {
      const kind = `${tool} ${code}`
      kinds[kind] = (kinds[kind] ?? 0) + times
    }
    t.strictSame(kinds, {
      'tip FUSE_TRIPPED': 6,
      'bounty FUSE_TRIPPED': 5,
      'agent_send TOOL_NOT_ALLOWED': 5,
      'hive_read TOOL_NOT_ALLOWED': 5,
    })
    t.ok(refused.length <= 8, 'a row for each kind, two where a minute has passed')
    t.match(
      calls.filter(({ success }) => success),
      [{ tool: TOOL, times: 1 }],
    )
    t.equal((await ledger(owner, id, '?success=true')).calls.length, 1)
    const only = (await ledger(owner, id, '?success=false&tool=agent_send')).calls
    t.match(only[0], {
      tool: 'agent_send',
      cost_usdc: 0,
      rail: 'none',
      error_code: 'TOOL_NOT_ALLOWED',
    })
  })

  t.test('are listed after the Backpack ended, page by page with the payments', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: ['tip'] })
    const ask = createAgentKeyRequester(main, await bound(main, owner, id))
    for (const usdc of [0.01, 0.01]) await ask(...spend.tip(usdc))
    await createAgentKeyRequester(main, owner)('POST', `/api/backpack/${id}/revoke`, {})
    await ask(...spend.tip(0.01))
    await ask('POST', '/api/refuel', { tool: TOOL })
    const seen: string[] = []
    let query: string | null = '?limit=1'
    while (query !== null) {
      const page = await ledger(owner, id, query)
      seen.push(...page.calls.map(({ tool, success }) => `${tool} ${success}`))
      query = page.next_cursor === null ? null : `?limit=1&cursor=${page.next_cursor}`
    }
    t.strictSame(seen, [`${TOOL} false`, 'tip false', 'tip true', 'tip true'])
  })

  t.test('are stored for a limited number of kinds', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: ['tip'] })
    const at = Date.now()
    const store = createBackpackRefusalStore(main.sql)
    const count = (n: number) => ({ firstAt: at + n * 60_000, lastAt: at + n * 60_000, times: 1 })
    const rows = Array.from({ length: LIMITS.backpackRefusals + 20 }, (_, n) => ({
      id: newUuidV7(at + n * 60_000),
      backpackId: id,
      tool: TOOL,
      code: 'TOOL_NOT_ALLOWED',
      ...count(n),
    }))
    await store.add(rows)
    await store.add(rows.slice(-2))
    const [kept] = await main.sql`
      select count(*)::int as n, sum(times)::int as times from backpack_refusals where backpack_id = ${id}`
    t.match(kept, { n: LIMITS.backpackRefusals, times: LIMITS.backpackRefusals + 2 })
  })

  t.test('do not include rejections of other agents', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: [] })
    const stranger = await main.onboard()
    await main.call(stranger, TOOL, {}, { 'x-backpack-id': id })
    t.strictSame((await ledger(owner, id)).calls, [])
  })
})

t.test('the caps of a key', async (t) => {
  const main = await startInProcessTestStation(t)
  const friend = await main.onboard()
  const spend = ways(friend.id)

  t.test('permit a bound key to send within them and return the remainder', async (t) => {
    const owner = await main.onboard()
    const id = await backpack(main, owner, { tools: ALL })
    const caps = { cap_usdc: 0.3, cap_per_day_usdc: 0.1, cap_per_month_usdc: 0.2 }
    const ask = createAgentKeyRequester(main, await bound(main, owner, id, caps))
    t.equal((await ask(...spend.agent_send(0.06))).status, 200)
    t.equal((await main.call({ ...owner, key: owner.key }, TOOL)).status, 200, 'another key')
    const refused = await ask(...spend.tip(0.05))
    t.match(refused, {
      status: 403,
      body: {
        code: 'key_cap_exceeded',
        limit: 'per_day',
        limit_source: 'key',
        limit_usdc: 0.1,
        spent_usdc: 0.06,
        needed_usdc: 0.05,
        resets_at: /T00:00:00\.000Z$/,
      },
    })
    t.equal((await ask(...spend.tip(0.04))).status, 200)
    t.match((await ask('POST', '/api/refuel', { tool: TOOL })).body, {
      code: 'key_cap_exceeded',
      limit: 'per_day',
    })
    await main.verify()
  })

  t.test('prevent sends with an unbound key', async (t) => {
    const owner = await main.onboard()
    for (const cap of [{ cap_usdc: 1 }, { cap_per_day_usdc: 1 }, { cap_per_month_usdc: 1 }]) {
      const made = await createAgentKeyRequester(main, owner)('POST', '/api/keys', cap)
      const ask = createAgentKeyRequester(main, { ...owner, key: made.body.api_key })
      t.match((await ask(...spend.tip(0.01))).body, { code: 'insufficient_scope' })
    }
  })

  t.test('continue under the replacement of the key', async (t) => {
    const owner = await main.onboard()
    const made = await createAgentKeyRequester(main, owner)('POST', '/api/keys', { cap_usdc: 0.01 })
    const first = { ...owner, key: made.body.api_key }
    t.equal((await main.call(first, TOOL)).status, 200)
    const rotated = await createAgentKeyRequester(main, owner)('POST', '/api/keys/rotate', {
      key_id: made.body['id'],
    })
    const second = { ...owner, key: rotated.body.api_key }
    t.equal((await main.call(second, TOOL)).status, 200)
    for (const one of [first, second])
      t.match((await main.call(one, TOOL)).body, { code: 'key_cap_exceeded', spent_usdc: 0.01 })
    await main.verify()
  })
})

t.test('on two nodes', async (t) => {
  const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '9' })
  const beside = await spawnSecondNode(t, main)
  const friend = await main.onboard()
  const spend = ways(friend.id)
  const orders = [spend.agent_send(0.1), spend.tip(0.1), spend.bounty(0.1)]

  t.test(
    'concurrent spending never exceeds fuses and caps, and permitted spending succeeds',
    async (t) => {
      const owner = await main.onboard()
      const id = await backpack(main, owner, { tools: ALL, fuse: { per_day_usdc: 1.3 } })
      const capped = await bound(main, owner, id, { cap_per_day_usdc: 0.5 })
      const free = await bound(main, owner, id)
      const answers = await Promise.all(
        Array.from({ length: 48 }, (_, at) => {
          const node = at % 2 === 0 ? main : beside
          const by = at % 4 < 2 ? capped : free
          return createAgentKeyRequester(node, by)(...(orders[at % 3] as Order))
        }),
      )
      const done = answers.filter(({ status }) => status < 300).length
      t.equal(done, 13, JSON.stringify(countReplies(answers)))
      t.match(await spentOf(main, owner, id), [1.3, 1.3, 1.3, 13])
      const mine = await main.sql`
      select sum(cost_micros)::int as spent from calls where key_id = ${capped.keyId}`
      t.ok(Number(mine[0]?.['spent']) <= 500_000, 'within the cap of the key')
      await main.verify()
    },
  )
})
