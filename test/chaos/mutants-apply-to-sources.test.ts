import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { transform } from 'esbuild'
import t from 'tap'
import { CHAOS_PROOF_MUTANTS } from '../../chaos/chaos-proof-mutants.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import { applySourceEdits } from '../../chaos/adversary/build-mutants.ts'

/** Planted bugs are edits of the sources by their text: a renamed identifier must not turn one into nothing. */

for (const [name, { edits, rounds }] of Object.entries(CHAOS_PROOF_MUTANTS)) {
  t.test(`${name} matches one place in the sources, and the mutated copy compiles`, async (t) => {
    const texts = applySourceEdits(edits)
    t.equal(texts.size, edits.length, 'one edit a file')
    for (const { file, from, to } of edits) {
      const [sound, text = ''] = [
        readFileSync(join(REPOSITORY_ROOT, file), 'utf8'),
        texts.get(file),
      ]
      const at = sound.indexOf(from)
      t.not(text, sound, `${file} differs`)
      t.equal(text, sound.slice(0, at) + to + sound.slice(at + from.length), 'nowhere else')
      if (file.endsWith('.ts'))
        t.not(await transpile(text), await transpile(sound), 'so does its program')
    }
    t.ok(
      Object.values(rounds).some((count) => count > 0),
      'a part of the proof runs',
    )
  })
}

const transpile = async (text: string) => (await transform(text, { loader: 'ts' })).code
