import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { parseWithBigints, stringifyWithBigints } from '../../core/json/bigint.ts'
import { hmacSha256AsEncodedText } from '../../core/key-derivation-and-encryption.ts'

/** What is written by hand because it is faster gives what the platform gives. */

const tagBigint = (_key: string, value: unknown): unknown =>
  typeof value === 'bigint' ? { $n: value.toString() } : value

const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constant('\ud800"\\\u2028'))
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: 'small' },
    fc.bigInt(),
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    fc.constant(undefined),
    text,
    fc.date(),
    fc.array(tie('any')),
    fc.dictionary(text, tie('any')),
  ),
})).any

t.test('JSON with bigints is that of a replacer', async (t) => {
  fc.assert(
    fc.property(value, (given) => {
      const expected = JSON.stringify(given, tagBigint) ?? 'null'
      if (stringifyWithBigints(given) !== expected) throw new Error(expected)
    }),
    { numRuns: 500 },
  )
  t.same(parseWithBigints(stringifyWithBigints({ a: [1n, { b: -5n }] })), { a: [1n, { b: -5n }] })
})

/** Around the length at which the way changes, with up to three bytes a character. */
const atTheLimit = fc
  .tuple(fc.constantFrom('a', 'é', '漢'), fc.integer({ min: 505, max: 520 }))
  .map(([letter, length]) => letter.repeat(length))

t.test('an HMAC of a short or long text is that of Node', async (t) => {
  const keys = [Buffer.alloc(32, 7), Buffer.from('k'), Buffer.alloc(64, 9), Buffer.alloc(65, 9)]
  fc.assert(
    fc.property(fc.constantFrom(...keys), fc.oneof(text, atTheLimit), (key, message) => {
      for (const encoding of ['hex', 'binary'] as const) {
        const expected = createHmac('sha256', key).update(message, 'utf8').digest(encoding)
        if (hmacSha256AsEncodedText(key, message, encoding) !== expected) throw new Error(message)
      }
    }),
    { numRuns: 300 },
  )
  t.pass()
})
