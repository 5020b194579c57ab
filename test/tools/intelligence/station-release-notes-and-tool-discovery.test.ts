import t from 'tap'
import { composeReleaseNotesService } from '../../../app/compose/compose-changelog-and-catalogue-history.ts'
import {
  diffCatalogues,
  type ComparedCatalogueToolProperties,
} from '../../../domain/tool-catalogue-diff.ts'
import { HOUR, MINUTE } from '../../../core/clock.ts'
import { createToolCatalogue, NATIVE_TOOLS } from '../../../tools/tool-catalogue.ts'
import { parseChangelog } from '../../../tools/intelligence/station-updates/parse-changelog.ts'
import type { ToolPorts } from '../../../tools/tool-ports.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import { createManualClock } from '../../support/tools/test-tool-context.ts'

const offered = (
  slug: string,
  more: Partial<ComparedCatalogueToolProperties> = {},
): ComparedCatalogueToolProperties => ({
  slug,
  name: slug,
  category: 'web',
  access: 'paid',
  price_usdc: 0.1,
  free_tier: 'null',
  description: slug,
  input: 'a',
  output: 'a',
  ...more,
})

type Listed = { slug: string; fields?: string[]; revision: number }

t.test('a station reports its version and its changes', async (t) => {
  const main = await startInProcessTestStation(t)
  const ask = async (tool: string, fields: object = {}, station: InProcessStation = main) => {
    const { status, body, text } = await station.call(null, tool, fields)
    t.equal(status, 200, text.slice(0, 300))
    t.match(body, { _meta: { cost_usdc: 0, rail: 'free' } })
    return body
  }
  const list = (await main.ask('GET', '/api/tools')).body as unknown as {
    total: number
    tools: { slug: string; price_usdc: number }[]
  }

  const latest = await ask('get_latest_gas_station')
  const prices = list.tools.map((one) => one.price_usdc).filter((price) => price > 0)
  t.match(latest, {
    name: 'Gas Station',
    is_latest: null,
    catalogue: {
      revision: 1,
      total: list.total,
      price_from_usdc: Math.min(...prices),
      price_to_usdc: Math.max(...prices),
    },
    endpoints: { call: 'http://gas.test/api/refuel' },
  })
  t.ok((latest['announcements'] as object[]).length > 0, 'the changelog is read')
  const { version } = latest
  t.match(await ask('get_latest_gas_station', { known_version: version }), { is_latest: true })
  t.match(await ask('get_latest_gas_station', { known_version: '0.0.1' }), { is_latest: false })

  await t.test('every tool of the first catalogue is new', async (t) => {
    const all = await ask('discover_new_tools', { limit: 100 })
    const added = all['added'] as Listed[]
    t.strictSame(added.map(({ slug }) => slug).sort(), list.tools.map(({ slug }) => slug).sort())
    t.match(all, { revision: 1, changed: [], removed: [], more: false })
    const two = await ask('discover_new_tools', { limit: 2 })
    t.equal((two['added'] as Listed[]).length, 2)
    t.equal(two['more'], true)
    t.match(await ask('discover_new_tools', { since_revision: 1 }), { added: [], more: false })
    t.match(await ask('ping_for_updates', { since_revision: 1 }), { updates: false, see: null })
    t.match(await ask('ping_for_updates'), { updates: null, next_poll_seconds: 86_400 })
  })

  await t.test('a station that starts with another catalogue stores the differences', async (t) => {
    // The previous catalogue: one tool missing, one with another price, one that was removed.
    await main.sql`
      update catalogue_revisions set at = '2026-01-01', tools =
        (select jsonb_agg(case when tool->>'slug' = 'price_feed'
                  then tool || '{"price_usdc": 9, "output": "old"}' else tool end)
           from jsonb_array_elements(tools) tool where tool->>'slug' <> 'web_search')
        || ${JSON.stringify([offered('old_tool')])}::text::jsonb`
    // How many calls are free is the operator's, and no news.
    const settings = { FREE_TIER_PER_DAY: '3' }
    const next = await startInProcessTestStation(t, settings, { database: main.database })
    const news = await ask('discover_new_tools', { since_revision: 1 }, next)
    t.match(news, {
      revision: 2,
      added: [{ slug: 'web_search', revision: 2, docs_url: /web_search$/ }],
      changed: [{ slug: 'price_feed', price_usdc: 0, fields: ['price_usdc', 'output'] }],
      removed: [{ slug: 'old_tool' }],
    })
    t.strictSame(
      [news['added'], news['changed'], news['removed']].map((all) => (all as []).length),
      [1, 1, 1],
    )
    for (const since of ['2026-01-01', '2026-06-01T12:00:00+02:00']) {
      t.match(await ask('ping_for_updates', { since }, next), {
        updates: true,
        revision: 2,
        tools: { added: 1, changed: 1, removed: 1 },
        see: 'discover_new_tools',
      })
    }
    t.match(await ask('ping_for_updates', { since: '2999-01-01' }, next), { updates: false })
    const all = await ask('discover_new_tools', { limit: 100 }, next)
    const named = (kind: string) => (all[kind] as Listed[]).map(({ slug }) => slug)
    t.ok(named('added').includes('price_feed') && named('added').includes('web_search'))
    t.strictSame([named('changed'), named('removed')], [[], ['old_tool']])
    const again = await startInProcessTestStation(t, {}, { database: main.database })
    t.match(await ask('ping_for_updates', { version }, next), { revision: 2, updates: false })

    // However many changes there were, the first are not lost.
    await main.sql`
      insert into catalogue_revisions (revision, at, version, tools, changes)
      select n, now(), version, tools, ${JSON.stringify([
        { slug: 'price_feed', change: 'changed', fields: ['description'] },
      ])}::text::jsonb
        from catalogue_revisions, generate_series(3, 302) n where revision = 2`
    for (const station of [next, again]) {
      const many = await ask('discover_new_tools', { since_revision: 0, limit: 100 }, station)
      t.match(many, { revision: 302, changed: [], more: false })
      t.strictSame((many['added'] as Listed[]).length, list.total)
      t.equal((many['added'] as Listed[])[0]?.slug, 'price_feed', 'the latest word first')
    }
  })

  await t.test('an interest finds tools, a category filters them', async (t) => {
    const interest = 'Read the price of a token'
    const { fitting } = await ask('discover_new_tools', { interest })
    t.ok((fitting as Listed[]).some(({ slug }) => slug === 'price_feed'))
    const web = await ask('discover_new_tools', { category: 'web', interest })
    t.ok((web['added'] as { category: string }[]).every(({ category }) => category === 'web'))
    t.notOk((web['fitting'] as Listed[]).some(({ slug }) => slug === 'price_feed'))
  })

  await t.test('an invalid request is rejected', async (t) => {
    const refused = async (fields: object, pointer: string) => {
      const { body } = await main.call(null, 'ping_for_updates', fields)
      t.match(body, { code: 'invalid_input', errors: [{ pointer }] })
    }
    await refused({ since: 'yesterday' }, '/since')
    await refused({ since: '2026-13-45' }, '/since')
    await refused({ since: '2026-01-01', since_revision: 1 }, '/since')
    await refused({ since_revision: 999 }, '/since_revision')
  })
})

