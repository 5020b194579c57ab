/** An agent with the MCP SDK of version 1: lists the tools, then calls some. Prints what it saw as JSON. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const { STATION_URL, API_KEY, SERVER_COMMAND } = process.env
const transport =
  SERVER_COMMAND === undefined
    ? new StreamableHTTPClientTransport(new URL(STATION_URL), {
        requestInit: API_KEY === undefined ? {} : { headers: { 'X-API-Key': API_KEY } },
      })
    : new StdioClientTransport(JSON.parse(SERVER_COMMAND))
const client = new Client({ name: 'sdk-v1', version: '1.0.0' })
await client.connect(transport)
const { tools } = await client.listTools()
const steps = []
const call = (name, args, options) =>
  client
    .callTool({ name, arguments: args }, undefined, options)
    .catch((error) => ({ thrown: error.message, code: error.code }))
const paid = await call('hive_trending', { limit: 3 })
const refused = await call('hive_trending', { limit: 'many' })
// Long enough that its steps are read before its result: the SDK drops steps that it reads together.
const program = { language: 'bash', code: 'sleep 1; echo hello' }
const streamed = await call('code_sandbox', program, { onprogress: (step) => steps.push(step) })
const unknown = await call('no_such_tool', {})
await client.ping()
console.log(
  JSON.stringify({
    server: client.getServerVersion(),
    instructions: client.getInstructions(),
    tools: tools.map(({ name }) => name),
    paid,
    refused,
    streamed,
    steps,
    unknown,
  }),
)
await client.close()
