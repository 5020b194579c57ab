import { statSync } from 'node:fs'
import { REPOSITORY_ROOT } from '../repository-root.ts'
import { packTarball } from './pack-tarball.ts'

/** `npm run package`: writes the tarball that `npx` and `npm install` take. */

const file = await packTarball(REPOSITORY_ROOT)
console.log(`${file}: ${(statSync(file).size / 1e6).toFixed(1)} MB`)
