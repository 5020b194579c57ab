import { describeForModel, listToolsForModel, type ModelToolSelection } from './model-tools.ts'
import type { GasStation } from './gas-station-client.ts'

/** Tools of a station for the Vercel AI SDK. */

/** `tool` and `jsonSchema` of the package `ai`. */
export interface VercelAiFunctions<Schema, Made> {
  jsonSchema(schema: object): Schema
  tool(definition: {
    description: string
    inputSchema: Schema
    execute: (input: unknown, options?: { abortSignal?: AbortSignal }) => Promise<unknown>
  }): Made
}

/** Returns the tools by name, for `generateText({ tools })`. A refused call is a tool error there. */
export async function createAiSdkTools<Schema, Made>(
  gas: GasStation,
  { jsonSchema, tool }: VercelAiFunctions<Schema, Made>,
  selection: ModelToolSelection = {},
): Promise<Record<string, Made>> {
  const listed = await listToolsForModel(gas, selection)
  return Object.fromEntries(
    listed.map((entry) => [
      entry.slug,
      tool({
        description: describeForModel(entry),
        inputSchema: jsonSchema(entry.input_schema ?? {}),
        execute: (input, { abortSignal } = {}) =>
          gas.callAny(
            entry.slug,
            input as object,
            abortSignal === undefined ? {} : { signal: abortSignal },
          ),
      }),
    ]),
  )
}
