import { readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { REPOSITORY_ROOT } from '../repository-root.ts'
import { externalImportsPlugin, esbuildOptions, listTypeScriptSources } from './esbuild-options.ts'
import { groupTestFiles, type TestGroup } from './group-test-files-by-process.ts'

/** Builds what `npm test` runs, in `.cache/test`. */

const TEST_OUTPUT_DIR = join(REPOSITORY_ROOT, '.cache/test')
const GROUPED_TAP = join(REPOSITORY_ROOT, 'scripts/build/tap-for-many-files-in-one-process.ts')

/** Programs that tests start. Loading them from one file takes a tenth of the time. */
const PROGRAMS = [
  'app/main',
  'app/cli/main',
  'chain/evm/signer-recovery-worker',
  'providers/pages/worker',
  'tools/community/untrusted-worker',
  'providers/browser/host/browser-host-child-process-entry',
  'test/support/postgres/killable-test-database-process',
  'test/support/postgres/test-postgres-cluster',
]

/**
 * Packages that are built into these files: they consist of hundreds of modules, and finding and reading
 * them takes two thirds of the start of a station. Whatever reads files beside itself stays outside.
 */
const BUNDLED_PACKAGES: ReadonlySet<string> = new Set([
  '@fastify/ajv-compiler',
  '@fastify/fast-json-stringify-compiler',
  '@fastify/swagger',
  '@fastify/type-provider-typebox',
  '@fastify/websocket',
  '@x402/core',
  '@x402/evm',
  '@x402/fetch',
  'ajv',
  'bullmq',
  'fast-check',
  'fastify',
  'ioredis',
  'ipaddr.js',
  'minisearch',
  'mppx',
  'nodemailer',
  'pg',
  'postgres',
  'postgres-array',
  'prom-client',
  'qrcode',
  'rate-limiter-flexible',
  're2js',
  'standardwebhooks',
  'typebox',
  'undici',
  'viem',
  'ws',
  'xstate',
])

/** What a bundled CommonJS package requires of Node, and what it calls its own folder. */
const COMMONJS_BANNER = `import { createRequire as createBundleRequire } from 'node:module'
const require = createBundleRequire(import.meta.url)`

const PACKAGE_NAME = /^(?:@[^/]+\/)?[^/]+/

/** Imports of other packages by the sources stay imports; a bundled package brings its own ones. */
const externalPackagesPlugin: Plugin = {
  name: 'external packages',
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path, importer, kind }) => {
      if (kind === 'entry-point' || importer.includes('/node_modules/')) return null
      const name = PACKAGE_NAME.exec(path)?.[0] ?? path
      return BUNDLED_PACKAGES.has(name) ? null : { path, external: true }
    })
  },
}

/** A bundled file resolves paths beside itself as if it still stood by itself. */
const importMetaUrlPlugin: Plugin = {
  name: 'import.meta.url',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8')
      if (!text.includes('import.meta.url')) return null
      const built = join(TEST_OUTPUT_DIR, relative(REPOSITORY_ROOT, path)).replace(/\.ts$/, '.js')
      const url = JSON.stringify(pathToFileURL(built).href)
      return { contents: text.replaceAll('import.meta.url', url), loader: 'ts' }
    })
  },
}

/** Makes the entry file of each group, and puts `tap-for-many-files-in-one-process.ts` in the place of `tap`. */
const groupEntriesPlugin = (groups: readonly TestGroup[]): Plugin => ({
  name: 'group entries',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^group:/ }, ({ path }) => ({
      path: path.slice('group:'.length),
      namespace: 'group',
    }))
    onResolve({ filter: /^tap$/ }, ({ importer }) =>
      importer === GROUPED_TAP ? { path: 'tap', external: true } : { path: GROUPED_TAP },
    )
    onLoad({ filter: /.*/, namespace: 'group' }, ({ path }) => {
      const files = groups.find(({ name }) => name === path)?.files ?? []
      const entries = files.map((file) => {
        const source = JSON.stringify(join(REPOSITORY_ROOT, file))
        return `[${JSON.stringify(file)}, () => import(${source})]`
      })
      const contents = `import { runTestFiles } from ${JSON.stringify(GROUPED_TAP)}
        runTestFiles([${entries.join(', ')}])`
      return { contents, loader: 'ts', resolveDir: REPOSITORY_ROOT }
    })
  },
})

/** The groups of all test files of the repository. */
export const listTestGroups = (): TestGroup[] =>
  groupTestFiles(listTypeScriptSources('.').filter((path) => path.endsWith('.test.ts')))

/**
 * Builds every source by itself, for what programs load by its path, and in one file each the programs
 * that tests start and these groups of tests, `groups/<name>.js`: loading a thousand sources takes longer
 * than most tests do.
 */
export async function buildTests(groups: readonly TestGroup[]): Promise<void> {
  const options = esbuildOptions(TEST_OUTPUT_DIR)
  rmSync(TEST_OUTPUT_DIR, { recursive: true, force: true })
  await build({
    ...options,
    entryPoints: listTypeScriptSources('.'),
    plugins: [externalImportsPlugin],
  })
  await build({
    ...options,
    packages: 'bundle',
    banner: { js: COMMONJS_BANNER },
    splitting: true,
    chunkNames: 'chunks/[hash]',
    entryPoints: [
      ...PROGRAMS.map((program) => ({ in: `${program}.ts`, out: program })),
      ...groups.map(({ name, entry }) => ({ in: `group:${name}`, out: `groups/${entry}` })),
    ],
    plugins: [groupEntriesPlugin(groups), externalPackagesPlugin, importMetaUrlPlugin],
  })
}
