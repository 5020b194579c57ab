import { transform } from 'esbuild'
import t from 'tap'
import { mutated } from './planting.ts'
import { PLANTS } from './plants.ts'
import { EVERYTHING, MAKERS } from './suite.ts'

t.test('every planted bug has a place in the sources, and its copy is a program', async (t) => {
  for (const [name, { edits, profile }] of Object.entries(PLANTS)) {
    t.test(name, async (t) => {
      for (const [file, text] of mutated(edits))
        await t.resolves(transform(text, { loader: 'ts' }), file)
      t.strictSame(
        Object.keys(profile).filter((kind) => MAKERS[kind] === undefined),
        [],
      )
    })
  }
  t.throws(() => mutated([{ file: 'core/money.ts', from: 'no such text', to: '' }]), /0 places/)
})

t.test('every kind of operation is drawn in the long course', async (t) => {
  t.strictSame(Object.keys(EVERYTHING).sort(), Object.keys(MAKERS).sort())
})
