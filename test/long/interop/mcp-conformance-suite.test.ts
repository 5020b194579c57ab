import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { INTEROP_FOLDER, withInteropWorkspace } from '../../support/interop/interop-workspace.ts'

const DIST = join(INTEROP_FOLDER, 'node_modules/@modelcontextprotocol/conformance/dist')
const PROGRAM = join(DIST, 'node20.js')

/** The suite imports a function that Node 20 lacks, for a command that no test uses. */
function writeProgramForNode20(): void {
  const source = readFileSync(join(DIST, 'index.js'), 'utf8')
  writeFileSync(PROGRAM, source.replace('globSync as a,', ''))
}

interface Check {
  readonly id: string
  readonly status: string
  readonly errorMessage?: string
}

/** What did not pass, as `scenario:check`. */
const failuresIn = (results: string): string[] =>
  readdirSync(results).flatMap((folder) => {
    const scenario = folder.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[\w-]+$/, '')
    const checks = JSON.parse(readFileSync(join(results, folder, 'checks.json'), 'utf8')) as Check[]
    return checks
      .filter(({ status }) => status === 'FAILURE' || status === 'WARNING')
      .map(({ id, errorMessage = '' }) => `${scenario}:${id} ${errorMessage}`)
  })

await withInteropWorkspace(t, 'the MCP conformance suite', ({ main, run }) => {
  writeProgramForNode20()
  for (const revision of ['2026-07-28', '2025-11-25'])
    t.test(`the requirements of ${revision}, but for what a server of tools lacks`, async (t) => {
      const results = t.testdir()
      const { code, out, err } = await run([
        PROGRAM,
        'server',
        '--url',
        `${main.url.replace('127.0.0.1', 'localhost')}/mcp`,
        '--requirements',
        revision,
        '--expected-failures',
        `conformance/expected-failures-${revision}.yml`,
        '--output-dir',
        results,
      ])
      if (code !== 0) for (const failure of failuresIn(results)) t.comment(failure)
      t.equal(code, 0, `${out.slice(out.indexOf('=== SUMMARY ==='))}${err}`)
    })
})
