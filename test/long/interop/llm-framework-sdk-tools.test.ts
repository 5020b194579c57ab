import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { createAiSdkTools } from '../../../sdk/ai.ts'
import { GasStation } from '../../../sdk/index.ts'
import { createLangChainTools } from '../../../sdk/langchain.ts'
import { createOpenAiTools, runOpenAiToolCalls } from '../../../sdk/openai.ts'
import { INTEROP_FOLDER, withInteropWorkspace } from '../../support/interop/interop-workspace.ts'

const workspace = createRequire(join(INTEROP_FOLDER, 'package.json'))
/** Loads a package of `interop/`, which the types of this project do not know. */
const load = async <T>(name: string) =>
  (await import(pathToFileURL(workspace.resolve(name)).href)) as T

type Tool = { execute(input: object, options: object): Promise<unknown> }
interface AiSdk {
  jsonSchema(schema: object): object
  tool(definition: object): Tool
  generateText(options: object): Promise<{
    text: string
    steps: { content: { type: string; toolName?: string; output?: unknown; error?: unknown }[] }[]
  }>
  stepCountIs(count: number): unknown
}
interface LangChainTool {
  readonly name: string
  invoke(call: object): Promise<unknown>
}

await withInteropWorkspace(t, 'frameworks of models', ({ main }) => {
  const only = ['hive_trending', 'hive_read']
  const onboard = async () => {
    const { key } = await main.onboard()
    return new GasStation({ url: main.url, apiKey: key, retryDelayMs: 1 })
  }
  const balanceOf = async (gas: GasStation) => (await gas.balance()).balance_usdc

  t.test('the AI SDK of Vercel calls tools, and a refusal is a tool error', async (t) => {
    const { jsonSchema, tool, generateText, stepCountIs } = await load<AiSdk>('ai')
    const { MockLanguageModelV3 } = await load<{
      MockLanguageModelV3: new (options: object) => object
    }>('ai/test')
    const gas = await onboard()
    const tools = await createAiSdkTools(gas, { jsonSchema, tool }, { only })
    t.strictSame(Object.keys(tools).toSorted(), only.toSorted())
    // The model of the package's own tests: it says what to call, and the package does the rest.
    const asked = [{ limit: 2 }, { limit: 0 }].map((input, at) => ({
      type: 'tool-call',
      toolCallId: `call-${at}`,
      toolName: 'hive_trending',
      input: JSON.stringify(input),
    }))
    const count = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 }
    const usage = { inputTokens: count, outputTokens: count }
    const finished = (reason: string) => ({ unified: reason, raw: reason })
    const answers = [
      { content: asked, finishReason: finished('tool-calls'), usage, warnings: [] },
      {
        content: [{ type: 'text', text: 'done' }],
        finishReason: finished('stop'),
        usage,
        warnings: [],
      },
    ]
    const model = new MockLanguageModelV3({ doGenerate: async () => answers.shift() })
    const { text, steps } = await generateText({
      model,
      tools,
      prompt: 'What is trending?',
      stopWhen: stepCountIs(3),
    })
    t.equal(text, 'done')
    const parts = steps.flatMap(({ content }) => content)
    const result = parts.find(({ type }) => type === 'tool-result')
    t.match(result, { toolName: 'hive_trending', output: { _meta: { cost_usdc: 0.005 } } })
    const failed = parts.find(({ type }) => type === 'tool-error')
    t.match(failed, { error: { name: 'InvalidRequest', code: 'invalid_input' } })
    t.equal(await balanceOf(gas), 0.495)
  })

  t.test('LangChain makes tools that it can call', async (t) => {
    const { tool } = await load<{ tool(run: unknown, fields: object): LangChainTool }>(
      '@langchain/core/tools',
    )
    const gas = await onboard()
    const tools = await createLangChainTools(gas, { tool }, { only })
    t.strictSame(tools.map(({ name }) => name).toSorted(), only.toSorted())
    const trending = tools.find(({ name }) => name === 'hive_trending') as LangChainTool
    const call = { type: 'tool_call', id: '1', name: 'hive_trending', args: { limit: 2 } }
    t.match(await trending.invoke(call), { tool_call_id: '1', content: /"cost_usdc":0\.005/ })
    await t.rejects(trending.invoke({ ...call, args: { limit: 'many' } }))
    t.equal(await balanceOf(gas), 0.495)
  })

  t.test('the client of OpenAI runs tools, and the same tool call is charged once', async (t) => {
    const { OpenAI } = await load<{ OpenAI: new (options: object) => OpenAiClient }>('openai')
    const gas = await onboard()
    const call = { name: 'hive_trending', arguments: '{"limit":2}' }
    const calls = [
      {
        id: `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`,
        type: 'function',
        function: call,
      },
    ]
    const bodies: { tools: object[]; messages: { content: string }[] }[] = []
    const models = createServer((request, reply) => {
      let text = ''
      request.on('data', (part: Buffer) => (text += part.toString('utf8')))
      request.on('end', () => {
        bodies.push(JSON.parse(text) as (typeof bodies)[0])
        const message =
          bodies.length === 1 ? { content: null, tool_calls: calls } : { content: 'done' }
        const choice = {
          index: 0,
          finish_reason: 'stop',
          message: { role: 'assistant', ...message },
        }
        reply.setHeader('content-type', 'application/json')
        reply.end(
          JSON.stringify({ id: 'x', object: 'chat.completion', model: 'm', choices: [choice] }),
        )
      })
    })
    await new Promise<void>((ready) => models.listen(0, '127.0.0.1', ready))
    t.teardown(() => models.close())
    const baseURL = `http://127.0.0.1:${(models.address() as AddressInfo).port}/v1`
    const client = new OpenAI({ baseURL, apiKey: 'none' })
    const tools = await createOpenAiTools(gas, { only })
    const messages = [{ role: 'user', content: 'What is trending?' }]
    const runner = client.chat.completions.runTools({ model: 'm', messages, tools })
    t.equal(await runner.finalContent(), 'done')
    t.match(bodies[0]?.tools, [{ type: 'function', function: { description: /Costs/ } }])
    t.match(bodies[1]?.messages.at(-1), { role: 'tool', content: /"cost_usdc":0\.005/ })
    const once = await runOpenAiToolCalls(gas, calls)
    t.strictSame(await runOpenAiToolCalls(gas, calls), once, 'the same answer')
    t.equal(await balanceOf(gas), 0.49)
    const wrong = { id: '2', function: { name: 'hive_trending', arguments: '{"limit":' } }
    t.match(await runOpenAiToolCalls(gas, [wrong]), [{ content: /invalid_input/ }])
    await t.rejects(createOpenAiTools(gas, { only: ['email_send'] }), { message: /not available/ })
  })
})

interface OpenAiClient {
  readonly chat: {
    readonly completions: { runTools(options: object): { finalContent(): Promise<string> } }
  }
}
