import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { ProgramResult } from '../../support/install/run-program.ts'
import { INTEROP_FOLDER, withInteropWorkspace } from '../../support/interop/interop-workspace.ts'

/** Linters and generators of clients read the served document. */

// Generated modules find their packages from here.
const FOLDER = join(INTEROP_FOLDER, 'node_modules', '.openapi-clients')
const DOCUMENT = join(FOLDER, 'document.json')
const REDOCLY_OPTIONS = ['--config', 'openapi/redocly.yaml', '--format', 'json']
const SPECTRAL_OPTIONS = ['-r', 'openapi/spectral.yaml', '-F', 'hint']
const ENV = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', NO_COLOR: '1' }

await withInteropWorkspace(t, 'linters and generators of OpenAPI', ({ main, run }) => {
  /** All begin at once: each takes one processor for seconds. */
  const runs = new Map<string, Promise<ProgramResult>>()
  const resultOf = (name: string) => runs.get(name) as Promise<ProgramResult>
  t.before(async () => {
    rmSync(FOLDER, { recursive: true, force: true })
    mkdirSync(FOLDER, { recursive: true })
    writeFileSync(DOCUMENT, (await main.ask('GET', '/openapi.json')).text)
    const programs = {
      redocly: ['@redocly/cli/bin/cli.js', 'lint', DOCUMENT, ...REDOCLY_OPTIONS],
      spectral: ['@stoplight/spectral-cli/dist/index.js', 'lint', DOCUMENT, ...SPECTRAL_OPTIONS],
      types: ['openapi-typescript/bin/cli.js', DOCUMENT, '-o', join(FOLDER, 'types.ts')],
      client: [
        ...['@hey-api/openapi-ts/bin/run.js', '-i', DOCUMENT, '--no-log-file'],
        ...['-o', join(FOLDER, 'hey')],
      ],
    }
    for (const [name, [program = '', ...args]] of Object.entries(programs))
      runs.set(name, run([`node_modules/${program}`, ...args], ENV))
  })

  t.test('Redocly finds no error and no warning', async (t) => {
    const { out, err } = await resultOf('redocly')
    const { totals, problems } = JSON.parse(out.slice(out.indexOf('{'))) as {
      totals: object
      problems: object[]
    }
    t.match(totals, { errors: 0, warnings: 0 }, `${JSON.stringify(problems).slice(0, 2_000)}${err}`)
  })

  t.test('Spectral finds no error and no warning', async (t) => {
    const { code, out, err } = await resultOf('spectral')
    t.equal(code, 0, `${out.slice(0, 2_000)}${err}`)
  })

  t.test('the types of openapi-typescript and the client of hey-api compile', async (t) => {
    for (const name of ['types', 'client']) {
      const { code, out, err } = await resultOf(name)
      t.equal(code, 0, `${name} ${out}${err}`)
      t.notMatch(out + err, /\bwarn|deprecat/i, `${name} has nothing to warn of`)
    }
    copyFileSync(
      join(INTEROP_FOLDER, 'openapi', 'usage-of-generated-types.txt'),
      join(FOLDER, 'usage.ts'),
    )
    copyFileSync(
      join(INTEROP_FOLDER, 'openapi', 'tsconfig.generated.json'),
      join(FOLDER, 'tsconfig.json'),
    )
    const { code, out } = await run(['node_modules/typescript/bin/tsc', '-p', FOLDER], ENV)
    t.equal(code, 0, out.slice(0, 2_000))
  })
})
