import { describeForModel, listToolsForModel, type ModelToolSelection } from './model-tools.ts'
import type { GasStation } from './gas-station-client.ts'

/** Tools of a station for LangChain. */

/** `tool` of `@langchain/core/tools`. */
export interface LangChainFunctions<Made> {
  tool(
    run: (input: unknown) => Promise<string>,
    fields: { name: string; description: string; schema: Record<string, unknown> },
  ): Made
}

/** Returns the tools for `model.bindTools(tools)` and agents. A refused call throws in its tool. */
export async function createLangChainTools<Made>(
  gas: GasStation,
  { tool }: LangChainFunctions<Made>,
  selection: ModelToolSelection = {},
): Promise<Made[]> {
  const listed = await listToolsForModel(gas, selection)
  return listed.map((entry) =>
    tool(async (input) => JSON.stringify(await gas.callAny(entry.slug, input as object)), {
      name: entry.slug,
      description: describeForModel(entry),
      schema: { ...entry.input_schema },
    }),
  )
}
