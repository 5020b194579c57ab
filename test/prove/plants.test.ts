import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { transform } from 'esbuild'
import t from 'tap'
import { plants } from '../../scripts/prove/plants.ts'
import { ROOT } from '../../scripts/root.ts'
import { mutated } from '../adversary/planting.ts'

for (const [name, { edits, times }] of Object.entries(plants)) {
  t.test(`${name} has one place in the sources, and its copy is a program`, async (t) => {
    const texts = mutated(edits)
    t.equal(texts.size, edits.length, 'one edit a file')
    for (const { file, from, to } of edits) {
      const [sound, text = ''] = [readFileSync(join(ROOT, file), 'utf8'), texts.get(file)]
      const at = sound.indexOf(from)
      t.not(text, sound, `${file} differs`)
      t.equal(text, sound.slice(0, at) + to + sound.slice(at + from.length), 'nowhere else')
      if (file.endsWith('.ts')) t.not(await built(text), await built(sound), 'so does its program')
    }
    t.ok(
      Object.values(times).some((count) => count > 0),
      'a part of the proof runs',
    )
  })
}

const built = async (text: string) => (await transform(text, { loader: 'ts' })).code
