import type { Transfer, TransferKind } from './rows.ts'

/** What an account is, without the names in it; `:promo` at its end says that it holds promotional credits. */
export type AccountClass =
  | 'agent:promo'
  | 'agent:cash'
  | 'agent:held'
  | 'agent:held:promo'
  | 'agent:pending'
  | 'fleet'
  | 'fleet:promo'
  | 'bounty'
  | 'bounty:promo'
  | 'referral'
  | 'referral:promo'
  | 'royalty:pool'
  | 'royalty:pool:promo'
  | 'platform:tools'
  | 'treasury:fees'
  | 'grants:promo'
  | 'world'
  | 'owed'

/**
 * Whether a movement takes value to another agent. `no`: an agent on both sides is the same one.
 * `switch`: it takes promotional credits from one agent for another, which `PROMO_TRANSFERABLE` has to allow.
 */
export type Crossing = 'no' | 'yes' | 'switch'

export interface Way {
  readonly from: AccountClass
  readonly to: AccountClass
  readonly crosses: Crossing
}

export interface MovementKind {
  /** One sentence for the docs. */
  readonly says: string
  readonly ways: readonly Way[]
}

const within = (from: AccountClass, to: AccountClass): Way => ({ from, to, crosses: 'no' })
const across = (from: AccountClass, to: AccountClass): Way => ({ from, to, crosses: 'yes' })
const switched = (from: AccountClass, to: AccountClass): Way => ({ from, to, crosses: 'switch' })
const back = ({ from, to, crosses }: Way): Way => ({ from: to, to: from, crosses })

const CASH_PAYS = ['agent:cash', 'agent:held', 'owed'] as const
const PROMO_PAYS = ['agent:promo', 'agent:held:promo'] as const
const PAYS = [...CASH_PAYS, ...PROMO_PAYS]

const HOLD = [within('agent:promo', 'agent:held:promo'), within('agent:cash', 'agent:held')]
const DRAW = [across('fleet:promo', 'agent:held:promo'), across('fleet', 'agent:held')]
const GIFT = [across('agent:cash', 'agent:cash'), switched('agent:promo', 'agent:promo')]
const OUT_OF_ESCROW = [across('bounty', 'agent:cash'), across('bounty:promo', 'agent:promo')]

/**
 * Every movement of money that the ledger may have (docs/credits.md, decision 152). None of them leads
 * from an account of promotional credits to one of cash: what is promotional ends with the station.
 */
