import t from 'tap'
import { INTEROP_FOLDER, withInteropWorkspace } from '../../support/interop/interop-workspace.ts'

await withInteropWorkspace(t, 'mcp-remote', ({ main, runClient }) => {
  t.test('mcp-remote bridges a desktop client, without asking for a login', async (t) => {
    const guest = await main.onboard()
    const server = {
      command: process.execPath,
      args: [
        'node_modules/mcp-remote/dist/proxy.js',
        `${main.url}/mcp`,
        '--allow-http',
        '--transport',
        'http-only',
        '--header',
        `X-API-Key:${guest.key}`,
      ],
      cwd: INTEROP_FOLDER,
      env: { MCP_REMOTE_CONFIG_DIR: t.testdir() },
    }
    t.match(await runClient('mcp-sdk-v1', { SERVER_COMMAND: JSON.stringify(server) }), {
      server: { name: 'gas-station' },
      paid: { _meta: { 'gas/call': { cost_usdc: 0.005 } } },
      refused: { isError: true },
      streamed: { structuredContent: { stdout: 'hello\n' } },
    })
  })
})
