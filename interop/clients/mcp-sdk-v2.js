/** The same agent with the MCP SDK of version 2. Its `VERSION_MODE` `auto` prefers the stateless protocol. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'

const { STATION_URL, API_KEY, SERVER_COMMAND, VERSION_MODE } = process.env
const transport =
  SERVER_COMMAND === undefined
    ? new StreamableHTTPClientTransport(new URL(STATION_URL), {
        requestInit: API_KEY === undefined ? {} : { headers: { 'X-API-Key': API_KEY } },
      })
    : new StdioClientTransport(JSON.parse(SERVER_COMMAND))
const client = new Client(
  { name: 'sdk-v2', version: '2.0.0' },
  VERSION_MODE === undefined ? {} : { versionNegotiation: { mode: VERSION_MODE } },
)
await client.connect(transport)
const { tools } = await client.listTools()
const steps = []
const call = (name, args, options) =>
  client
    .callTool({ name, arguments: args }, options)
    .catch((error) => ({ thrown: error.message, code: error.code }))
const paid = await call('hive_trending', { limit: 3 })
const refused = await call('hive_trending', { limit: 'many' })
// Long enough that its steps are read before its result: the SDK drops steps that it reads together.
const program = { language: 'bash', code: 'sleep 1; echo hello' }
const streamed = await call('code_sandbox', program, { onprogress: (step) => steps.push(step) })
const unknown = await call('no_such_tool', {})
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion?.(),
    server: client.getServerVersion?.(),
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
