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
  { file: 'actors/command-context.ts', from: 'assertLedgerMovement(transfer)', to: '' },
]

/** Promotional credits that reach others or become cash. */
export const promoCreditLeakMutants: Readonly<Record<string, ServiceMutant>> = {
  bulk: {
    description: 'all agents of a batch begin with starter credits',
    edits: [
      {
        file: 'payments/agent-onboarding.ts',
        from: 'const given = startersFrom === null ? starter : ZERO',
        to: 'const given = starter',
      },
    ],
    rules: ['starter-credits'],
    operationWeights: { onboardBulk: 1 },
    operations: 16,
  },
  reward: {
    description: 'bounties take promotional credits, which their claimers keep',
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
  percent: {
    description: 'a referrer is paid cash for what its agents pay with starter credits',
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
