import t from 'tap'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { withInteropWorkspace } from '../../support/interop/interop-workspace.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'

/** What an agent sees, whichever client it has. */
const SEEN = {
  server: { name: 'gas-station' },
  instructions: /Each call of a tool is paid/,
  paid: { structuredContent: Object, _meta: { 'gas/call': { cost_usdc: 0.005 } } },
  refused: { isError: true, content: [{ type: 'text', text: /invalid_input/ }] },
  streamed: { structuredContent: { stdout: 'hello\n' } },
  unknown: { code: -32602, thrown: /There is no tool "no_such_tool"/ },
}

await withInteropWorkspace(t, 'MCP SDK clients', ({ main, runClient }) => {
  const clients: readonly [name: string, program: string, mode: Record<string, string>][] = [
    ['SDK 1', 'mcp-sdk-v1', {}],
    ['SDK 2 as it comes', 'mcp-sdk-v2', {}],
    ['SDK 2 with the stateless protocol', 'mcp-sdk-v2', { VERSION_MODE: 'auto' }],
  ]
  for (const [name, program, mode] of clients)
    for (const transport of ['HTTP', 'gas mcp'])
      t.test(`${name} over ${transport}`, async (t) => {
        const guest = await main.onboard()
        const server = {
          command: process.execPath,
          args: [...serviceProgramArgs('cli'), 'mcp'],
          cwd: REPOSITORY_ROOT,
          env: { GAS_URL: main.url, GAS_API_KEY: guest.key },
        }
        const seen = await runClient(program, {
          API_KEY: guest.key,
          ...mode,
          ...(transport === 'HTTP' ? {} : { SERVER_COMMAND: JSON.stringify(server) }),
        })
        t.match(seen, SEEN)
        if (program === 'mcp-sdk-v2')
          t.equal(seen['version'], 'VERSION_MODE' in mode ? '2026-07-28' : '2025-11-25')
        const { body } = await main.ask('GET', '/api/tools')
        t.equal((seen['tools'] as string[]).length, body['total'])
        t.ok((seen['steps'] as unknown[]).length > 0)
      })
  t.test('the books are right', () => main.verify())
})
