/**
 * A keyless agent of the AI SDK that pays by version 1 of x402 over MCP, with `x402-mcp` as it comes. The model
 * does what that package leaves to one: it reads the terms, has them signed, and calls again.
 */
import { experimental_createMCPClient as createMcpClient } from '@ai-sdk/mcp'
import { generateText, stepCountIs } from 'ai'
import { MockLanguageModelV3 } from 'ai/test'
import { privateKeyToAccount } from 'viem/accounts'
import { withPayment } from 'x402-mcp/client'

const { STATION_URL, PAYER_KEY, MAX_PAYMENT } = process.env
const client = await withPayment(
  await createMcpClient({ transport: { type: 'http', url: STATION_URL } }),
  {
    account: privateKeyToAccount(PAYER_KEY),
    network: 'base',
    maxPaymentValue: Number(MAX_PAYMENT),
  },
)
const tools = await client.tools()
const asked = { limit: 3 }
const steps = [
  () => ['hive_trending', asked],
  (terms) => ['generatePaymentAuthorization', { paymentRequirements: v1TermsIn(terms) }],
  (signed) => ['hive_trending', { ...asked, ...signed.value }],
]
const model = new MockLanguageModelV3({
  async doGenerate({ prompt }) {
    const seen = prompt.at(-1).content[0].output
    const next = seen?.type === 'error-text' ? undefined : steps.shift()
    const [toolName, input] = next?.(seen) ?? []
    const called = {
      type: 'tool-call',
      toolCallId: toolName,
      toolName,
      input: JSON.stringify(input),
    }
    const count = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 }
    return {
      content: [next === undefined ? { type: 'text', text: 'done' } : called],
      finishReason: { unified: next === undefined ? 'stop' : 'tool-calls', raw: undefined },
      usage: { inputTokens: count, outputTokens: count },
      warnings: [],
    }
  },
})
const { steps: taken } = await generateText({
  model,
  tools,
  prompt: 'What is trending?',
  stopWhen: stepCountIs(5),
})
const parts = taken.flatMap(({ content }) => content)
const errors = parts.filter(({ type }) => type === 'tool-error')
console.log(
  JSON.stringify({
    tools: Object.keys(tools),
    outputs: parts.filter(({ type }) => type === 'tool-result').map(({ output }) => output),
    errors: errors.map(({ error }) => String(error.message ?? error)),
  }),
)
await client.close()

/** The entry of version 1 in what the model was told. */
function v1TermsIn({ value }) {
  const texts = value.map(({ text }) => JSON.parse(text))
  return texts.find(({ x402Version }) => x402Version === 1).accepts[0]
}
