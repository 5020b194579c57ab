import t from 'tap'
import { createFairSemaphore } from '../../../core/concurrency/fair-semaphore.ts'
import {
  createFairLeaseQueue,
  type FairLeaseQueueOptions,
  type FairQueueLease,
} from '../../../core/concurrency/fair-queue.ts'
import { createManualClock } from '../../support/tools/test-tool-context.ts'

const settings = (more: Partial<FairLeaseQueueOptions> = {}) => {
  const clock = createManualClock()
  const createRejection = () => new Error('full')
  return {
    clock,
    options: {
      clock,
      places: 100,
      maxWaiting: 100,
      maxWaitingPerOwner: 100,
      createRejection,
      ...more,
    },
  }
}

/** Callers of a queue by their names, `a1` being one of owner `a`; who was served, in order. */
function served(more: Partial<FairLeaseQueueOptions> = {}) {
  const { clock, options } = settings(more)
  const queue = createFairLeaseQueue<string>(options)
  const order: string[] = []
  const leases = new Map<string, FairQueueLease<string>>()
  const refused: string[] = []
  const wait = (name: string, wanted = {}) =>
    queue.wait(name.slice(0, 1), wanted).then(
      (lease) => {
        order.push(name)
        leases.set(name, lease)
      },
      (error: Error) => void refused.push(`${name}: ${error.message}`),
    )
  const give = async () => {
    const given = queue.offer('value')
    await new Promise(setImmediate)
    return given
  }
  /** How long the owner served last has had its slot. */
  const end = (name: string, afterMs = 0) => {
    clock.pass(afterMs)
    leases.get(name)?.release()
  }
  return { clock, queue, order, refused, wait, give, end }
}

t.test('callers of one owner are served in their order', async (t) => {
  const { wait, give, order, queue } = served()
  for (const name of ['a1', 'a2', 'a3']) void wait(name)
  t.equal(queue.waiting(), 3)
  for (let n = 0; n < 3; n += 1) t.equal(await give(), true)
  t.equal(await give(), false, 'no caller waits')
  t.strictSame(order, ['a1', 'a2', 'a3'])
})

t.test('an owner with long turns waits behind one who comes later with short turns', async (t) => {
  const { wait, give, end, order, clock } = served()
  for (const name of ['a1', 'a2', 'a3', 'a4']) void wait(name)
  await give()
  clock.pass(1_000)
  for (let n = 1; n <= 8; n += 1) void wait(`b${n}`)
  end('a1', 6_000)
  for (let n = 1; n <= 8; n += 1) {
    await give()
    end(`b${n}`, 100)
  }
  await give()
  t.strictSame(order, ['a1', 'b1', 'b2', 'b3', 'b4', 'b5', 'b6', 'b7', 'b8', 'a2'])
})

t.test('a stream of new owners starves no owner: waiting compensates for past use', async (t) => {
  const { wait, give, end, order } = served()
  for (const name of ['a1', 'a2']) void wait(name)
  await give()
  end('a1', 2_000)
  for (const name of ['b', 'c', 'd', 'e', 'f', 'g']) {
    void wait(`${name}1`)
    if (order.includes('a2')) break
    await give()
    end(`${order.at(-1)}`, 1_000)
  }
  t.ok(order.indexOf('a2') > 1, 'others came first')
  t.ok(order.includes('a2'), order.join(' '))
})

t.test(
  'the owner with the fewest slots is next, and an owner at its bound leaves slots to others',
  async (t) => {
    const { wait, give, end, order } = served({ maxHeldPerOwner: 2 })
    for (const name of ['a1', 'a2', 'a3']) void wait(name)
    await give()
    await give()
    t.equal(await give(), false, 'no other caller waits')
    void wait('b1')
    t.equal(await give(), true)
    end('a1')
    t.equal(await give(), true)
    t.strictSame(order, ['a1', 'a2', 'b1', 'a3'])
  },
)

t.test('one place is kept free of the owner that holds all others', async (t) => {
  const { wait, give, end, order } = served({ places: 3 })
  for (const name of ['a1', 'a2', 'a3', 'a4']) void wait(name)
  await give()
  await give()
  t.equal(await give(), false, 'the third place waits for somebody else')
  void wait('b1')
  t.equal(await give(), true)
  t.strictSame(order, ['a1', 'a2', 'b1'])
  end('a1')
  t.equal(await give(), true)
  t.strictSame(order, ['a1', 'a2', 'b1', 'a3'])
  const single = served({ places: 1 })
  void single.wait('a1')
  t.equal(await single.give(), true, 'a pool of one place serves everybody')
})

