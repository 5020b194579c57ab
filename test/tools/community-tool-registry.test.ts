import t from 'tap'
import type { CommunityToolRecord, CommunityToolState } from '../../domain/community-tool-record.ts'
import type { Tool } from '../../tools/define-tool.ts'
import { createCommunityToolRegistry } from '../../tools/community/community-tool-registry.ts'

/** The community tools that a node knows while announcements of other nodes are lost. */

const record = (slug: string, state: CommunityToolState, changeId: string) =>
  ({ slug, state, changeId }) as CommunityToolRecord

function startRegistry(stored: Map<string, CommunityToolRecord>) {
  const reads: string[] = []
  const registry = createCommunityToolRegistry({
    clock: { mono: () => 0 },
    store: {
      active: async () => [...stored.values()].filter(({ state }) => state !== 'retired'),
      async find(slug) {
        reads.push(slug)
        return stored.get(slug) ?? null
      },
    },
    makeTool: (found) => ({ slug: found.slug, community: { record: found } }) as unknown as Tool,
    log: (message, error) => t.fail(`${message}: ${String(error)}`),
  })
  return { registry, reads }
}

t.test('after a lost announcement a retired tool is sold no more', async (t) => {
  const stored = new Map([
    ['kept', record('kept', 'probation', '1')],
    ['gone', record('gone', 'listed', '1')],
  ])
  const { registry, reads } = startRegistry(stored)
  await registry.reload()
  t.strictSame(
    registry.list().map(({ slug }) => slug),
    ['gone', 'kept'],
  )
  stored.set('gone', record('gone', 'retired', '2'))
  await registry.reload()
  t.strictSame(
    registry.list().map(({ slug }) => slug),
    ['kept'],
  )
  t.equal(registry.find('gone')?.community?.record.state, 'retired', 'its name is still known')
  await registry.reload()
  t.strictSame(reads, ['gone'], 'it is read once')
})
