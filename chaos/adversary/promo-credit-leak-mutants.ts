import type { SourceEdit, ServiceMutant } from './service-mutant.ts'

/** Mutations that move promotional credits to others or turn them into cash. */

/** Pays other agents' shares of a price in cash, even when promotional credits paid the price. */
const SHARES_AS_CASH: readonly SourceEdit[] = [
  {
    file: 'payments/price-split.ts',
    from: "const nature = isPromoAccount(account) ? 'promo' : 'cash'",
    to: "const nature = 'cash' as keyof PromoCashAmounts",
  },
  // The movement rules would reject this bug, so the mutation removes the check.
  { file: 'actors/command-context.ts', from: 'assertLedgerMovementPermitted(transfer)', to: '' },
]

/** Community tools take promotional credits where these cannot reach other agents. */
const PROMO_FOR_TOOLS: SourceEdit = {
  file: 'tools/community/callable-community-tool.ts',
  from: '!(record.acceptsPromo && deps.promoTransferable)',
  to: '!record.acceptsPromo',
}

/** One in ten calls is bought: others are dear, unproven, one's own, fail, or find no credits. */
const TOOL_TRADES = 240

/** Promotional credits that reach others or become cash. */
export const promoCreditLeakMutants: Readonly<Record<string, ServiceMutant>> = {
  bulk: {
    description: 'all agents of a batch get starter credits',
    edits: [
      {
        file: 'payments/agent-onboarding.ts',
        from: 'const given = startersFrom === null ? starter : ZERO_MICROS',
        to: 'const given = starter',
      },
    ],
    rules: ['starter-credits'],
    operationWeights: { onboardBulk: 1 },
    operations: 16,
  },
  reward: {
    description: 'bounties pay promotional credits to their claimers',
    edits: [
      {
        file: 'payments/commands/bounty-commands.ts',
        from: "from: promoTransferable ? 'any' : 'cash'",
        to: "from: 'any'",
      },
      {
        file: 'payments/commands/bounty-commands.ts',
        from: "kind: 'escrow',\n      promoAllowed: promoTransferable",
        to: "kind: 'escrow',\n      promoAllowed: true",
      },
    ],
    rules: ['promo-received'],
    operationWeights: { postBounty: 1, claimBounty: 1 },
    operations: 60,
    depositors: 0,
  },
  listing: {
    description: 'a listing takes promotional credits although they cannot reach other agents',
    edits: [
      {
        file: 'payments/commands/memory-listing-commands.ts',
        from: 'const promoAllowed = listing.acceptsPromo && promoTransferable',
        to: 'const promoAllowed = listing.acceptsPromo',
      },
    ],
    rules: ['promo-received'],
    operationWeights: { writeVault: 1, sellMemory: 1, buyListing: 2 },
    operations: 80,
    depositors: 0,
  },
  sale: {
    description: 'a seller gets promotional credits as cash',
    edits: [
      {
        file: 'payments/commands/memory-listing-commands.ts',
        from: 'const promoAllowed = listing.acceptsPromo && promoTransferable',
        to: 'const promoAllowed = listing.acceptsPromo',
      },
      {
        file: 'payments/commands/memory-listing-commands.ts',
        from: 'promo: [agentPromoAccount(buyerId), agentPromoAccount(sellerId)],',
        to: 'promo: [agentPromoAccount(buyerId), agentCashAccount(sellerId)],',
      },
      {
        file: 'actors/command-context.ts',
        from: 'assertLedgerMovementPermitted(transfer)',
        to: '',
      },
    ],
    rules: ['promo-became-cash'],
    operationWeights: { writeVault: 1, sellMemory: 1, buyListing: 2 },
    operations: 80,
    depositors: 0,
  },
  tool: {
    description:
      'a community tool takes promotional credits although they cannot reach other agents',
    edits: [PROMO_FOR_TOOLS],
    // The split of the price gives such a share back to the grants, so its builder works for nothing.
    rules: ['verify'],
    operationWeights: { registerTool: 1, invokeTool: 5 },
    operations: TOOL_TRADES,
    depositors: 0,
  },
  builder: {
    description: 'a builder is paid cash for calls that were paid with starter credits',
    edits: [PROMO_FOR_TOOLS, ...SHARES_AS_CASH],
    rules: ['promo-became-cash'],
    operationWeights: { registerTool: 1, invokeTool: 5 },
    operations: TOOL_TRADES,
    depositors: 0,
  },
  percent: {
    description: 'a referrer is paid cash for calls paid with starter credits',
    edits: [
      {
        file: 'payments/price-split.ts',
        from: 'agent.activated ? agent.referrer : null',
        to: 'agent.referrer',
      },
      ...SHARES_AS_CASH,
    ],
    rules: ['promo-became-cash'],
    operationWeights: { createReferral: 1, onboardReferred: 2 },
    operations: 120,
    depositors: 0,
  },
  royalty: {
    description:
      'the author of a strategy is paid cash for forks that were paid with starter credits',
    edits: SHARES_AS_CASH,
    rules: ['promo-became-cash'],
    operationWeights: { publishStrategy: 1, forkStrategy: 3 },
    operations: 60,
    depositors: 0,
  },
}