t.test('stations of two versions that alternate store each catalogue once', async (t) => {
  const { sql } = await createTestDatabase(t)
  const clock = createManualClock()
  const published = NATIVE_TOOLS.filter(({ slug }) => /^(agent_ping|ping_for_updates)$/.test(slug))
  /** Starts a station whose version has the given number of tools; then time passes. */
  const start = async (tools: number, ms: number) => {
    const { record, news } = composeReleaseNotesService({
      sql,
      clock,
      publicUrl: 'http://gas.test',
    })
    const version = {
      baseUrl: 'http://gas.test',
      stats: () => null,
      tools: published.slice(0, tools),
      ports: () => ({}) as ToolPorts,
    }
    await record(createToolCatalogue(version))
    clock.pass(ms)
    return news
  }
  const revision = async (tools: number, ms: number) =>
    (await (await start(tools, ms)).latestRevision()).revision

  t.equal(await revision(1, 30 * 24 * HOUR), 1)
  t.equal(await revision(2, 20 * MINUTE), 2, 'the new version, the first time')
  t.equal(await revision(1, 20 * MINUTE), 2, 'an old station that starts again')
  t.equal(await revision(2, 19 * MINUTE), 2)
  t.equal(await revision(1, MINUTE), 2, 'the old one was current within the hour')
  t.equal(await revision(1, 59 * MINUTE), 3, 'not any more: it is back')
  t.equal(await revision(2, MINUTE), 3, 'written an hour and more ago, current until lately')
  t.equal(await revision(2, 0), 4)
  const news = await start(2, 0)
  const told = () => news.revisionsAfter({ revision: 0 })
  await told()
  t.strictSame(
    (await told()).map(({ changes }) => changes.map(({ change }) => change)),
    [['added'], ['removed'], ['added'], ['added']],
    'looks write nothing',
  )

  const both = [start(1, 0), start(2, 0), start(1, 0), start(2, 0)]
  t.equal((await (await Promise.all(both))[0]?.latestRevision())?.revision, 4, 'at once, too')
})

t.test('changes of a catalogue are listed by property', async (t) => {
  const before = [offered('a'), offered('b'), offered('c')]
  const after = [offered('a'), offered('b', { access: 'free', input: 'z' }), offered('d')]
  t.strictSame(diffCatalogues(before, after), [
    { slug: 'b', change: 'changed', fields: ['access', 'input'] },
    { slug: 'd', change: 'added', fields: [] },
    { slug: 'c', change: 'removed', fields: [] },
  ])
  t.strictSame(diffCatalogues(after, after), [])
})

t.test('a changelog is parsed by its headings', async (t) => {
  const text =
    '# Log\n\nWords.\n\n## 2.0.0 (unreleased)\n\nNew things.\n\n- One,\n  and more.\n- Two.\n\n## 1.0.0 (2026-01-02)\n\n- Old.'
  t.strictSame(parseChangelog(text), [
    {
      version: '2.0.0',
      releasedOn: null,
      notes: [
        { about: 'New things', text: 'One, and more.' },
        { about: 'New things', text: 'Two.' },
      ],
    },
    { version: '1.0.0', releasedOn: '2026-01-02', notes: [{ about: '', text: 'Old.' }] },
  ])
  t.strictSame(parseChangelog(''), [])
})
