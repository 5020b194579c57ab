import type { ReadableChainName, EvmHex } from '../../../providers/chain-data/chain-data-port.ts'
import { atomicUnitsToNumber } from '../../../providers/chain-data/chain-tool-schemas.ts'
import { WIDELY_HELD_TOKENS } from '../../../providers/chain-data/bundled-token-contract-list.ts'
import { findReadableChainByName } from './fact-check-chain-id-and-gas-token-claims.ts'
import {
  exactFinding,
  approximateFinding,
  unverifiableFinding,
  type FactClaimCheckFunction,
  type FactCheckFinding,
  type FactCheckContext,
} from './fact-claim-normalizer-and-finding-types.ts'
import {
  matchesQuantity,
  parseClaimedQuantity,
  toDisplayNumber,
  evaluateExpression,
  type ClaimedQuantity,
} from './claimed-quantity.ts'
import { unavailableSourceFinding } from './fact-check-token-contracts.ts'

/** Checks claims about the current state of chains. */

const ADDRESS = '0x[0-9a-fA-F]{40}'
const HASH = '0x[0-9a-fA-F]{64}'
const ENS = String.raw`[a-z0-9-]+(?:\.[a-z0-9-]+)*\.eth`
const ON = String.raw`(?: on (?:the )?([a-z][a-z0-9 -]{1,30}?)(?: chain| network| mainnet)?)?`
const form = (text: string) => new RegExp(`^${text.replaceAll('%', ON)}$`, 'i')

const LATEST = form(
  String.raw`(?:the )?(?:latest|current|most recent|head) block(?: number| height)?% (?:is|=) (.+)`,
)
const BLOCK = form(
  String.raw`(?:the )?block (?:number )?#?(\d[\d,]*)% (?:has (?:the )?hash (${HASH})|(?:has|contains|had) (\d+) transactions?|(exists|has been mined|was mined))`,
)
const TX = form(
  String.raw`(?:the )?(?:transaction |tx )?(${HASH})% (?:(succeeded|was successful|is successful|failed|reverted|was reverted)|(?:was sent|is|came) (from|by|to) (${ADDRESS})|(?:is|was) (?:included |mined )?in block #?(\d[\d,]*)|transferred (.+))`,
)
const BALANCE = [
  form(
    String.raw`(${ADDRESS}|${ENS}) (?:holds|has|owns|has a balance of)(?: a balance of)? (.+?)%`,
  ),
  form(String.raw`(?:the )?balance of (${ADDRESS}|${ENS}) is (.+?)%`),
]
const NAME = new RegExp(`^(${ENS}) (?:resolves to|points to|is|belongs to) (${ADDRESS})$`, 'i')
const OWN = new RegExp(`^(${ADDRESS}) (?:is|owns|resolves to) (${ENS})$`, 'i')
const ETHER_DECIMALS = 18

/** Checks blocks, transactions, balances and names. */
export const factCheckOnchainState: FactClaimCheckFunction = async (claim, claimContext) =>
  (await latest(claim, claimContext)) ??
  (await block(claim, claimContext)) ??
  (await transaction(claim, claimContext)) ??
  (await name(claim, claimContext)) ??
  (await balance(claim, claimContext))

const chainNamed = (
  text: string | undefined,
  claimContext: FactCheckContext,
): ReadableChainName | null =>
  text === undefined ? claimContext.home : findReadableChainByName(text)
const integer = (text = ''): bigint => BigInt(text.replaceAll(',', ''))

async function latest(
  claim: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  const [, on, claimed = ''] = LATEST.exec(claim) ?? []
  const [chain, quantity] = [chainNamed(on, claimContext), parseClaimedQuantity(claimed)]
  if (claimed === '' || chain === null || quantity === null) return null
  return withUnavailableFinding(chain, async () => {
    const head = await claimContext.chain.block(chain, 'latest')
    if (head === null) return null
    const number = Number(head.number)
    // Blocks arrive while a claim is made; a thousandth of the height is some days.
    const holds = matchesQuantity(quantity, number, { is: 0.0001, about: 0.01 })
    return holds === null
      ? null
      : approximateFinding(holds, number, `rpc:${chain}`, 'The latest block just now.')
  })
}

async function block(
  claim: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  const [, number, on, hash, count] = BLOCK.exec(claim) ?? []
  const chain = chainNamed(on, claimContext)
  if (number === undefined || chain === null) return null
  return withUnavailableFinding(chain, async () => {
    const found = await claimContext.chain.block(chain, integer(number))
    const source = `rpc:${chain}`
    if (found === null)
      return exactFinding(false, 'no such block yet', source, `The chain is not there yet.`)
    const at = new Date(Number(found.timestamp) * 1_000).toISOString()
    if (hash !== undefined)
      return exactFinding(found.hash === hash.toLowerCase(), found.hash, source, `Mined ${at}.`)
    if (count === undefined)
      return exactFinding(true, `mined ${at}`, source, `Its hash is ${found.hash}.`)
    return exactFinding(
      found.transactions === Number(count),
      found.transactions,
      source,
      `Mined ${at}.`,
    )
  })
}

