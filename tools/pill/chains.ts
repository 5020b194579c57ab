import { CHAIN_NAMES, type ChainName } from '../chain/port.ts'
import { CHAINS_SOURCE, KNOWN_CHAINS, type KnownChain } from './chain-table.ts'
import { exactly, plain, unknowable, type Checker, type Finding } from './claim.ts'

const NAME = String.raw`([a-z0-9][a-z0-9 .()-]{1,40}?)`
const KIND = String.raw`(?: (?:chain|network|blockchain|mainnet))?`
const form = (text: string) =>
  new RegExp(`^${text.replaceAll('@', `(?:the )?${NAME}${KIND}`)}$`, 'i')

const IDS = [
  form(String.raw`(?:the )?(?:evm )?chain ?id (?:of|for|on) @ (?:is|equals|=) (\d+)`),
  form(
    String.raw`@(?:'s)? (?:has |uses )?(?:the |an? )?(?:evm )?chain ?id (?:is |of |= ?|: ?|number )?(\d+)`,
  ),
]
const OF_ID = form(
  String.raw`(?:(?:the )?chain ?id |eip155:|chain )(\d+) (?:is|belongs to|refers to|identifies|is used by) @`,
)
const NATIVE = [
  form(
    String.raw`(?:the )?(?:native|gas) (?:token|currency|coin|asset) (?:of|on) @ is (?:the )?([a-z0-9]+)`,
  ),
  form(String.raw`@(?:'s) (?:native|gas) (?:token|currency|coin|asset) is (?:the )?([a-z0-9]+)`),
  form(String.raw`gas (?:fees )?on @ (?:is|are) paid in (?:the )?([a-z0-9]+)`),
  form(String.raw`@ uses ([a-z0-9]+) (?:for|as|to pay(?: for)?) (?:its )?gas(?: token)?`),
]
const SYMBOLS: Readonly<Record<string, string>> = { ether: 'eth', matic: 'matic', bitcoin: 'btc' }

const called = (name: string): KnownChain[] =>
  KNOWN_CHAINS.filter(({ names }) => names.some((one) => plain(one) === plain(name)))

/** Which number a chain has, and what its fees are paid in. */
export const chains: Checker = (claim) => {
  for (const one of IDS) {
    const [, name, id] = one.exec(claim) ?? []
    if (name !== undefined) return idOf(name, Number(id))
  }
  const [, id, name] = OF_ID.exec(claim) ?? []
  if (name !== undefined) return nameOf(Number(id), name)
  for (const one of NATIVE) {
    const [, chain, symbol] = one.exec(claim) ?? []
    if (chain !== undefined) return nativeOf(chain, symbol ?? '')
  }
  return null
}

function idOf(name: string, said: number): Finding {
  const found = called(name)
  const [first] = found
  if (first === undefined) return unknowable(CHAINS_SOURCE, `${name} is not in the list of chains.`)
  const right = found.find(({ id }) => id === said) ?? first
  return exactly(
    right.id === said,
    right.id,
    CHAINS_SOURCE,
    `${right.names[0]} has chain id ${right.id}.`,
  )
}

function nameOf(id: number, name: string): Finding {
  const chain = KNOWN_CHAINS.find((one) => one.id === id)
  const named = called(name)
  if (chain === undefined && named.length === 0) {
    return unknowable(CHAINS_SOURCE, `Neither ${id} nor ${name} is in the list of chains.`)
  }
  if (chain === undefined) {
    return exactly(
      false,
      `${named[0]?.names[0]} has ${named[0]?.id}`,
      CHAINS_SOURCE,
      `${id} is not its number.`,
    )
  }
  // A name that is in no list may be another name of the same chain.
  if (named.length === 0) return unknowable(CHAINS_SOURCE, `${id} is ${chain.names[0]}.`)
  const holds = named.some((one) => one.id === id)
  return exactly(holds, chain.names[0] ?? '', CHAINS_SOURCE, `${id} is ${chain.names[0]}.`)
}

function nativeOf(name: string, said: string): Finding {
  const [chain] = called(name)
  if (chain === undefined) return unknowable(CHAINS_SOURCE, `${name} is not in the list of chains.`)
  const spelled = SYMBOLS[said.toLowerCase()] ?? said.toLowerCase()
  const holds = spelled === chain.native.toLowerCase()
  if (!holds && chain.open) {
    return unknowable(CHAINS_SOURCE, `Known is ${chain.native}; there may be others.`)
  }
  const context = `Fees on ${chain.names[0]} are paid in ${chain.native}.`
  return exactly(holds, chain.native, CHAINS_SOURCE, context)
}

/** A chain that can be read, by any of its names; null for another one. */
export function readableChain(name: string): ChainName | null {
  const asked = plain(name)
  const [found] = called(name)
  const byName = CHAIN_NAMES.find((one) => one === asked)
  if (byName !== undefined) return byName
  return CHAIN_NAMES.find((one) => called(one).some(({ id }) => id === found?.id)) ?? null
}
