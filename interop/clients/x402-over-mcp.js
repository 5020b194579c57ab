/**
 * A keyless agent that pays by x402 over MCP, with the public signer of either version. `MCP_SDK` is the
 * version of its MCP client, `X402_VERSION` that of its payment.
 */
import { x402Client } from '@x402/core/client'
import { registerExactEvmScheme } from '@x402/evm/exact/client'
import { privateKeyToAccount } from 'viem/accounts'

const { STATION_URL, PAYER_KEY, MCP_SDK, X402_VERSION } = process.env
const client = await connect(MCP_SDK)
const payer = new x402Client()
registerExactEvmScheme(payer, { signer: privateKeyToAccount(PAYER_KEY) })

// A model's client lists the tools first, and checks results against their schemas from then on.
await client.listTools()
const asked = { name: 'hive_trending', arguments: { limit: 3 } }
const unpaid = await client.callTool(asked)
const required = termsOf(unpaid)
const payment = await payer.createPaymentPayload(required)
const paid = await client.callTool({ ...asked, _meta: { 'x402/payment': payment } })
const repeated = await client.callTool({ ...asked, _meta: { 'x402/payment': payment } })
console.log(JSON.stringify({ required, payment, paid, repeated }))
await client.close()

/** Where the transport specification says: structured content first, else the text. */
function termsOf({ isError, structuredContent, content }) {
  if (!isError) throw new Error('the call was not refused')
  const texts = content.map(({ text }) => JSON.parse(text))
  return [structuredContent, ...texts].find(
    (terms) => terms?.x402Version === Number(X402_VERSION) && Array.isArray(terms.accepts),
  )
}

async function connect(sdk) {
  const url = new URL(STATION_URL)
  if (sdk === '1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
    const { StreamableHTTPClientTransport } =
      await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
    const one = new Client({ name: 'payer', version: '1.0.0' })
    await one.connect(new StreamableHTTPClientTransport(url))
    return one
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  const two = new Client(
    { name: 'payer', version: '2.0.0' },
    { versionNegotiation: { mode: 'auto' } },
  )
  await two.connect(new StreamableHTTPClientTransport(url))
  return two
}
