import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { NPM_INSTALL_WARNING_PATTERN } from '../../support/deployment/allowed-npm-tarball-contents.ts'
import { NPM_ENV, packStation } from '../../support/install/packed-station.ts'
import { installRegistryPrograms } from '../../support/install/registry-programs.ts'
import { runProgram } from '../../support/install/run-program.ts'
import { GREEN, runCell } from '../../support/install/station-cell.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** The client matrix: package managers install the station and the client library, and programs load that library. */

const packed = await packStation(t)
const { skip, file: programFile } = await installRegistryPrograms(t)
const main = await startInProcessTestStation(t)

/** How others than npm add files to a project, with what they keep in the folder of this run. */
const managers: Readonly<Record<string, readonly string[]>> = {
  yarn: [
    process.execPath,
    programFile('yarn', 'bin/yarn.js'),
    'add',
    '--non-interactive',
    '--cache-folder',
    join(packed.folder, 'yarn cache'),
    `file:${packed.tarball}`,
    `file:${packed.sdk}`,
  ],
  pnpm: [
    process.execPath,
    programFile('pnpm', 'bin/pnpm.cjs'),
    'add',
    '--store-dir',
    join(packed.folder, 'pnpm store'),
    packed.tarball,
    packed.sdk,
  ],
}

/** A call paid by credits, through the library as it was loaded. */
const USE = `
const gas = new GasStation({ url: process.env.GAS_URL, apiKey: process.env.GAS_API_KEY })
gas.tools.hive_trending({}).then(({ _meta }) => console.log(_meta.cost_usdc, typeof createOpenAiTools))
`
const PROGRAMS: Readonly<Record<string, string>> = {
  'use.mjs': `import { GasStation } from '@gas-station/sdk'
import { createOpenAiTools } from '@gas-station/sdk/openai'${USE}`,
  'use.cjs': `const { GasStation } = require('@gas-station/sdk')
const { createOpenAiTools } = require('@gas-station/sdk/openai')${USE}`,
}

/** What compiles, and what has to be refused. */
const TYPED_USE = `import { GasStation, type StationRefusal } from '@gas-station/sdk'
import { createAiSdkTools } from '@gas-station/sdk/ai'
import { createLangChainTools } from '@gas-station/sdk/langchain'
import { createOpenAiTools } from '@gas-station/sdk/openai'
export async function spend(url: string): Promise<number> {
  const { gas } = await GasStation.onboard({ url }, { name: 'scout' })
  const { prices, _meta } = await gas.tools.price_feed({ query: 'BTC' })
  void [prices, createAiSdkTools, createLangChainTools, createOpenAiTools]
  // @ts-expect-error There is no such field.
  await gas.tools.price_feed({ quest: 'BTC' })
  return _meta.cost_usdc
}
export type Refusal = StationRefusal
`

/** Loads the client library in a project, in both ways. */
async function usesClientLibrary(t: Test, app: string) {
  for (const [file, text] of Object.entries(PROGRAMS)) {
    writeFileSync(join(app, file), text)
    const { key: GAS_API_KEY } = await main.onboard()
    const env = { GAS_URL: main.url, GAS_API_KEY }
    const { code, out, err } = await runProgram(process.execPath, [file], { cwd: app, env })
    t.strictSame({ code, out }, { code: 0, out: '0.005 function\n' }, `${file}: ${err}`)
  }
}

t.test('npm has installed a client library that is loaded in both ways', (t) =>
  usesClientLibrary(t, packed.app),
)

for (const [name, [program = '', ...args]] of Object.entries(managers))
  t.test(`${name} installs station and client library, under umask 077`, { skip }, async (t) => {
    const app = join(packed.folder, `${name} é`)
    mkdirSync(app)
    writeFileSync(join(app, 'package.json'), '{"name":"app","private":true}')
    const closed = ['-c', 'umask 077; exec "$@"', 'sh', program, ...args]
    const { code, out, err } = await runProgram('sh', closed, { cwd: app, env: NPM_ENV })
    t.equal(code, 0, out + err)
    t.notMatch(out + err, NPM_INSTALL_WARNING_PATTERN)
    t.notMatch(out + err, /Failed to create bin|incompatible/)
    await usesClientLibrary(t, app)
    const { urls, postgres, ...seen } = await runCell(t, packed, { app })
    t.comment(`${urls.join(' ')}, ${postgres}`)
    t.strictSame(seen, GREEN)
  })

t.test('the types of the client library fit the ways that TypeScript finds modules', async (t) => {
  const app = join(packed.folder, 'types')
  mkdirSync(app)
  writeFileSync(join(app, 'package.json'), '{"type":"module","private":true}')
  const offline = ['install', '--offline', '--no-audit', '--no-fund', packed.sdk]
  const installed = await runProgram('npm', offline, { cwd: app, env: NPM_ENV })
  t.equal(installed.code, 0, installed.err)
  for (const file of ['use.ts', 'use.cts']) writeFileSync(join(app, file), TYPED_USE)
  const types = join(REPOSITORY_ROOT, 'node_modules/@types')
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--target', 'es2022']
  for (const ways of [
    ['--module', 'node16', '--lib', 'es2022', '--types', 'node', '--typeRoots', types, 'use.ts'],
    ['--module', 'esnext', '--moduleResolution', 'bundler', '--lib', 'es2022,dom', 'use.ts'],
    ['--module', 'nodenext', '--lib', 'es2022,dom', 'use.cts'],
  ]) {
    const tsc = join(REPOSITORY_ROOT, 'node_modules/typescript/bin/tsc')
    const { code, out } = await runProgram(process.execPath, [tsc, ...strict, ...ways], {
      cwd: app,
    })
    t.equal(code, 0, `${ways.join(' ')}: ${out.slice(0, 1_000)}`)
  }
})
