import t from 'tap'
import { Type } from 'typebox'
import { NATIVE_TOOLS } from '../../tools/tool-catalogue.ts'
import { compileSchemaValidator, compileInputValidator } from '../../tools/schema-validator.ts'

const unknown = (count: number): Record<string, number> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`unknown_${n}`, n]))

t.test('invalid input is rejected with any number of unknown fields', async (t) => {
  for (const { slug, input, examples } of NATIVE_TOOLS) {
    const check = compileInputValidator(input)
    const given = (examples[0] ?? {}) as object
    for (const count of [1, 31, 32, 33, 60, 2_000])
      t.not(check({ ...given, ...unknown(count) }).length, 0, `${slug} with ${count}`)
  }
  const nested = compileSchemaValidator(
    Type.Object({
      list: Type.Array(Type.Object({ a: Type.Integer() }, { additionalProperties: false })),
    }),
  )
  t.not(nested({ list: Array.from({ length: 100 }, () => ({ a: 1, b: 1 })) }).length, 0)
})

t.test('a few unknown fields are named', async (t) => {
  const check = compileInputValidator(
    Type.Object({ query: Type.String() }, { additionalProperties: false }),
  )
  t.match(check({ query: 'x', querry: 1 }), [{ pointer: '/querry' }])
  t.match(check({ ...unknown(60), query: 'x' }), [{ pointer: '', detail: /fields/ }])
})
