import { renameSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { archiveJournalMonths } from '../../../persistence/journal-archive/archive-journal-months.ts'
import { verifyDatabaseInvariants } from '../../../persistence/verify/verify-database-invariants.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** The past of actors and the reasons of refusals: what is shown, and to whom. */

const TOKEN = 'operator-token-of-this-test'
const TOOL = 'hive_trending'
const operator = { authorization: `Bearer ${TOKEN}` }
const archiveDir = t.testdir()
const { ask, onboard, call, sql } = await startInProcessTestStation(t, {
  OPERATOR_TOKEN: TOKEN,
  JOURNAL_ARCHIVE_DIR: archiveDir,
})

interface Entry {
  readonly version: number
  readonly at: string
  readonly command: string
  readonly state: string
  readonly context: Readonly<Record<string, unknown>>
  readonly diff: readonly {
    readonly path: string
    readonly from?: unknown
    readonly to?: unknown
  }[]
}
const historyOf = async (path: string, key?: string) => {
  const { body, status } = await ask('GET', `/api/actors/${path}`, {
    ...(key === undefined ? { headers: operator } : { key }),
  })
  const entries = (body['entries'] ?? []) as Entry[]
  return { status, body, entries, versions: entries.map(({ version }) => version) }
}

t.test('the history of an agent pages back to its creation', async (t) => {
  const agent = await onboard()
  for (let at = 0; at < 5; at++) await call(agent, TOOL)
  const first = await historyOf(`agent/${agent.id}/history?limit=4`, agent.key)
  t.strictSame(first.versions, [6, 5, 4, 3])
  t.match(first.entries[0], {
    command: 'call.spend',
    diff: [{ path: '/promo', from: 0.48, to: 0.475 }],
    context: { promo: 0.475, agentId: agent.id },
  })
  const rest = await historyOf(
    `agent/${agent.id}/history?limit=4&cursor=${String(first.body['next_cursor'])}`,
    agent.key,
  )
  t.strictSame(rest.versions, [2, 1])
  t.match(rest.body, { has_more: false, next_cursor: null })
  t.match(rest.entries[1], { state: 'healthy', full: true, context: { promo: 0.5 } })
  t.match(rest.entries[0]?.diff, [{ path: '/promo', from: 0.5, to: 0.495 }])
})

t.test('a state at a version and at an instant', async (t) => {
  const agent = await onboard()
  for (let at = 0; at < 3; at++) await call(agent, TOOL)
  const at = await historyOf(`agent/${agent.id}/history?at=2`, agent.key)
  t.match(at.entries, [{ version: 2, context: { promo: 0.495 } }])
  t.match(at.body, { previous_version: 1, next_version: 3 })
  const instant = encodeURIComponent(at.entries[0]?.at ?? '')
  const then = await historyOf(`agent/${agent.id}/history?at=${instant}`, agent.key)
  t.ok((then.versions[0] ?? 0) >= 2, 'commands of one millisecond may follow')
  t.equal(
    (await historyOf(`agent/${agent.id}/history?at=2001-01-01T00:00:00Z`, agent.key)).status,
    404,
  )
  t.equal((await historyOf(`agent/${agent.id}/history?at=soon`, agent.key)).status, 400)
  for (const late of ['999', '3000000', '999999999999999'])
    t.strictSame((await historyOf(`agent/${agent.id}/history?at=${late}`, agent.key)).versions, [4])
  const { versions } = await historyOf(`agent/${agent.id}/history?cursor=999999999999`, agent.key)
  t.strictSame(versions, [4, 3, 2, 1], 'a position behind the last entry')
  for (const late of ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59-23:59'])
    t.strictSame((await historyOf(`agent/${agent.id}/history?at=${late}`, agent.key)).versions, [4])
  for (const malformed of [
    '2026-01-31',
    '2026-01-31T12:00:00',
    '2026-02-31T99:00:00Z',
    '1.5',
    '-1',
  ])
    t.equal(
      (await historyOf(`agent/${agent.id}/history?at=${malformed}`, agent.key)).status,
      400,
      malformed,
    )
  const [then1, offset] = [new Date(at.entries[0]?.at ?? '').getTime(), 5.5 * 3_600_000]
  const india = `${new Date(then1 + offset).toISOString().slice(0, -1)}+05:30`
  t.ok(
    ((await historyOf(`agent/${agent.id}/history?at=${encodeURIComponent(india)}`, agent.key))
      .versions[0] ?? 0) >= 2,
    'the same instant in another time zone',
  )
  for (const early of ['0', '0000-01-01T00:00:00Z', '0001-01-01T00:00:00%2B14:00'])
    t.equal((await historyOf(`agent/${agent.id}/history?at=${early}`, agent.key)).status, 404)
})

t.test('versions of an archived month come from its file, which a refusal names', async (t) => {
  const agent = await onboard()
  for (let at = 0; at < 4; at++) await call(agent, TOOL)
  const all = await historyOf(`agent/${agent.id}/history`, agent.key)
  await sql`
    create table journal_2026_01 partition of journal
      for values from ('2026-01-01T00:00:00Z') to ('2026-02-01T00:00:00Z')`
  await sql`
    update journal set at = '2026-01-05T00:00:00Z'::timestamptz + make_interval(secs => version)
     where aggregate_id = ${agent.id} and version <= 3`
  const aged = await historyOf(`agent/${agent.id}/history`, agent.key)
  const [month] = await archiveJournalMonths(sql, { dir: archiveDir, before: '2026-02' })
  t.match(month, { month: '2026-01', rows: 3 })
  const archived = await historyOf(`agent/${agent.id}/history`, agent.key)
  t.strictSame(archived, aged)
  t.strictSame(archived.versions, all.versions)
  const paged = await historyOf(`agent/${agent.id}/history?limit=2&cursor=4`, agent.key)
  t.strictSame(paged.versions, [3, 2])
  const then = await historyOf(`agent/${agent.id}/history?at=2026-01-05T00:00:02.5Z`, agent.key)
  t.match(then, { versions: [2], body: { previous_version: 1, next_version: 3 } })

  const [file, away] = [join(archiveDir, month?.file ?? ''), join(archiveDir, 'away')]
  renameSync(file, away)
  const refused = await ask('GET', `/api/actors/agent/${agent.id}/history?at=2`, { key: agent.key })
  t.match(refused, {
    status: 503,
    body: {
      code: 'journal_archive_unavailable',
      file: month?.file,
      detail: `The file ${month?.file} of the archived journal is missing.`,
    },
  })
  t.notMatch(JSON.stringify(refused.body), archiveDir, 'without the folder')
  renameSync(away, file)
  const findings = await verifyDatabaseInvariants(sql, archiveDir)
  t.strictSame(
    findings.filter(({ broken }) => broken.length > 0),
    [],
  )
  t.equal((await historyOf(`agent/${agent.id}/history?at=2`, agent.key)).status, 200)
})

t.test('an actor at rest keeps its history', async (t) => {
  const { key } = await onboard()
  const { body: task } = await ask('POST', '/api/task/start', {
    key,
    json: { name: 'T', budget_usdc: 0.1 },
  })
  await ask('POST', '/api/task/end', { key, json: { task_id: task.task_id } })
  const [stored] = await sql<
    { archived: boolean }[]
  >`select archived from actors where id = ${task.task_id}`
  t.equal(stored?.archived, true)
  const { body: listed } = await ask('GET', `/api/actors?q=${String(task.task_id)}`, {
    headers: operator,
  })
  t.match(listed, { actors: [{ kind: 'taskSession', ended: true, archived: true }] })
  const { entries } = await historyOf(`taskSession/${task.task_id}/history`, key)
  t.match(entries, [{ state: 'completed' }, { state: 'active', context: { budget: 0.1 } }])
})

t.test('others see nothing of an actor', async (t) => {
  const [mine, other] = [await onboard(), await onboard()]
  const backpack = await ask('POST', '/api/backpack/create', {
    key: mine.key,
    json: {
      agent_name: 'bag',
      fuse: { per_day_usdc: 0.01 },
      pager: { owner_email: 'owner@gas.test' },
    },
  })
  const { backpack_id: id } = backpack.body
  const bound = await ask('POST', '/api/keys', { key: mine.key, json: { backpack_id: id } })
  const boundKey = bound.body.api_key
  for (const path of [`agent/${mine.id}`, `backpack/${id}`, `quota/${mine.id}`]) {
    t.equal((await historyOf(`${path}/history`, other.key)).status, 404, path)
    t.equal((await ask('GET', `/api/actors/${path}/history`)).status, 404, `${path} without a key`)
  }
  t.equal((await historyOf(`backpack/${id}/history`, boundKey)).status, 200, 'its own Backpack')
  t.equal((await historyOf(`agent/${mine.id}/history`, boundKey)).status, 404, 'not its agent')
  t.equal((await historyOf(`agent/${mine.id}/history`)).status, 200, 'the operator')
  const { body } = await historyOf(`backpack/${id}/history`, mine.key)
  t.notMatch(JSON.stringify(body), 'owner@gas.test', 'contacts are withheld')
  t.equal((await historyOf('nothing/none/history')).status, 404)
  t.equal((await ask('GET', '/api/actors')).status, 401)
  t.equal((await ask('GET', '/api/actors', { key: mine.key })).status, 401)
})

t.test('a fleet is read by its owner, and by no member', async (t) => {
  const [owner, member] = [await onboard(), await onboard()]
  const made = await ask('POST', '/api/fleet/create', { key: owner.key, json: { name: 'crew' } })
  const id = String(made.body['fleet_id'])
  await ask('POST', '/api/fleet/add-agent', {
    key: member.key,
    json: { fleet_id: id, agent_id: member.id },
  })
  const { entries, status } = await historyOf(`fleet/${id}/history`, owner.key)
  t.equal(status, 200, made.text)
  t.match(entries.at(-1), { command: 'fleet.create', context: { ownerId: owner.id } })
  t.equal((await historyOf(`fleet/${id}/history`, member.key)).status, 404)
})

t.test('the list finds actors by kind, name, id and agent', async (t) => {
  const agent = await onboard()
  await ask('POST', '/api/task/start', {
    key: agent.key,
    json: { name: 'needle %_', budget_usdc: 0.1 },
  })
  const list = async (query: string) => {
    const { body } = await ask('GET', `/api/actors?${query}`, { headers: operator })
    return body as unknown as {
      actors: { kind: string; id: string; name: string }[]
      next_cursor: string | null
    }
  }
  t.match(await list('q=needle'), {
    actors: [{ kind: 'taskSession', name: 'needle %_', state: 'active' }],
  })
  t.match(await list(`q=${encodeURIComponent('%_')}`), { actors: { length: 1 } }, 'no pattern')
  t.match(await list(`kind=agent&q=${agent.id.slice(5)}`), { actors: [{ id: agent.id }] })
  const own = await list(`agent=${agent.id}`)
  t.strictSame(new Set(own.actors.map(({ kind }) => kind)), new Set(['agent', 'taskSession']))
  const [page, all] = [await list('limit=2'), await list('limit=200')]
  const next = await list(`limit=200&cursor=${page.next_cursor}`)
  t.strictSame([...page.actors, ...next.actors], all.actors, 'pages join without gaps')
})

t.test('ten thousand actors are listed and searched at once', async (t) => {
  await sql`insert into aggregates select 'many' || n, 'agent', 1 from generate_series(1, 10000) n`
  await sql`insert into actors select 'many' || n, 'taskSession', 'many-task-' || n, 1,
    jsonb_build_object('value', 'active', 'context', jsonb_build_object('name', 'task ' || n)), false
    from generate_series(1, 10000) n`
  await sql`analyze actors`
  for (const query of ['kind=taskSession&limit=200', 'q=task%209999', 'q=nowhere']) {
    const { status, ms } = await ask('GET', `/api/actors?${query}`, { headers: operator })
    t.ok(status === 200 && ms < 1_000, `${query}: ${Math.round(ms)} ms`)
  }
  await sql`delete from actors where aggregate_id like 'many%'`
  await sql`delete from aggregates where id like 'many%'`
})

t.test('a refusal says why, to those whom it concerns', async (t) => {
  const [mine, other] = [await onboard(), await onboard()]
  const { body: bag } = await ask('POST', '/api/backpack/create', {
    key: mine.key,
    json: { agent_name: 'bag', fuse: { per_day_usdc: 0.006 } },
  })
  const bound = await ask('POST', '/api/keys', {
    key: mine.key,
    json: { backpack_id: bag.backpack_id },
  })
  const sibling = await ask('POST', '/api/keys', {
    key: mine.key,
    json: { backpack_id: bag.backpack_id },
  })
  const refuel = () => ask('POST', '/api/refuel', { key: bound.body.api_key, json: { tool: TOOL } })
  t.equal((await refuel()).status, 200)
  const problem = await refuel()
  t.match(problem, { status: 403, body: { code: 'FUSE_TRIPPED' } })
  const why = String(problem.body['why_url'])
  t.match(why, /^http:\/\/gas\.test\/api\/why\/[0-9a-f-]{36}$/)
  await refuel()
  const path = why.slice('http://gas.test'.length)
  const told = await ask('GET', path, { key: mine.key })
  t.match(told.body, {
    code: 'FUSE_TRIPPED',
    actor: { kind: 'backpack', id: bag.backpack_id },
    state: 'far',
    figures: { limit_usdc: 0.006, spent_usdc: 0.005 },
    event: { type: 'SPEND', amount: 0.005 },
    transition: { id: /\|SPEND\|/ },
    passed_over: Array,
    count: 2,
    context: { spentDay: 0.005 },
  })
  t.equal((await ask('GET', path, { key: bound.body.api_key })).status, 200, 'the refused key')
  t.equal((await ask('GET', path, { headers: operator })).status, 200, 'the operator')
  t.equal((await ask('GET', path, { key: sibling.body.api_key })).status, 404, 'another bound key')
  const unknown = '/api/why/00000000-0000-8000-8000-000000000000'
  const [stranger, nothing] = await Promise.all(
    [path, unknown].map(async (at) => ask('GET', at, { key: other.key })),
  )
  t.match([stranger?.status, nothing?.status], [404, 404], 'a stranger')
  t.ok(
    [stranger, nothing].every((one) => (one?.ms ?? 0) > 1_000),
    'a reason of others takes as long as none',
  )
  t.equal((await ask('GET', path)).status, 404, 'nobody')
  const list = await ask('GET', '/api/why', { key: mine.key })
  t.match(list.body, { count: 1, refusals: [{ code: 'FUSE_TRIPPED', count: 2 }] })
  t.equal((await ask('POST', '/api/refuel', { json: { tool: TOOL } })).body['why_url'], undefined)
})

t.test('an agent has a ring of its latest hundred refusals', async (t) => {
  const agent = await onboard()
  for (let at = 0; at < 105; at++)
    await ask('POST', '/api/agent/send', {
      key: agent.key,
      json: { to_agent_id: agent.id.replace(/.$/, '0'), amount_usdc: 10 + at },
    })
  const { body } = await ask('GET', '/api/why?limit=100', { key: agent.key })
  const rows = await sql`select from refusals where agent_id = ${agent.id}`
  t.ok(rows.length <= 100, `${rows.length} rows`)
  t.equal(body['count'], rows.length)
})