async function transaction(
  claim: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  const [, hash, on, outcome, side, who, inBlock, moved] = TX.exec(claim) ?? []
  const chain = chainNamed(on, claimContext)
  if (hash === undefined || chain === null) return null
  return withUnavailableFinding(chain, async () => {
    const found = await claimContext.chain.transaction(chain, hash as EvmHex)
    const source = `rpc:${chain}`
    // Nodes prune old transactions, so a missing one proves nothing.
    if (found === null)
      return unverifiableFinding(source, 'The node that was asked does not know it.')
    if (outcome !== undefined) {
      if (found.success === null) return unverifiableFinding(source, 'It is not in a block yet.')
      const says = /succe/i.test(outcome)
      return exactFinding(
        found.success === says,
        found.success ? 'succeeded' : 'failed',
        source,
        'By its receipt.',
      )
    }
    if (who !== undefined) {
      const is = side?.toLowerCase() === 'to' ? found.to : found.from
      return exactFinding(
        is?.toLowerCase() === who.toLowerCase(),
        is ?? 'no recipient: it creates a contract',
        source,
        'By the transaction itself.',
      )
    }
    if (inBlock !== undefined) {
      if (found.block === null) return unverifiableFinding(source, 'It is not in a block yet.')
      return exactFinding(
        found.block === integer(inBlock),
        Number(found.block),
        source,
        'By the transaction itself.',
      )
    }
    return movedEther(moved ?? '', found.value, source)
  })
}

function movedEther(text: string, value: bigint, source: string): FactCheckFinding | null {
  const claimed = parseClaimedQuantity(text)
  if (claimed === null || !/^(?:eth|ether)$/i.test(claimed.unit)) return null
  const is = atomicUnitsToNumber(value, ETHER_DECIMALS)
  const holds = matchesQuantity(claimed, is, { is: 1e-9, about: 0.1 })
  return holds === null
    ? null
    : exactFinding(holds, toDisplayNumber(is), source, 'The value of the transaction in ETH.')
}

async function name(
  claim: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  const [, forward, to] = NAME.exec(claim) ?? []
  const [, from, back] = OWN.exec(claim) ?? []
  const [ens, address] = [forward ?? back, to ?? from]
  if (ens === undefined || address === undefined) return null
  return withUnavailableFinding('ethereum', async () => {
    const is = await claimContext.chain.ensAddress(ens)
    const source = 'ens'
    if (is === null)
      return unverifiableFinding(
        source,
        'The registry has no address for it; a resolver elsewhere may.',
      )
    return exactFinding(
      is.toLowerCase() === address.toLowerCase(),
      is,
      source,
      'By its resolver on Ethereum.',
    )
  })
}

async function balance(
  claim: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  for (const one of BALANCE) {
    const [, holder, text = '', on] = one.exec(claim) ?? []
    const [claimed, chain] = [parseClaimedQuantity(text), chainNamed(on, claimContext)]
    if (holder === undefined || claimed === null || chain === null) continue
    return withUnavailableFinding(chain, async () => {
      const address = holder.startsWith('0x')
        ? claimContext.chain.checksum(holder)
        : await claimContext.chain.ensAddress(holder)
      return address === null
        ? unverifiableFinding('ens', 'The name has no address.')
        : checkBalance(address, claimed, chain, claimContext)
    })
  }
  return null
}

async function checkBalance(
  address: EvmHex,
  claimed: ClaimedQuantity,
  chain: ReadableChainName,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  const symbol = claimed.unit.toUpperCase().replace(/^ETHER$/, 'ETH')
  const token = WIDELY_HELD_TOKENS.find((one) => one.chain === chain && one.symbol === symbol)
  const native = claimContext.chain.about(chain).native
  if (token === undefined && symbol !== native)
    return unverifiableFinding('token list', `${claimed.unit} is not on the list.`)
  const [amount] =
    token === undefined
      ? [(await claimContext.chain.account(chain, address)).balance]
      : await claimContext.chain.balances(chain, address, [token.address])
  if (amount == null) return unverifiableFinding(`rpc:${chain}`, 'The contract does not say this.')
  const is = atomicUnitsToNumber(amount, token?.decimals ?? ETHER_DECIMALS)
  const rounding = claimed.decimals > 0 ? 0.5 * 10 ** -claimed.decimals : 0
  const near =
    claimed.mode === 'is' &&
    Math.abs(is - (evaluateExpression(claimed.value) ?? Number.NaN)) <= rounding
  const holds = near || matchesQuantity(claimed, is, { is: 0, about: 0.1 })
  return holds === null
    ? null
    : approximateFinding(holds, toDisplayNumber(is), `rpc:${chain}`, 'What it holds just now.')
}

async function withUnavailableFinding(
  chain: ReadableChainName,
  work: () => Promise<FactCheckFinding | null>,
): Promise<FactCheckFinding | null> {
  try {
    return await work()
  } catch (error) {
    return unavailableSourceFinding(error, `rpc:${chain}`)
  }
}
