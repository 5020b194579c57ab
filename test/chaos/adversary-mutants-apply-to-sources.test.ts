import { transform } from 'esbuild'
import t from 'tap'
import { applySourceEdits } from '../../chaos/adversary/build-mutants.ts'
import { ADVERSARY_SERVICE_MUTANTS } from '../../chaos/adversary/adversary-service-mutants.ts'
import {
  ALL_ADVERSARY_OPERATION_WEIGHTS,
  ADVERSARY_OPERATION_GENERATORS,
} from '../../chaos/adversary/run-adversary.ts'

/** Bugs planted for the adversary are edits of the sources by their text. */

t.test('every mutation matches the sources, and the mutated copy compiles', async (t) => {
  for (const [name, { edits, operationWeights }] of Object.entries(ADVERSARY_SERVICE_MUTANTS)) {
    t.test(name, async (t) => {
      for (const [file, text] of applySourceEdits(edits))
        await t.resolves(transform(text, { loader: 'ts' }), file)
      t.strictSame(
        Object.keys(operationWeights).filter(
          (kind) => ADVERSARY_OPERATION_GENERATORS[kind] === undefined,
        ),
        [],
      )
    })
  }
  t.throws(
    () => applySourceEdits([{ file: 'core/money.ts', from: 'no such text', to: '' }]),
    /0 places/,
  )
})

t.test('the long run draws every kind of operation', async (t) => {
  t.strictSame(
    Object.keys(ALL_ADVERSARY_OPERATION_WEIGHTS).sort(),
    Object.keys(ADVERSARY_OPERATION_GENERATORS).sort(),
  )
})