export const MOVEMENTS: Readonly<Record<TransferKind, MovementKind>> = {
  grant: {
    says: 'Starter credits, and credits that the operator gives with `gas grant`.',
    ways: [within('grants:promo', 'agent:promo')],
  },
  drop: {
    says: 'A slot of a radio drop.',
    ways: [within('grants:promo', 'agent:promo')],
  },
  bonus: {
    says: 'The bonus of a first deposit or of the first top-up of a fleet.',
    ways: [within('grants:promo', 'agent:promo'), within('grants:promo', 'fleet:promo')],
  },
  referral: {
    says: 'The reward for an agent that was brought and has made its first deposit.',
    ways: [within('grants:promo', 'agent:promo')],
  },
  deposit: {
    says: 'USDC that arrived on a chain for an agent.',
    ways: [within('world', 'agent:pending')],
  },
  topup: {
    says: 'A deposit that is credited, and USDC that arrived for a fleet.',
    ways: [within('agent:pending', 'agent:cash'), within('world', 'fleet')],
  },
  settlement: {
    says: 'A payment on a chain for a call: it fills what the delivery has left open.',
    ways: [within('world', 'owed')],
  },
  refund: {
    says: 'A payment that settled for a call that was not delivered.',
    ways: [within('owed', 'agent:cash')],
  },
  reorg: {
    says: 'A deposit, a top-up or a settlement that its chain has undone, and the bonus it brought.',
    ways: [
      within('agent:promo', 'grants:promo'),
      within('fleet:promo', 'grants:promo'),
      ...(['agent:pending', 'agent:cash', 'agent:promo'] as const).flatMap((from) => [
        within(from, 'world'),
        within(from, 'owed'),
      ]),
      within('fleet', 'world'),
      within('fleet:promo', 'world'),
      within('owed', 'world'),
    ],
  },
  loss: {
    says: 'What the treasury bears because a chain took it back, and what came after all.',
    ways: [
      within('treasury:fees', 'world'),
      within('treasury:fees', 'owed'),
      within('owed', 'treasury:fees'),
    ],
  },
  hold: { says: 'The price of a call that is running.', ways: HOLD },
  release: { says: 'What of a hold the call did not cost.', ways: HOLD.map(back) },
  draw: { says: 'What a fleet lends a member for one call.', ways: DRAW },
  draw_back: { says: 'What of a loan the call did not cost.', ways: DRAW.map(back) },
  charge: {
    says: 'The part of a price that is for the tools, and the 1 % of it that is for a referrer.',
    ways: [
      ...PAYS.map((from) => within(from, 'platform:tools')),
      ...CASH_PAYS.map((from) => across(from, 'referral')),
      ...PROMO_PAYS.map((from) => switched(from, 'referral:promo')),
      ...PROMO_PAYS.map((from) => within(from, 'grants:promo')),
    ],
  },
  fee: {
    says: 'The part of a price that is for the treasury.',
    ways: PAYS.map((from) => within(from, 'treasury:fees')),
  },
  share: {
    says: 'The part of a price that is for another agent, as the author of a forked strategy.',
    ways: [
      ...CASH_PAYS.map((from) => across(from, 'agent:cash')),
      ...PROMO_PAYS.map((from) => switched(from, 'agent:promo')),
      ...PROMO_PAYS.map((from) => within(from, 'grants:promo')),
    ],
  },
  send: { says: 'Credits that an agent sends to another.', ways: GIFT },
  tip: { says: 'A tip, without its fee.', ways: GIFT },
  tip_fee: {
    says: 'The fee of a tip.',
    ways: [within('agent:cash', 'treasury:fees'), within('agent:promo', 'treasury:fees')],
  },
  escrow: {
    says: 'The reward of a bounty that is posted.',
    ways: [across('agent:cash', 'bounty'), switched('agent:promo', 'bounty:promo')],
  },
  bounty: { says: 'The reward of a bounty to its claimer.', ways: OUT_OF_ESCROW },
  escrow_back: { says: 'The reward of a bounty back to its poster.', ways: OUT_OF_ESCROW },
  payout: {
    says: 'What the agents that a referrer brought have earned it.',
    ways: [across('referral', 'agent:cash'), across('referral:promo', 'agent:promo')],
  },
  royalty_feed: {
    says: 'A quarter of the fees, for reads of the Hive.',
    ways: [
      within('treasury:fees', 'royalty:pool'),
      switched('treasury:fees', 'royalty:pool:promo'),
      within('treasury:fees', 'grants:promo'),
    ],
  },
  royalty: {
    says: 'What the author of an entry of the Hive is owed for reads.',
    ways: [across('royalty:pool', 'agent:cash'), across('royalty:pool:promo', 'agent:promo')],
  },
}

const classOf = (account: string): string =>
  account.replace(/^(?:(agent|fleet|bounty|referral):[^:]+|(world|owed):.+)/, '$1$2')

const crossings: ReadonlyMap<string, Crossing> = new Map(
  Object.entries(MOVEMENTS).flatMap(([kind, { ways }]) =>
    ways.map(({ from, to, crosses }) => [`${kind} ${from} ${to}` as string, crosses] as const),
  ),
)

/** Whether a movement takes promotional credits from one agent for another. */
export const crossesPromo = ({ kind, debit, credit }: Transfer): boolean =>
  crossings.get(`${kind} ${classOf(debit)} ${classOf(credit)}`) === 'switch'

/**
 * Throws at a movement that is not one of `MOVEMENTS`, or that needs a permission it does not have. It
 * is a bug of this service then, and nothing of its command is committed.
 */
export function assertMovement(transfer: Transfer): void {
  const { kind, debit, credit, promoAllowed = false } = transfer
  const crosses = crossings.get(`${kind} ${classOf(debit)} ${classOf(credit)}`)
  const named = `${kind} from ${debit} to ${credit}`
  if (crosses === undefined) throw new Error(`the ledger has no movement ${named}`)
  if (crosses === 'switch' && !promoAllowed)
    throw new Error(`promotional credits may not go to another agent: ${named}`)
  if (crosses === 'no' && isOfTwoAgents(debit, credit))
    throw new Error(`a movement within one agent names two: ${named}`)
}

const agentIn = (account: string): string | null => /^agent:([^:]+):/.exec(account)?.[1] ?? null

function isOfTwoAgents(debit: string, credit: string): boolean {
  const [one, other] = [agentIn(debit), agentIn(credit)]
  return one !== null && other !== null && one !== other
}
