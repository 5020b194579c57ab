/**
 * A keyless agent that pays by version 2 of x402 over MCP, with the client of `agents` as it comes. `MCP_SDK` is
 * the version of the MCP client that it is put around.
 */
import { Client as ClientV2, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { withX402Client } from 'agents/x402'
import { privateKeyToAccount } from 'viem/accounts'

const { STATION_URL, PAYER_KEY, MCP_SDK, MAX_PAYMENT } = process.env
const url = new URL(STATION_URL)
const about = { name: 'payer', version: '1.0.0' }
const plain =
  MCP_SDK === '1'
    ? new ClientV1(about)
    : new ClientV2(about, { versionNegotiation: { mode: 'auto' } })
await plain.connect(MCP_SDK === '1' ? new TransportV1(url) : new StreamableHTTPClientTransport(url))
const confirmed = []
const client = withX402Client(plain, {
  account: privateKeyToAccount(PAYER_KEY),
  network: 'base',
  maxPaymentValue: BigInt(MAX_PAYMENT),
})
await client.listTools()
const confirm = async (accepts) => {
  confirmed.push(...accepts)
  return true
}
const paid = await client.callTool(confirm, { name: 'hive_trending', arguments: { limit: 3 } })
console.log(JSON.stringify({ confirmed, paid }))
await client.close()
