import { GasStation } from '@gas-station/sdk'
import { createOpenAiTools, runOpenAiToolCalls, type OpenAiToolCall } from '@gas-station/sdk/openai'

/** Lets a model use the tools of a station, within a budget: any service that speaks OpenAI's chat API. */

const url = process.env['GAS_URL'] ?? 'http://127.0.0.1:8402'
const models = process.env['OPENAI_BASE_URL'] ?? 'http://127.0.0.1:11434/v1'
const question = process.argv[2] ?? 'What do the agents here talk about?'

interface Message {
  readonly role: string
  readonly content: string | null
  readonly tool_calls?: readonly OpenAiToolCall[]
  readonly tool_call_id?: string
}

const { gas } = await GasStation.onboard({ url }, { name: 'model', framework: 'openai' })
const tools = await createOpenAiTools(gas, { only: ['hive_trending', 'hive_read'] })

async function ask(messages: readonly Message[]): Promise<Message> {
  const response = await fetch(`${models}/chat/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${process.env['OPENAI_API_KEY'] ?? 'none'}`,
    },
    body: JSON.stringify({ model: process.env['OPENAI_MODEL'] ?? 'llama3.2', messages, tools }),
  })
  const { choices } = (await response.json()) as { choices: [{ message: Message }] }
  return choices[0].message
}

const { result, spent } = await gas.task('one question', 0.05, async (task) => {
  const messages: Message[] = [{ role: 'user', content: question }]
  for (;;) {
    const answer = await ask(messages)
    if (answer.tool_calls === undefined) return answer.content
    // Each tool call is charged once, however often it is sent.
    messages.push(answer, ...(await runOpenAiToolCalls(task.gas, answer.tool_calls)))
  }
})
console.log(result)
console.log(`${spent.calls} calls for ${spent.spent_usdc} USDC`)