t.test('the last place is lent to short uses only, whoever waits', async (t) => {
  const { wait, give, end, order, refused, queue } = served({ places: 3, longMs: 5_000 })
  for (const name of ['a1', 'b1', 'c1', 'd1']) void wait(name, { holdMs: 5_001 })
  t.strictSame([await give(), await give(), await give()], [true, true, false])
  void wait('c2', { holdMs: 5_000 })
  t.equal(await give(), true, 'a short one passes the long one of its owner')
  end('a1')
  t.equal(await give(), true)
  t.strictSame(order, ['a1', 'b1', 'c2', 'd1'])
  t.strictSame([queue.rejectNext(), queue.rejectNext()], [true, false])
  await new Promise(setImmediate)
  t.strictSame(refused, ['c1: full'], 'a long one is rejected like any other')
})

t.test('who wants a place for less time goes first, until another has waited longer', async (t) => {
  const { wait, give, order, clock } = served()
  void wait('a1', { holdMs: 5_000 })
  clock.pass(1_000)
  void wait('b1', { holdMs: 1_000 })
  void wait('c1', { holdMs: 4_500 })
  for (let n = 0; n < 3; n += 1) await give()
  t.strictSame(order, ['b1', 'a1', 'c1'])
})

t.test('a full queue rejects the last caller of the largest owner', async (t) => {
  const { wait, give, refused, order, queue } = served({ maxWaiting: 4, maxWaitingPerOwner: 3 })
  for (const name of ['a1', 'a2', 'a3', 'a4']) void wait(name)
  await new Promise(setImmediate)
  t.strictSame(refused, ['a4: full'], 'an owner has its own bound')
  for (const name of ['b1', 'c1']) void wait(name)
  await new Promise(setImmediate)
  t.strictSame(refused, ['a4: full', 'a3: full'])
  void wait('b2')
  await new Promise(setImmediate)
  t.strictSame(refused.slice(2), ['b2: full'], 'no owner has more than its share')
  t.equal(queue.waiting(), 4)
  while (await give());
  t.strictSame(new Set(order), new Set(['a1', 'a2', 'b1', 'c1']))
})

t.test('a caller that leaves or times out is not served and frees its place', async (t) => {
  const { wait, give, refused, order } = served()
  const left = new AbortController()
  const gone = wait('a1', { signal: left.signal })
  const impatient = wait('a2', { timeoutMs: 1 })
  void wait('a3')
  left.abort(new Error('left'))
  await Promise.all([gone, impatient])
  t.strictSame(refused, ['a1: left', 'a2: full'])
  const late = wait('a4', { signal: left.signal })
  await late
  t.equal(refused[2], 'a4: left', 'it had left before it came')
  await give()
  t.equal(await give(), false)
  t.strictSame(order, ['a3'])
})

t.test('the next caller in turn can be rejected', async (t) => {
  const { wait, refused, queue } = served()
  const all = ['a1', 'b1'].map((name) => wait(name))
  t.strictSame([queue.rejectNext(), queue.rejectNext(), queue.rejectNext()], [true, true, false])
  await Promise.all(all)
  t.strictSame(refused, ['a1: full', 'b1: full'])
})

t.test('the slots in use never exceed the maximum, and each freed slot is passed on', async (t) => {
  const { clock, options } = settings()
  const places = createFairSemaphore(2, options)
  let [inside, most] = [0, 0]
  const order: string[] = []
  const one = async (owner: string) => {
    const leave = await places.acquire(owner)
    inside += 1
    most = Math.max(most, inside)
    order.push(owner)
    await new Promise(setImmediate)
    clock.pass(10)
    inside -= 1
    leave()
  }
  await Promise.all(['a', 'a', 'a', 'a', 'b', 'c'].map(one))
  t.equal(most, 2)
  t.strictSame(order.slice(0, 3), ['a', 'b', 'c'], 'who holds none goes before who holds some')
  const [first, second] = [await places.acquire('a'), await places.acquire('b')]
  const waiting = places.acquire('c')
  places.close()
  await t.rejects(waiting, { message: 'full' })
  first()
  second()
  await one('d')
})
