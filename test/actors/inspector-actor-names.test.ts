import t from 'tap'
import { createActorNames, type NamedActor } from '../../actors/inspection/inspector-actor-names.ts'
import { createInspectionFeed } from '../../actors/inspection/inspection-feed.ts'
import type { RecordedCommand } from '../../actors/inspection/command-recorder.ts'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'

/** Names of agents and bounties in the feed: read once, before the first command that needs them. */

const clock = createDatabaseAdjustedClock()
const log = () => {}

function commandOf(id: string, kind: 'agent' | 'taskSession' = 'agent', version = 1) {
  const snapshot = { value: 'healthy', context: {} }
  const step = { kind, id, aggregateId: id, snapshot, edges: [], refused: null, isNew: false }
  return {
    ...{ aggregateId: id, aggregateKind: 'agent', commandId: `${id}-${version}`, command: 'c' },
    ...{ version, at: 1, cause: 'request', requestId: null },
    steps: [{ ...step, event: { type: 'CREDIT' } }],
  } as const satisfies Omit<RecordedCommand, 'node' | 'callId'>
}
const recorded = (...args: Parameters<typeof commandOf>): RecordedCommand => ({
  ...commandOf(...args),
  ...{ node: 'n', callId: null },
})

function createReader(answer: (ids: string[]) => Promise<string[]>) {
  const asked: string[][] = []
  const names = createActorNames({
    clock,
    log,
    async read(actors): Promise<NamedActor[]> {
      const ids = actors.map(({ id }) => id)
      asked.push(ids)
      return (await answer(ids)).map((id) => ({ kind: 'agent', id, name: `name of ${id}` }))
    },
  })
  return { asked, names }
}

t.test('a name is read once, also that of an actor without one', async (t) => {
  const { asked, names } = createReader(async (ids) => ids.filter((id) => id !== 'nameless'))
  await names.learn([recorded('a'), recorded('a'), recorded('nameless')])
  t.equal(names.nameOf('agent', 'a'), 'name of a')
  t.equal(names.nameOf('agent', 'nameless'), undefined)
  t.equal(names.learn([recorded('a'), recorded('nameless')]), null)
  t.equal(names.learn([recorded('t', 'taskSession')]), null, 'its context has it')
  t.strictSame(asked, [['a', 'nameless']])
})

t.test('a name that a list has told is not read', async (t) => {
  const { asked, names } = createReader(async (ids) => ids)
  names.remember([
    { kind: 'agent', id: 'a', name: 'scout' },
    { kind: 'schedule', id: 's', name: 'may be renamed' },
  ])
  t.equal(names.learn([recorded('a')]), null)
  t.equal(names.nameOf('agent', 'a'), 'scout')
  t.equal(names.nameOf('schedule', 's'), undefined)
  t.strictSame(asked, [])
})

t.test('a database that fails is left alone for a while', async (t) => {
  const { asked, names } = createReader(() => Promise.reject(new Error('gone')))
  await names.learn([recorded('a')])
  t.equal(names.learn([recorded('a')]), null)
  t.equal(asked.length, 1)
})

t.test('commands wait for names, in their order, and not for ever', async (t) => {
  let answer: () => void = () => {}
  const { asked, names } = createReader((ids) =>
    ids.includes('slow')
      ? new Promise((resolve) => (answer = () => resolve(ids)))
      : new Promise(() => {}),
  )
  const bus = { publish: async () => {}, subscribe: () => () => {} }
  const feed = createInspectionFeed({ bus, clock, readStates: async () => [], names, log })
  t.teardown(() => feed.stop())
  const heard: [string, string | undefined][] = []
  const hears = (count: number) =>
    new Promise<void>((resolve) => {
      const look = () => (heard.length >= count ? resolve() : void setImmediate(look))
      look()
    })
  feed.watch({
    heard: ({ commandId, aggregateId }) =>
      void heard.push([commandId, names.nameOf('agent', aggregateId)]),
    missed: () => t.fail('nothing is left out'),
  })
  feed.tell(commandOf('slow', 'agent', 1))
  feed.tell(commandOf('slow', 'agent', 2))
  while (asked.length === 0) await new Promise(setImmediate)
  feed.tell(commandOf('t', 'taskSession', 3))
  answer()
  await hears(2)
  t.strictSame(heard.slice(0, 2), [
    ['slow-1', 'name of slow'],
    ['slow-2', 'name of slow'],
  ])
  feed.tell(commandOf('silent', 'agent', 4))
  await hears(4)
  t.strictSame(heard.slice(2), [
    ['t-3', undefined],
    ['silent-4', undefined],
  ])
})
