import { READABLE_CHAIN_NAMES } from '../providers/chain-data/port.ts'
import type { ToolAvailability, ToolPorts } from './tool-ports.ts'

/** Answers by a method of its own, named by `otherwise`, until there is a model that does it better. */
export const llmAvailability =
  (otherwise: string) =>
  ({ llm }: Pick<ToolPorts, 'llm'>): ToolAvailability => ({
    available: true,
    mode: llm === null ? otherwise : 'llm',
    requires: llm === null ? ['LLM_PROVIDERS'] : [],
    providers: [...(llm?.providers ?? [])],
  })

/** Reads chains by their nodes; nodes of this machine are stand-ins. */
export function chainAvailability({ chain }: Pick<ToolPorts, 'chain'>): ToolAvailability {
  const real = READABLE_CHAIN_NAMES.some((name) => chain.about(name).network === 'mainnet')
  const providers = READABLE_CHAIN_NAMES.map((name) => `rpc:${name}`)
  return { available: true, mode: real ? 'live' : 'fixture', requires: [], providers }
}
