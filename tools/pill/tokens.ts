import { ServiceError } from '../../core/errors.ts'
import type { ChainName, Hex, TokenFacts } from '../chain/port.ts'
import { whole } from '../chain/shapes.ts'
import { TOKENS, TOKENS_AS_OF, type ListedToken } from '../chain/tokens.ts'
import { readableChain } from './chains.ts'
import {
  exactly,
  nearly,
  plain,
  unknowable,
  type Checker,
  type Finding,
  type World,
} from './claim.ts'
import { fits, quantityOf, shown } from './quantity.ts'

const ADDRESS = '0x[0-9a-fA-F]{40}'
const ON = String.raw`(?: (?:token |contract )?on (?:the )?([a-z][a-z0-9 -]{1,30}?)(?: chain| network| mainnet)?)?`
const WHAT = String.raw`(?: token| contract| token contract| stablecoin)?`
const form = (text: string) =>
  new RegExp(`^${text.replaceAll('@', `(${ADDRESS})`).replaceAll('%', ON)}$`, 'i')
const LIST = `bundled token list of ${TOKENS_AS_OF}`

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

/** Canonical addresses, and what token contracts say of themselves. */
export const tokens: Checker = async (claim, world) =>
  validity(claim, world) ??
  checksum(claim, world) ??
  canonical(claim, world) ??
  (await decimals(claim, world)) ??
  (await facts(claim, world))

function validity(claim: string, { chain }: World): Finding | null {
  const [, address = '', said = ''] = VALID.exec(claim) ?? []
  if (said === '') return null
  const right = chain.checksum(address)
  const digits = address.slice(2)
  const plainCase = digits === digits.toLowerCase() || digits === digits.toUpperCase()
  const valid = right !== null && (plainCase || right === address)
  const context =
    right === null
      ? 'An address is 0x and 40 hexadecimal digits.'
      : `Its EIP-55 spelling is ${right}.`
  return exactly(
    valid === (said.toLowerCase() === 'valid'),
    valid ? 'valid' : 'invalid',
    'EIP-55',
    context,
  )
}

function checksum(claim: string, { chain }: World): Finding | null {
  const [, address = '', said] = CHECKSUM.exec(claim) ?? []
  const right = chain.checksum(address)
  return right === null
    ? null
    : exactly(right === said, right, 'EIP-55', 'By the hash of its digits.')
}

const listed = (symbol: string, chain: ChainName): ListedToken | undefined =>
  TOKENS.find((one) => one.chain === chain && one.symbol === symbol.toUpperCase())
const chainNamed = (name: string | undefined, world: World): ChainName | null =>
  name === undefined ? world.home : readableChain(name)

function canonical(claim: string, world: World): Finding | null {
  const [, address = '', symbol = '', on] = NAMED.exec(claim) ?? []
  if (address !== '') return compare(symbol, on, address, world)
  for (const one of CONTRACT) {
    const [, token, chain, said] = one.exec(claim) ?? []
    if (token !== undefined && said !== undefined) return compare(token, chain, said, world)
  }
  return null
}

function compare(
  symbol: string,
  on: string | undefined,
  said: string,
  world: World,
): Finding | null {
  const chain = chainNamed(on, world)
  const token = chain === null ? undefined : listed(symbol, chain)
  if (token === undefined) {
    // `0x… is the contract` says something else.
    return TOKENS.some((one) => one.symbol === symbol.toUpperCase())
      ? unknowable(LIST, `No ${symbol} of ${on ?? world.home} is on the list.`)
      : null
  }
  const holds = token.address.toLowerCase() === said.toLowerCase()
  return exactly(
    holds,
    token.address,
    LIST,
    `${token.symbol} on ${token.chain} is ${token.address}.`,
  )
}

/** The contract that a symbol or an address stands for. */
function contractOf(name: string, on: string | undefined, world: World) {
  const chain = chainNamed(on, world)
  if (chain === null) return null
  if (name.startsWith('0x')) return { chain, address: world.chain.checksum(name), token: undefined }
  const token = listed(name, chain)
  return token === undefined ? null : { chain, address: token.address, token }
}

async function decimals(claim: string, world: World): Promise<Finding | null> {
  for (const one of DECIMALS) {
    const [, name, on, said] = one.exec(claim) ?? []
    if (name === undefined) continue
    const contract = contractOf(name, on, world)
    if (contract === null || contract.address === null) {
      return unknowable(LIST, `${name} is not on the list, and has no address here.`)
    }
    const { chain, address, token } = contract
    if (token !== undefined) {
      return exactly(
        token.decimals === Number(said),
        token.decimals,
        LIST,
        `${token.address} on ${chain}.`,
      )
    }
    return ask(chain, address, world, ({ decimals: has }) =>
      has === null
        ? null
        : exactly(has === Number(said), has, `rpc:${chain}`, 'decimals() of the contract.'),
    )
  }
  return null
}

async function facts(claim: string, world: World): Promise<Finding | null> {
  const [, field = '', address = '', where, text = ''] = TEXT.exec(claim) ?? []
  if (field !== '') {
    const contract = contractOf(address, where, world)
    if (contract?.address == null) return null
    return ask(contract.chain, contract.address, world, (token) => {
      const is = field.toLowerCase() === 'name' ? token.name : token.symbol
      return is === null
        ? null
        : exactly(
            plain(is) === plain(text),
            is,
            `rpc:${contract.chain}`,
            `${field}() of the contract.`,
          )
    })
  }
  const [, name = '', on, said = ''] = SUPPLY.exec(claim) ?? []
  if (name !== '') return supply(name, on, said, world)
  const [, account = '', kind = '', chainName] = CODE.exec(claim) ?? []
  return account === '' ? null : code(account, kind, chainName, world)
}

async function supply(
  name: string,
  on: string | undefined,
  said: string,
  world: World,
): Promise<Finding | null> {
  const [contract, quantity] = [contractOf(name, on, world), quantityOf(said)]
  if (contract?.address == null || quantity === null) return null
  return ask(contract.chain, contract.address, world, ({ supply: total, decimals: places }) => {
    if (total === null || places === null) return null
    const is = whole(total, places)
    const holds = fits(quantity, is, { is: 0.02, about: 0.1 })
    return holds === null
      ? null
      : nearly(holds, shown(is), `rpc:${contract.chain}`, 'totalSupply() of the contract.')
  })
}

async function code(
  address: string,
  kind: string,
  on: string | undefined,
  world: World,
): Promise<Finding | null> {
  const contract = contractOf(address, on, world)
  if (contract?.address == null) return null
  const { chain } = contract
  const source = `rpc:${chain}`
  try {
    const { isContract } = await world.chain.account(chain, contract.address)
    const says = /contract/i.test(kind)
    return exactly(
      isContract === says,
      isContract ? 'a contract' : 'no contract',
      source,
      `By its code on ${chain}.`,
    )
  } catch (error) {
    return down(error, source)
  }
}

/** A contract that says nothing is no evidence against what is said of it. */
async function ask(
  chain: ChainName,
  address: Hex,
  world: World,
  judge: (token: TokenFacts) => Finding | null,
): Promise<Finding> {
  const source = `rpc:${chain}`
  try {
    const found = judge(await world.chain.token(chain, address))
    return found ?? unknowable(source, 'The contract does not say this.')
  } catch (error) {
    return down(error, source)
  }
}

/** A source that is down makes a claim unverifiable, never contradicted. */
export function down(error: unknown, source: string): Finding {
  if (error instanceof ServiceError) return unknowable(source, 'The source did not answer.')
  throw error
}
