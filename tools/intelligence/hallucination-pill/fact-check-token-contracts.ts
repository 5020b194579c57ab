import { ServiceError } from '../../../core/errors.ts'
import type {
  ReadableChainName,
  EvmHex,
  TokenContractInfo,
} from '../../../providers/chain-data/chain-data-port.ts'
import { atomicUnitsToNumber } from '../../../providers/chain-data/chain-tool-schemas.ts'
import {
  WIDELY_HELD_TOKENS,
  WIDELY_HELD_TOKENS_AS_OF,
  type WidelyHeldToken,
} from '../../../providers/chain-data/bundled-token-contract-list.ts'
import { findReadableChainByName } from './fact-check-chain-id-and-gas-token-claims.ts'
import {
  exactFinding,
  approximateFinding,
  normalizeName,
  unverifiableFinding,
  type FactClaimCheckFunction,
  type FactCheckFinding,
  type FactCheckContext,
} from './fact-claim-normalizer-and-finding-types.ts'
import { matchesQuantity, parseClaimedQuantity, toDisplayNumber } from './claimed-quantity.ts'

/** Checks claims about tokens and their contracts. */

const ADDRESS = '0x[0-9a-fA-F]{40}'
const ON = String.raw`(?: (?:token |contract )?on (?:the )?([a-z][a-z0-9 -]{1,30}?)(?: chain| network| mainnet)?)?`
const WHAT = String.raw`(?: token| contract| token contract| stablecoin)?`
const form = (text: string) =>
  new RegExp(`^${text.replaceAll('@', `(${ADDRESS})`).replaceAll('%', ON)}$`, 'i')
const LIST = `bundled token list of ${WIDELY_HELD_TOKENS_AS_OF}`

const CONTRACT = [
  form(
    String.raw`(?:the )?(?:contract |token )*(?:address )?(?:of |for )(?:the )?([a-z0-9]{2,10})${WHAT}% is @`,
  ),
  form(
    String.raw`(?:the )?(?:native |official |canonical )?([a-z0-9]{2,10})(?:'s)?${WHAT}(?: contract)?(?: address)?% is @`,
  ),
]
const NAMED = form(
  String.raw`@ is (?:the )?(?:canonical |official |native )?(?:(?:contract |token )*(?:address )?(?:of|for) )?(?:the )?([a-z0-9]{2,10})(?: token| contract| address| token contract| contract address)*%`,
)
const DECIMALS = [
  form(
    String.raw`(?:the )?([a-z0-9]{2,10}|${ADDRESS})${WHAT}% (?:has|uses) (\d{1,3}) decimals?(?: places)?`,
  ),
  form(
    String.raw`(?:the )?(?:number of )?decimals of (?:the )?([a-z0-9]{2,10}|${ADDRESS})${WHAT}% (?:is|are) (\d{1,3})`,
  ),
]
const TEXT = form(String.raw`the (symbol|name) of (?:the token |the contract )?@% is (.+)`)
const SUPPLY = form(
  String.raw`(?:the )?total supply of (?:the )?([a-z0-9]{2,10}|${ADDRESS})${WHAT}% is (.+)`,
)
const CODE = form(
  String.raw`@ is an? (smart contract|contract|token contract|eoa|externally owned account|wallet)%`,
)
const VALID =
  /^(0x[0-9a-z]*) is an? (valid|invalid)(?: eip-55| checksummed| ethereum| evm)* address$/i
const CHECKSUM = form(
  '(?:the )?(?:eip-55 )?(?:checksum|checksummed form|checksummed address|checksum address) (?:of |for )@ is @',
)

/** Checks canonical addresses, and what token contracts report. */
export const factCheckTokenContracts: FactClaimCheckFunction = async (claim, claimContext) =>
  validity(claim, claimContext) ??
  checksum(claim, claimContext) ??
  canonical(claim, claimContext) ??
  (await decimals(claim, claimContext)) ??
  (await facts(claim, claimContext))

function validity(claim: string, { chain }: FactCheckContext): FactCheckFinding | null {
  const [, address = '', claimed = ''] = VALID.exec(claim) ?? []
  if (claimed === '') return null
  const right = chain.checksum(address)
  const digits = address.slice(2)
  const plainCase = digits === digits.toLowerCase() || digits === digits.toUpperCase()
  const valid = right !== null && (plainCase || right === address)
  const context =
    right === null
      ? 'An address is 0x and 40 hexadecimal digits.'
      : `Its EIP-55 spelling is ${right}.`
  return exactFinding(
    valid === (claimed.toLowerCase() === 'valid'),
    valid ? 'valid' : 'invalid',
    'EIP-55',
    context,
  )
}

function checksum(claim: string, { chain }: FactCheckContext): FactCheckFinding | null {
  const [, address = '', claimed] = CHECKSUM.exec(claim) ?? []
  const right = chain.checksum(address)
  return right === null
    ? null
    : exactFinding(right === claimed, right, 'EIP-55', 'By the hash of its digits.')
}

const listed = (symbol: string, chain: ReadableChainName): WidelyHeldToken | undefined =>
  WIDELY_HELD_TOKENS.find((one) => one.chain === chain && one.symbol === symbol.toUpperCase())
const chainNamed = (
  name: string | undefined,
  claimContext: FactCheckContext,
): ReadableChainName | null =>
  name === undefined ? claimContext.home : findReadableChainByName(name)

