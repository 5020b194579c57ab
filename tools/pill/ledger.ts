import type { ChainName, Hex } from '../chain/port.ts'
import { whole } from '../chain/shapes.ts'
import { TOKENS } from '../chain/tokens.ts'
import { readableChain } from './chains.ts'
import { exactly, nearly, unknowable, type Checker, type Finding, type World } from './claim.ts'
import { fits, quantityOf, shown, valueOf, type Quantity } from './quantity.ts'
import { down } from './tokens.ts'

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
const ETHER = 18

/** Blocks, transactions, balances and names, as the chains have them now. */
export const ledger: Checker = async (claim, world) =>
  (await latest(claim, world)) ??
  (await block(claim, world)) ??
  (await transaction(claim, world)) ??
  (await name(claim, world)) ??
  (await balance(claim, world))

const chainNamed = (text: string | undefined, world: World): ChainName | null =>
  text === undefined ? world.home : readableChain(text)
const integer = (text = ''): bigint => BigInt(text.replaceAll(',', ''))

async function latest(claim: string, world: World): Promise<Finding | null> {
  const [, on, said = ''] = LATEST.exec(claim) ?? []
  const [chain, quantity] = [chainNamed(on, world), quantityOf(said)]
  if (said === '' || chain === null || quantity === null) return null
  return guarded(chain, async () => {
    const head = await world.chain.block(chain, 'latest')
    if (head === null) return null
    const number = Number(head.number)
    // Blocks come while a claim is made; a thousandth of the height is some days.
    const holds = fits(quantity, number, { is: 0.0001, about: 0.01 })
    return holds === null
      ? null
      : nearly(holds, number, `rpc:${chain}`, 'The latest block just now.')
  })
}

async function block(claim: string, world: World): Promise<Finding | null> {
  const [, number, on, hash, count] = BLOCK.exec(claim) ?? []
  const chain = chainNamed(on, world)
  if (number === undefined || chain === null) return null
  return guarded(chain, async () => {
    const found = await world.chain.block(chain, integer(number))
    const source = `rpc:${chain}`
    if (found === null)
      return exactly(false, 'no such block yet', source, `The chain is not there yet.`)
    const at = new Date(Number(found.timestamp) * 1_000).toISOString()
    if (hash !== undefined)
      return exactly(found.hash === hash.toLowerCase(), found.hash, source, `Mined ${at}.`)
    if (count === undefined)
      return exactly(true, `mined ${at}`, source, `Its hash is ${found.hash}.`)
    return exactly(found.transactions === Number(count), found.transactions, source, `Mined ${at}.`)
  })
}

async function transaction(claim: string, world: World): Promise<Finding | null> {
  const [, hash, on, outcome, side, who, inBlock, moved] = TX.exec(claim) ?? []
  const chain = chainNamed(on, world)
  if (hash === undefined || chain === null) return null
  return guarded(chain, async () => {
    const found = await world.chain.transaction(chain, hash as Hex)
    const source = `rpc:${chain}`
    // Nodes forget old transactions: that one does not know it proves nothing.
    if (found === null) return unknowable(source, 'The node that was asked does not know it.')
    if (outcome !== undefined) {
      if (found.success === null) return unknowable(source, 'It is not in a block yet.')
      const says = /succe/i.test(outcome)
      return exactly(
        found.success === says,
        found.success ? 'succeeded' : 'failed',
        source,
        'By its receipt.',
      )
    }
    if (who !== undefined) {
      const is = side?.toLowerCase() === 'to' ? found.to : found.from
      return exactly(
        is?.toLowerCase() === who.toLowerCase(),
        is ?? 'nobody: it creates a contract',
        source,
        'By the transaction itself.',
      )
    }
    if (inBlock !== undefined) {
      if (found.block === null) return unknowable(source, 'It is not in a block yet.')
      return exactly(
        found.block === integer(inBlock),
        Number(found.block),
        source,
        'By the transaction itself.',
      )
    }
    return movedEther(moved ?? '', found.value, source)
  })
}

function movedEther(text: string, value: bigint, source: string): Finding | null {
  const said = quantityOf(text)
  if (said === null || !/^(?:eth|ether)$/i.test(said.unit)) return null
  const is = whole(value, ETHER)
  const holds = fits(said, is, { is: 1e-9, about: 0.1 })
  return holds === null
    ? null
    : exactly(holds, shown(is), source, 'The value of the transaction in ETH.')
}

async function name(claim: string, world: World): Promise<Finding | null> {
  const [, forward, to] = NAME.exec(claim) ?? []
  const [, from, back] = OWN.exec(claim) ?? []
  const [ens, address] = [forward ?? back, to ?? from]
  if (ens === undefined || address === undefined) return null
  return guarded('ethereum', async () => {
    const is = await world.chain.ensAddress(ens)
    const source = 'ens'
    if (is === null)
      return unknowable(source, 'The registry has no address for it; a resolver elsewhere may.')
    return exactly(
      is.toLowerCase() === address.toLowerCase(),
      is,
      source,
      'By its resolver on Ethereum.',
    )
  })
}

async function balance(claim: string, world: World): Promise<Finding | null> {
  for (const one of BALANCE) {
    const [, holder, text = '', on] = one.exec(claim) ?? []
    const [said, chain] = [quantityOf(text), chainNamed(on, world)]
    if (holder === undefined || said === null || chain === null) continue
    return guarded(chain, async () => {
      const address = holder.startsWith('0x')
        ? world.chain.checksum(holder)
        : await world.chain.ensAddress(holder)
      return address === null
        ? unknowable('ens', 'The name has no address.')
        : held(address, said, chain, world)
    })
  }
  return null
}

async function held(
  address: Hex,
  said: Quantity,
  chain: ChainName,
  world: World,
): Promise<Finding | null> {
  const symbol = said.unit.toUpperCase().replace(/^ETHER$/, 'ETH')
  const token = TOKENS.find((one) => one.chain === chain && one.symbol === symbol)
  const native = world.chain.about(chain).native
  if (token === undefined && symbol !== native)
    return unknowable('token list', `${said.unit} is not on the list.`)
  const [amount] =
    token === undefined
      ? [(await world.chain.account(chain, address)).balance]
      : await world.chain.balances(chain, address, [token.address])
  if (amount == null) return unknowable(`rpc:${chain}`, 'The contract does not say this.')
  const is = whole(amount, token?.decimals ?? ETHER)
  const rounding = said.decimals > 0 ? 0.5 * 10 ** -said.decimals : 0
  const near = said.mode === 'is' && Math.abs(is - (valueOf(said.value) ?? Number.NaN)) <= rounding
  const holds = near || fits(said, is, { is: 0, about: 0.1 })
  return holds === null ? null : nearly(holds, shown(is), `rpc:${chain}`, 'What it holds just now.')
}

async function guarded(
  chain: ChainName,
  work: () => Promise<Finding | null>,
): Promise<Finding | null> {
  try {
    return await work()
  } catch (error) {
    return down(error, `rpc:${chain}`)
  }
}
