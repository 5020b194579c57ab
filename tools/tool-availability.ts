import { READABLE_CHAIN_NAMES } from '../providers/chain-data/chain-data-port.ts'
import type { ToolAvailability, ToolPorts } from './tool-ports.ts'

/** Availability of a tool with a built-in method, named by `otherwise`, that a model improves. */
export const llmOptionalToolAvailability =
  (otherwise: string) =>
  ({ llm }: Pick<ToolPorts, 'llm'>): ToolAvailability => ({
    available: true,
    mode: llm === null ? otherwise : 'llm',
    requires: llm === null ? ['LLM_PROVIDERS'] : [],
    providers: [...(llm?.providers ?? [])],
  })

/** Availability of chain reads; nodes on this machine count as fixtures. */
export function chainReadToolAvailability({ chain }: Pick<ToolPorts, 'chain'>): ToolAvailability {
  const real = READABLE_CHAIN_NAMES.some((name) => chain.about(name).network === 'mainnet')
  const providers = READABLE_CHAIN_NAMES.map((name) => `rpc:${name}`)
  return { available: true, mode: real ? 'live' : 'fixture', requires: [], providers }
}

/** The availability with a reason wherever the tool cannot be called here now (decision 433). */
export function withReason(availability: ToolAvailability): ToolAvailability {
  const { available, requires, reason } = availability
  if (available || reason !== undefined) return availability
  const needs = requires.length === 0 ? '' : `: it needs ${requires.join(', ')}`
  return { ...availability, reason: `Not available on this station now${needs}.` }
}
