import t from 'tap'
import { withInteropWorkspace } from '../../support/interop/interop-workspace.ts'

await withInteropWorkspace(t, 'the MCP inspector', ({ main, run }) => {
  t.test('the inspector lists and calls tools from a shell', async (t) => {
    const inspect = async (target: readonly string[], method: string, ...args: string[]) => {
      const program = 'node_modules/@modelcontextprotocol/inspector-cli/build/index.js'
      const { code, out, err } = await run([program, ...target, '--method', method, ...args])
      t.equal(code, 0, err)
      return JSON.parse(out) as Record<string, unknown>
    }
    const news = [`${main.url}/hivecast/mcp`]
    t.equal(((await inspect(news, 'tools/list'))['tools'] as unknown[]).length, 3)
    const name = ['--tool-name', 'gas_get_latest_gas_station']
    t.match(await inspect(news, 'tools/call', ...name), { _meta: { 'gas/call': { cost_usdc: 0 } } })
    const paid = ['--tool-name', 'hive_trending', '--tool-arg', 'limit=3']
    t.match(await inspect([`${main.url}/mcp`], 'tools/call', ...paid), {
      isError: true,
      content: [{ text: /"x402Version":2/ }, { text: /"code":"payment_required"/ }],
    })
  })
})
