import type { LedgerTransfer, LedgerTransferKind } from '../core/aggregate-commit-row-types.ts'

/** An account without its ids. The suffix `:promo` marks promotional credits. */
export type LedgerAccountKind =
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
  | 'pass'
  | 'pass:promo'
  | 'royalty:pool'
  | 'royalty:pool:promo'
  | 'platform:tools'
  | 'treasury:fees'
  | 'grants:promo'
  | 'world'
  | 'owed'

/**
 * Whether a movement moves value to another agent. `no`: agents on both sides are the same.
 * `switch`: promotional credits move between agents, which `PROMO_TRANSFERABLE` must allow.
 */
export type LedgerMovementAgentCrossing = 'no' | 'yes' | 'switch'

export interface LedgerMovementRoute {
  readonly from: LedgerAccountKind
  readonly to: LedgerAccountKind
  readonly crosses: LedgerMovementAgentCrossing
}

export interface LedgerMovementRule {
  /** One sentence for the documentation. */
  readonly description: string
  readonly routes: readonly LedgerMovementRoute[]
}

const routeWithinAgent = (from: LedgerAccountKind, to: LedgerAccountKind): LedgerMovementRoute => ({
  from,
  to,
  crosses: 'no',
})
const routeBetweenAgents = (
  from: LedgerAccountKind,
  to: LedgerAccountKind,
): LedgerMovementRoute => ({
  from,
  to,
  crosses: 'yes',
})
const promoRouteBetweenAgents = (
  from: LedgerAccountKind,
  to: LedgerAccountKind,
): LedgerMovementRoute => ({ from, to, crosses: 'switch' })
const reverseRoute = ({ from, to, crosses }: LedgerMovementRoute): LedgerMovementRoute => ({
  from: to,
  to: from,
  crosses,
})

const CASH_PAYING_ACCOUNTS = ['agent:cash', 'agent:held', 'pass', 'owed'] as const
const PROMO_PAYING_ACCOUNTS = ['agent:promo', 'agent:held:promo', 'pass:promo'] as const
const PAYING_ACCOUNTS = [...CASH_PAYING_ACCOUNTS, ...PROMO_PAYING_ACCOUNTS]

const HOLD_ROUTES = [
  routeWithinAgent('agent:promo', 'agent:held:promo'),
  routeWithinAgent('agent:cash', 'agent:held'),
]
const FLEET_DRAW_ROUTES = [
  routeBetweenAgents('fleet:promo', 'agent:held:promo'),
  routeBetweenAgents('fleet', 'agent:held'),
]
const AGENT_TO_AGENT_ROUTES = [
  routeBetweenAgents('agent:cash', 'agent:cash'),
  promoRouteBetweenAgents('agent:promo', 'agent:promo'),
]
const ESCROW_RELEASE_ROUTES = [
  routeBetweenAgents('bounty', 'agent:cash'),
  routeBetweenAgents('bounty:promo', 'agent:promo'),
]

/**
 * Every movement that the ledger accepts (docs/credits.md, decision 152). None moves promotional
 * credits to a cash account; they return to the station.
 */