function canonical(claim: string, claimContext: FactCheckContext): FactCheckFinding | null {
  const [, address = '', symbol = '', on] = NAMED.exec(claim) ?? []
  if (address !== '') return compare(symbol, on, address, claimContext)
  for (const one of CONTRACT) {
    const [, token, chain, claimed] = one.exec(claim) ?? []
    if (token !== undefined && claimed !== undefined)
      return compare(token, chain, claimed, claimContext)
  }
  return null
}

function compare(
  symbol: string,
  on: string | undefined,
  claimed: string,
  claimContext: FactCheckContext,
): FactCheckFinding | null {
  const chain = chainNamed(on, claimContext)
  const token = chain === null ? undefined : listed(symbol, chain)
  if (token === undefined) {
    // `0x… is the contract` is a claim of another kind.
    return WIDELY_HELD_TOKENS.some((one) => one.symbol === symbol.toUpperCase())
      ? unverifiableFinding(LIST, `No ${symbol} of ${on ?? claimContext.home} is on the list.`)
      : null
  }
  const holds = token.address.toLowerCase() === claimed.toLowerCase()
  return exactFinding(
    holds,
    token.address,
    LIST,
    `${token.symbol} on ${token.chain} is ${token.address}.`,
  )
}

/** Returns the contract of a symbol or an address. */
function contractOf(name: string, on: string | undefined, claimContext: FactCheckContext) {
  const chain = chainNamed(on, claimContext)
  if (chain === null) return null
  if (name.startsWith('0x'))
    return { chain, address: claimContext.chain.checksum(name), token: undefined }
  const token = listed(name, chain)
  return token === undefined ? null : { chain, address: token.address, token }
}

async function decimals(
  claim: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  for (const one of DECIMALS) {
    const [, name, on, claimed] = one.exec(claim) ?? []
    if (name === undefined) continue
    const contract = contractOf(name, on, claimContext)
    if (contract === null || contract.address === null) {
      return unverifiableFinding(LIST, `${name} is not on the list, and has no address here.`)
    }
    const { chain, address, token } = contract
    if (token !== undefined) {
      return exactFinding(
        token.decimals === Number(claimed),
        token.decimals,
        LIST,
        `${token.address} on ${chain}.`,
      )
    }
    return checkTokenContract(chain, address, claimContext, ({ decimals: has }) =>
      has === null
        ? null
        : exactFinding(has === Number(claimed), has, `rpc:${chain}`, 'decimals() of the contract.'),
    )
  }
  return null
}

async function facts(
  claim: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  const [, field = '', address = '', where, text = ''] = TEXT.exec(claim) ?? []
  if (field !== '') {
    const contract = contractOf(address, where, claimContext)
    if (contract?.address == null) return null
    return checkTokenContract(contract.chain, contract.address, claimContext, (token) => {
      const is = field.toLowerCase() === 'name' ? token.name : token.symbol
      return is === null
        ? null
        : exactFinding(
            normalizeName(is) === normalizeName(text),
            is,
            `rpc:${contract.chain}`,
            `${field}() of the contract.`,
          )
    })
  }
  const [, name = '', on, claimed = ''] = SUPPLY.exec(claim) ?? []
  if (name !== '') return supply(name, on, claimed, claimContext)
  const [, account = '', kind = '', chainName] = CODE.exec(claim) ?? []
  return account === '' ? null : code(account, kind, chainName, claimContext)
}

async function supply(
  name: string,
  on: string | undefined,
  claimed: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  const [contract, quantity] = [contractOf(name, on, claimContext), parseClaimedQuantity(claimed)]
  if (contract?.address == null || quantity === null) return null
  return checkTokenContract(
    contract.chain,
    contract.address,
    claimContext,
    ({ supply: total, decimals: places }) => {
      if (total === null || places === null) return null
      const is = atomicUnitsToNumber(total, places)
      const holds = matchesQuantity(quantity, is, { is: 0.02, about: 0.1 })
      return holds === null
        ? null
        : approximateFinding(
            holds,
            toDisplayNumber(is),
            `rpc:${contract.chain}`,
            'totalSupply() of the contract.',
          )
    },
  )
}

async function code(
  address: string,
  kind: string,
  on: string | undefined,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  const contract = contractOf(address, on, claimContext)
  if (contract?.address == null) return null
  const { chain } = contract
  const source = `rpc:${chain}`
  try {
    const { isContract } = await claimContext.chain.account(chain, contract.address)
    const says = /contract/i.test(kind)
    return exactFinding(
      isContract === says,
      isContract ? 'a contract' : 'no contract',
      source,
      `By its code on ${chain}.`,
    )
  } catch (error) {
    return unavailableSourceFinding(error, source)
  }
}

/** A contract without the value is no evidence against the claim. */
async function checkTokenContract(
  chain: ReadableChainName,
  address: EvmHex,
  claimContext: FactCheckContext,
  judge: (token: TokenContractInfo) => FactCheckFinding | null,
): Promise<FactCheckFinding> {
  const source = `rpc:${chain}`
  try {
    const found = judge(await claimContext.chain.token(chain, address))
    return found ?? unverifiableFinding(source, 'The contract does not say this.')
  } catch (error) {
    return unavailableSourceFinding(error, source)
  }
}

/** A source that is down makes a claim unverifiable, never contradicted. */
export function unavailableSourceFinding(error: unknown, source: string): FactCheckFinding {
  if (error instanceof ServiceError)
    return unverifiableFinding(source, 'The source did not answer.')
  throw error
}
