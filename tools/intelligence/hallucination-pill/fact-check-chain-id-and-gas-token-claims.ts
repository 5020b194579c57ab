import {
  READABLE_CHAIN_NAMES,
  type ReadableChainName,
} from '../../../providers/chain-data/chain-data-port.ts'
import { KNOWN_CHAINS_SOURCE, KNOWN_CHAINS, type KnownChain } from './chain-ids-and-fee-tokens.ts'
import {
  exactFinding,
  normalizeName,
  unverifiableFinding,
  type FactClaimCheckFunction,
  type FactCheckFinding,
} from './fact-claim-normalizer-and-finding-types.ts'

/** Checks claims about chain ids and fee tokens. */

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

const findChainsByName = (name: string): KnownChain[] =>
  KNOWN_CHAINS.filter(({ names }) =>
    names.some((one) => normalizeName(one) === normalizeName(name)),
  )

/** Checks the id of a chain and the token of its fees. */
export const factCheckChainIds: FactClaimCheckFunction = (claim) => {
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

function idOf(name: string, claimed: number): FactCheckFinding {
  const found = findChainsByName(name)
  const [first] = found
  if (first === undefined)
    return unverifiableFinding(KNOWN_CHAINS_SOURCE, `${name} is not in the list of chains.`)
  const right = found.find(({ id }) => id === claimed) ?? first
  return exactFinding(
    right.id === claimed,
    right.id,
    KNOWN_CHAINS_SOURCE,
    `${right.names[0]} has chain id ${right.id}.`,
  )
}

function nameOf(id: number, name: string): FactCheckFinding {
  const chain = KNOWN_CHAINS.find((one) => one.id === id)
  const named = findChainsByName(name)
  if (chain === undefined && named.length === 0) {
    return unverifiableFinding(
      KNOWN_CHAINS_SOURCE,
      `Neither ${id} nor ${name} is in the list of chains.`,
    )
  }
  if (chain === undefined) {
    return exactFinding(
      false,
      `${named[0]?.names[0]} has ${named[0]?.id}`,
      KNOWN_CHAINS_SOURCE,
      `${id} is not its number.`,
    )
  }
  // An unlisted name may be a synonym of the same chain.
  if (named.length === 0)
    return unverifiableFinding(KNOWN_CHAINS_SOURCE, `${id} is ${chain.names[0]}.`)
  const holds = named.some((one) => one.id === id)
  return exactFinding(
    holds,
    chain.names[0] ?? '',
    KNOWN_CHAINS_SOURCE,
    `${id} is ${chain.names[0]}.`,
  )
}

function nativeOf(name: string, claimed: string): FactCheckFinding {
  const [chain] = findChainsByName(name)
  if (chain === undefined)
    return unverifiableFinding(KNOWN_CHAINS_SOURCE, `${name} is not in the list of chains.`)
  const spelled = SYMBOLS[claimed.toLowerCase()] ?? claimed.toLowerCase()
  const holds = spelled === chain.native.toLowerCase()
  if (!holds && chain.open) {
    return unverifiableFinding(
      KNOWN_CHAINS_SOURCE,
      `Known is ${chain.native}; there may be others.`,
    )
  }
  const context = `Fees on ${chain.names[0]} are paid in ${chain.native}.`
  return exactFinding(holds, chain.native, KNOWN_CHAINS_SOURCE, context)
}

/** Returns a readable chain by any of its names, or null. */
export function findReadableChainByName(name: string): ReadableChainName | null {
  const normalized = normalizeName(name)
  const [found] = findChainsByName(name)
  const byName = READABLE_CHAIN_NAMES.find((one) => one === normalized)
  if (byName !== undefined) return byName
  return (
    READABLE_CHAIN_NAMES.find((one) => findChainsByName(one).some(({ id }) => id === found?.id)) ??
    null
  )
}