export const LEDGER_MOVEMENT_RULES: Readonly<Record<LedgerTransferKind, LedgerMovementRule>> = {
  grant: {
    description: 'Starter credits, and credits that the operator gives with `gas grant`.',
    routes: [routeWithinAgent('grants:promo', 'agent:promo')],
  },
  drop: {
    description: 'A slot of a radio drop.',
    routes: [routeWithinAgent('grants:promo', 'agent:promo')],
  },
  bonus: {
    description: 'The bonus of a first deposit or of the first top-up of a fleet.',
    routes: [
      routeWithinAgent('grants:promo', 'agent:promo'),
      routeWithinAgent('grants:promo', 'fleet:promo'),
    ],
  },
  referral: {
    description: 'The reward for a referred agent that has made its first deposit.',
    routes: [routeWithinAgent('grants:promo', 'agent:promo')],
  },
  deposit: {
    description: 'USDC that arrived on a chain for an agent.',
    routes: [routeWithinAgent('world', 'agent:pending')],
  },
  topup: {
    description: 'A deposit that is credited, and USDC that arrived for a fleet.',
    routes: [routeWithinAgent('agent:pending', 'agent:cash'), routeWithinAgent('world', 'fleet')],
  },
  settlement: {
    description: 'An on-chain payment for a call, booked against the delivery.',
    routes: [routeWithinAgent('world', 'owed')],
  },
  refund: {
    description: 'A payment that settled for a call that was not delivered.',
    routes: [routeWithinAgent('owed', 'agent:cash')],
  },
  reorg: {
    description:
      'A deposit, a top-up or a settlement that its chain has undone, and the bonus it brought.',
    routes: [
      routeWithinAgent('agent:promo', 'grants:promo'),
      routeWithinAgent('fleet:promo', 'grants:promo'),
      ...(['agent:pending', 'agent:cash', 'agent:promo'] as const).flatMap((from) => [
        routeWithinAgent(from, 'world'),
        routeWithinAgent(from, 'owed'),
      ]),
      routeWithinAgent('fleet', 'world'),
      routeWithinAgent('fleet:promo', 'world'),
      routeWithinAgent('owed', 'world'),
    ],
  },
  loss: {
    description:
      'A settlement or deposit that was lost, paid by the treasury, and one that arrived after all.',
    routes: [
      routeWithinAgent('treasury:fees', 'world'),
      routeWithinAgent('treasury:fees', 'owed'),
      routeWithinAgent('owed', 'treasury:fees'),
    ],
  },
  hold: { description: 'The price of a call that is running.', routes: HOLD_ROUTES },
  release: {
    description: 'The unused part of a hold.',
    routes: HOLD_ROUTES.map(reverseRoute),
  },
  draw: { description: 'A loan of a fleet to a member for one call.', routes: FLEET_DRAW_ROUTES },
  draw_back: {
    description: 'The unused part of a loan.',
    routes: FLEET_DRAW_ROUTES.map(reverseRoute),
  },
  charge: {
    description: 'The part of a price for the tools, and the 1 % for a referrer.',
    routes: [
      ...PAYING_ACCOUNTS.map((from) => routeWithinAgent(from, 'platform:tools')),
      ...CASH_PAYING_ACCOUNTS.map((from) => routeBetweenAgents(from, 'referral')),
      ...PROMO_PAYING_ACCOUNTS.map((from) => promoRouteBetweenAgents(from, 'referral:promo')),
      ...PROMO_PAYING_ACCOUNTS.map((from) => routeWithinAgent(from, 'grants:promo')),
    ],
  },
  fee: {
    description: 'The part of a price for the treasury, and its half for the creator of the agent.',
    routes: [
      ...PAYING_ACCOUNTS.map((from) => routeWithinAgent(from, 'treasury:fees')),
      ...CASH_PAYING_ACCOUNTS.map((from) => routeBetweenAgents(from, 'referral')),
      ...PROMO_PAYING_ACCOUNTS.map((from) => promoRouteBetweenAgents(from, 'referral:promo')),
      ...PROMO_PAYING_ACCOUNTS.map((from) => routeWithinAgent(from, 'grants:promo')),
    ],
  },
  share: {
    description: 'The part of a price for another agent, such as the author of a forked strategy.',
    routes: [
      ...CASH_PAYING_ACCOUNTS.map((from) => routeBetweenAgents(from, 'agent:cash')),
      ...PROMO_PAYING_ACCOUNTS.map((from) => promoRouteBetweenAgents(from, 'agent:promo')),
      ...PROMO_PAYING_ACCOUNTS.map((from) => routeWithinAgent(from, 'grants:promo')),
    ],
  },
  pass: {
    description: 'The price of a task pass that is bought.',
    routes: [routeWithinAgent('agent:cash', 'pass'), routeWithinAgent('agent:promo', 'pass:promo')],
  },
  pass_back: {
    description: 'The price of a call that has failed after its task pass has expired.',
    routes: [routeWithinAgent('pass', 'agent:cash'), routeWithinAgent('pass:promo', 'agent:promo')],
  },
  breakage: {
    description: 'What is left of a task pass at its end.',
    routes: [
      routeWithinAgent('pass', 'platform:tools'),
      routeWithinAgent('pass:promo', 'platform:tools'),
    ],
  },
  send: { description: 'Credits that an agent sends to another.', routes: AGENT_TO_AGENT_ROUTES },
  tip: { description: 'A tip, without its fee.', routes: AGENT_TO_AGENT_ROUTES },
  tip_fee: {
    description: 'The fee of a tip.',
    routes: [
      routeWithinAgent('agent:cash', 'treasury:fees'),
      routeWithinAgent('agent:promo', 'treasury:fees'),
    ],
  },
  escrow: {
    description: 'The reward of a bounty that is posted.',
    routes: [
      routeBetweenAgents('agent:cash', 'bounty'),
      promoRouteBetweenAgents('agent:promo', 'bounty:promo'),
    ],
  },
  bounty: { description: 'The reward of a bounty to its claimer.', routes: ESCROW_RELEASE_ROUTES },
  escrow_back: {
    description: 'The reward of a bounty back to its poster.',
    routes: ESCROW_RELEASE_ROUTES,
  },
  sale: {
    description: 'The price of a listing of the marketplace, without the fee.',
    routes: AGENT_TO_AGENT_ROUTES,
  },
  sale_fee: {
    description: 'The fee of a sale.',
    routes: [
      routeWithinAgent('agent:cash', 'treasury:fees'),
      routeWithinAgent('agent:promo', 'treasury:fees'),
    ],
  },
  payout: {
    description: 'The payout of the shares of a referrer, and of the creator of agents.',
    routes: [
      routeBetweenAgents('referral', 'agent:cash'),
      routeBetweenAgents('referral:promo', 'agent:promo'),
    ],
  },
  royalty_feed: {
    description: 'A quarter of the fees, for reads of the Hive.',
    routes: [
      routeWithinAgent('treasury:fees', 'royalty:pool'),
      promoRouteBetweenAgents('treasury:fees', 'royalty:pool:promo'),
      routeWithinAgent('treasury:fees', 'grants:promo'),
    ],
  },
  royalty: {
    description: 'The royalty of an author for reads of a Hive entry.',
    routes: [
      routeBetweenAgents('royalty:pool', 'agent:cash'),
      routeBetweenAgents('royalty:pool:promo', 'agent:promo'),
    ],
  },
}

