import { CHAIN_NAMES } from './chain/port.ts'
import type { Availability, Ports } from './ports.ts'

/** Answers by a method of its own, named by `otherwise`, until there is a model that does it better. */
export const withModel =
  (otherwise: string) =>
  ({ llm }: Pick<Ports, 'llm'>): Availability => ({
    available: true,
    mode: llm === null ? otherwise : 'llm',
    requires: llm === null ? ['LLM_PROVIDERS'] : [],
    providers: [...(llm?.providers ?? [])],
  })

/** Reads chains by their nodes; nodes of this machine are stand-ins. */
export function onChains({ chain }: Pick<Ports, 'chain'>): Availability {
  const real = CHAIN_NAMES.some((name) => chain.about(name).network === 'mainnet')
  const providers = CHAIN_NAMES.map((name) => `rpc:${name}`)
  return { available: true, mode: real ? 'live' : 'fixture', requires: [], providers }
}
