import t from 'tap'
import { compileUntrustedSchema } from '../../tools/community/untrusted-schema-validator.ts'

/** Schemas that strangers wrote: what a validation with them may cost, and what their keywords mean. */

const compile = (properties: object, more: object = {}) =>
  compileUntrustedSchema(
    { type: 'object', properties, ...more },
    { pointer: '/input_schema', reserved: [] },
  )
/** A schema that applies another one 400 times to the items of a list. */
const applied = (one: object) =>
  compile(
    { a: { items: { allOf: Array.from({ length: 400 }, () => ({ $ref: '#/$defs/u' })) } } },
    { $defs: { u: one } },
  )
const list = (length: number, item: (n: number) => unknown) =>
  Array.from({ length }, (_, n) => item(n))
const TOO_LARGE = [{ pointer: '', detail: 'is too large for its schema to be checked' }]

t.test('every keyword that compares or counts texts and numbers has a price', (t) => {
  const text = 'x'.repeat(400)
  const cases: [object, unknown, number][] = [
    [{ uniqueItems: true, maxItems: 256 }, list(256, (n) => [n, text.slice(0, 200)]), 1],
    [{ enum: [text, 'a'] }, text, 128],
    [{ const: { a: text } }, { a: text }, 128],
    [{ minLength: 300 }, text, 128],
    [{ maxLength: 400, minLength: 300 }, text, 128],
    [{ multipleOf: 0.01 }, 0.01, 200],
  ]
  for (const [schema, item, times] of cases) {
    const validate = applied(schema)
    const name = Object.keys(schema).join()
    t.strictSame(validate({ a: list(times, () => item) }), TOO_LARGE, name)
    t.strictSame(compile({ a: { items: schema } })({ a: [item] }), [], `${name}, applied once`)
  }
  const unique = applied({ uniqueItems: true, maxItems: 256, items: { type: 'array' } })
  const item = (n: number) => [0, 0, 0, 0, 0, 0, 0, 0, 0, n]
  t.strictSame(unique({ a: [list(256, item)] }), [], 'many small items are compared once')
  t.end()
})

t.test('values are equal as JSON says', (t) => {
  const unique = compile({ a: { uniqueItems: true, maxItems: 9 } })
  t.strictSame(unique({ a: [1, '1', [1], { a: 1 }, null, 'null', true, {}, []] }), [])
  for (const a of [
    [
      { a: 1, b: [{ c: 2, d: 3 }] },
      { b: [{ d: 3, c: 2 }], a: 1 },
    ],
    ['a', 'a'],
    [1, 1.0],
  ])
    t.strictSame(unique({ a }), [{ pointer: '/a', detail: 'must NOT have duplicate items' }])
  t.strictSame(compile({ a: { uniqueItems: false } })({ a: [1, 1] }), [])
  const known = compile({ a: { enum: [{ x: 1, y: 2 }, 'b'] }, c: { const: null } })
  t.strictSame(known({ a: { y: 2, x: 1 }, c: null }), [])
  t.match(known({ a: 'c' }), [{ pointer: '/a', detail: /allowed values/ }])
  t.match(known({ c: 0 }), [{ pointer: '/c', detail: /equal to constant/ }])
  const text = compile({ a: { minLength: 2, maxLength: 3 } })
  for (const a of ['ab', 'abc', '😀😀😀', 7]) t.strictSame(text({ a }), [], String(a))
  t.match(text({ a: '😀' }), [{ detail: 'must NOT have fewer than 2 characters' }])
  t.match(text({ a: '😀😀😀a' }), [{ detail: 'must NOT have more than 3 characters' }])
  t.end()
})

t.test('every keyword that the validator applies is checked and counted', (t) => {
  const loop = { u: { dependencies: { a: { $ref: '#/$defs/u' } } } }
  t.throws(() => compile({ a: { $ref: '#/$defs/u' } }, { $defs: loop }), /recursive/)
  const names = list(50, (n) => `n${n}`)
  for (const keyword of ['dependentRequired', 'dependencies']) {
    const many = { [keyword]: Object.fromEntries(list(41, (n) => [`n${n}`, names]) as never) }
    t.throws(() => compile({}, many), /applies \d+ subschemas/, keyword)
    const one = compile({}, { [keyword]: { a: ['b'] } })
    t.strictSame([one({ a: 1, b: 1 }).length, one({ a: 1 }).length], [0, 1])
  }
  t.end()
})