const OWNED_CLASSES: ReadonlySet<string> = new Set(['agent', 'fleet', 'bounty', 'referral', 'pass'])
const CHAIN_CLASSES: ReadonlySet<string> = new Set(['world', 'owed'])

/** The account without its owner or chain: `agent:<id>:cash` is of the class `agent:cash`. */
function accountClassOf(account: string): string {
  const end = account.indexOf(':')
  if (end < 0) return account
  const name = account.slice(0, end)
  if (CHAIN_CLASSES.has(name)) return end + 1 < account.length ? name : account
  if (!OWNED_CLASSES.has(name)) return account
  const ownerEnd = account.indexOf(':', end + 1)
  if (ownerEnd === end + 1 || end + 1 === account.length) return account
  return ownerEnd < 0 ? name : name + account.slice(ownerEnd)
}

const crossings: ReadonlyMap<string, LedgerMovementAgentCrossing> = new Map(
  Object.entries(LEDGER_MOVEMENT_RULES).flatMap(([kind, { routes }]) =>
    routes.map(({ from, to, crosses }) => [`${kind} ${from} ${to}` as string, crosses] as const),
  ),
)

/** Whether a movement moves promotional credits between agents. */
export const movesPromoBetweenAgents = ({ kind, debit, credit }: LedgerTransfer): boolean =>
  crossings.get(`${kind} ${accountClassOf(debit)} ${accountClassOf(credit)}`) === 'switch'

/**
 * Throws for a movement that is not in `LEDGER_MOVEMENT_RULES` or lacks its permission. That is a
 * bug, and nothing of the command is committed.
 */
export function assertLedgerMovementPermitted(transfer: LedgerTransfer): void {
  const { kind, debit, credit, promoAllowed = false } = transfer
  const crosses = crossings.get(`${kind} ${accountClassOf(debit)} ${accountClassOf(credit)}`)
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
