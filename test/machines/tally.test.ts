import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { tally, type TallyEvent } from '../../machines/tally.ts'
import { begin, golden, play, resolve, step } from './play.ts'

const start = begin(tally, { agentId: 'a' }).snapshot
const use = (name: string) => ({ type: 'USE', name, most: 2 }) as const
const own = (...names: string[]) => ({ type: 'OWN', names }) as const
const order = (seen: number) => ({ type: 'ORDER', seen }) as const
const refusal = (snapshot: SnapshotFrom<typeof tally>, event: TallyEvent) =>
  step(tally, snapshot, event).refused

t.test('free calls run out, for each tool by itself', async (t) => {
  const { snapshot } = play(tally, start, [use('x'), use('x')])
  t.equal(refusal(snapshot, use('x')), 'allowance_used')
  t.equal(refusal(snapshot, use('y')), null)
})

t.test('a thing is owned once, and of several all or none', async (t) => {
  const { snapshot } = play(tally, start, [own('x')])
  t.equal(refusal(snapshot, own('y', 'x')), 'already_owned')
  t.equal(refusal(snapshot, own('y')), null)
})

t.test('an order stands on the one before it', async (t) => {
  const { snapshot } = play(tally, start, [order(0)])
  t.equal(refusal(snapshot, order(0)), 'vault_changed')
  t.equal(refusal(snapshot, order(1)), null)
})

t.test('an unknown event is refused', async (t) => {
  t.equal(refusal(start, { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('snapshots of version 1 still resolve and go on', async (t) => {
  for (const stored of golden('tally-v1.json')) {
    const snapshot = resolve(tally, stored)
    t.strictSame(snapshot.context, stored.context)
    t.equal(refusal(snapshot, order(snapshot.context.orders)), null)
  }
})
