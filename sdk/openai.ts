import { describeForModel, listToolsForModel, type ModelToolSelection } from './model-tools.ts'
import type { GasStation } from './gas-station-client.ts'
import { GasStationError } from './station-errors.ts'

/** Tools of a station for the client of OpenAI and of compatible services. */

export interface OpenAiTool {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description: string
    readonly parameters: Record<string, unknown>
    /** For `runTools`; JSON leaves both functions out of a request. */
    readonly parse: (text: string) => object
    readonly function: (input: object) => Promise<string>
  }
}

/** A tool call of a chat completion. */
export interface OpenAiToolCall {
  readonly id: string
  readonly function: { readonly name: string; readonly arguments?: string | null }
}

export interface OpenAiToolMessage {
  readonly role: 'tool'
  readonly tool_call_id: string
  readonly content: string
}

/** Compatible services count from 0, or give all calls the same id: such an id names no call. */
const UNIQUE_CALL_ID = /^(?=.*\d)[\w-]{20,200}$/

/** Returns the tools for `chat.completions.create({ tools })` and for `runTools`. */
export async function createOpenAiTools(
  gas: GasStation,
  selection: ModelToolSelection = {},
): Promise<OpenAiTool[]> {
  const listed = await listToolsForModel(gas, selection)
  return listed.map((entry) => ({
    type: 'function',
    function: {
      name: entry.slug,
      description: describeForModel(entry),
      parameters: { ...entry.input_schema },
      parse: parseArguments,
      function: (input) => answerOf(gas, entry.slug, input),
    },
  }))
}

/** Runs the tool calls of a message; returns the messages that answer them, in their order. */
export function runOpenAiToolCalls(
  gas: GasStation,
  calls: readonly OpenAiToolCall[],
): Promise<OpenAiToolMessage[]> {
  return Promise.all(
    calls.map(async ({ id, function: { name, arguments: text } }) => ({
      role: 'tool' as const,
      tool_call_id: id,
      content: await answerOf(gas, name, text ?? '', id),
    })),
  )
}

/** Models write no arguments as an empty text, as null or as `{}`. */
const parseArguments = (text: string): object =>
  text.trim() === '' ? {} : ((JSON.parse(text) as object | null) ?? {})

/** A refusal is an answer, so that the model can act on it. */
async function answerOf(
  gas: GasStation,
  name: string,
  input: object | string,
  callId?: string,
): Promise<string> {
  try {
    const fields = typeof input === 'string' ? parseArguments(input) : input
    // The same tool call is charged once, however often it is run.
    const isUnique = callId !== undefined && UNIQUE_CALL_ID.test(callId)
    const options = isUnique ? { idempotencyKey: `openai:${callId}` } : {}
    return JSON.stringify(await gas.callAny(name, fields, options))
  } catch (error) {
    if (error instanceof GasStationError)
      return JSON.stringify({ error: error.code, detail: error.message })
    if (error instanceof SyntaxError)
      return JSON.stringify({ error: 'invalid_input', detail: 'The arguments are not JSON.' })
    throw error
  }
}
