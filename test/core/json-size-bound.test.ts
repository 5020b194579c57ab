import t from 'tap'
import { createSeededRandom, type SeededRandom } from '../../chaos/seeded-random.ts'
import { isJsonSizeBoundWithin } from '../../core/json/size-bound.ts'

/** The real size in bytes. */
const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

const STRINGS = ['', 'plain', '"\\\n', '\u0000\u001f', 'größe', '\u{1f600}', '\ud800', '\u2028']
const LONG_NUMBERS = ['-1.2345678901234567e-300', '-0.0000012345678901234567'].map(Number)
const NUMBERS = [0, -0, 1, Number.MAX_VALUE, Number.NaN, 123456789012, ...LONG_NUMBERS]

function randomValue(chance: SeededRandom, depth: number): unknown {
  const kind = chance.integer(0, depth === 0 ? 3 : 5)
  if (kind === 0) return chance.pick(STRINGS).repeat(chance.integer(0, 9))
  if (kind === 1) return chance.pick(NUMBERS)
  if (kind === 2) return chance.pick([true, false, null, undefined])
  if (kind === 3) return chance.pick([new Date(0), { toJSON: () => 'x'.repeat(99) }, {}, []])
  const values = Array.from({ length: chance.integer(0, 5) }, () => randomValue(chance, depth - 1))
  if (kind === 4) return values
  return Object.fromEntries(values.map((value, at) => [chance.pick(STRINGS) + at, value]))
}

t.test('no value is longer than the bound says', async (t) => {
  const seed = Date.now() % 2 ** 31
  const chance = createSeededRandom(seed)
  const wrong = []
  let within = 0
  for (let round = 0; round < 20_000; round += 1) {
    const value = { value: randomValue(chance, 4) }
    const bytes = bytesOf(value)
    if (isJsonSizeBoundWithin(value, bytes - 1)) wrong.push(JSON.stringify(value))
    if (isJsonSizeBoundWithin(value, bytes * 20 + 100)) within += 1
  }
  t.strictSame(wrong, [], `seed ${seed}`)
  t.ok(within > 10_000, `${within} are shown to be within twenty times their size`)
})

t.test('ordinary values are within, and what cannot be judged is not', async (t) => {
  const rows = Array.from({ length: 100 }, (_, at) => ({ tool: `tool ${at}`, calls: at, ok: true }))
  t.equal(isJsonSizeBoundWithin({ rows }, 64 * 1024), true)
  t.equal(isJsonSizeBoundWithin({ text: 'x'.repeat(2_000) }, 1_000), false)
  const cycle: Record<string, unknown> = {}
  cycle['again'] = cycle
  t.equal(isJsonSizeBoundWithin(cycle, 1024 * 1024), false)
  t.equal(isJsonSizeBoundWithin({ at: new Date(0) }, 1_000), false)
  t.equal(isJsonSizeBoundWithin({ amount: 1n }, 1_000), false)
  const boxed = Array.from({ length: 100 }, () => Object(1e-300 / 3) as unknown)
  t.equal(isJsonSizeBoundWithin(boxed, bytesOf(boxed) - 1), false)
})
