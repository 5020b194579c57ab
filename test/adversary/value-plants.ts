import type { Edit, Plant } from './plant.ts'

/** Parts of a price that are another agent's are cash, whatever the price was paid with. */
const AS_CASH: readonly Edit[] = [
  {
    file: 'payments/shares.ts',
    from: "const nature = isPromo(account) ? 'promo' : 'cash'",
    to: "const nature = 'cash' as keyof Purse",
  },
  // The list of movements is younger than the bug, and would refuse it.
  { file: 'actors/turn.ts', from: 'assertMovement(transfer)', to: '' },
]

/** Promotional credits that reach others, or become cash. */
export const valuePlants: Readonly<Record<string, Plant>> = {
  bulk: {
    says: 'all agents of a batch begin with starter credits',
    edits: [
      {
        file: 'payments/accounts.ts',
        from: 'const given = startersFrom === null ? starter : ZERO',
        to: 'const given = starter',
      },
    ],
    rules: ['starter-credits'],
    profile: { onboardBulk: 1 },
    operations: 16,
  },
  reward: {
    says: 'bounties take promotional credits, which their claimers keep',
    edits: [
      {
        file: 'payments/commands/bounty.ts',
        from: "from: promoTransferable ? 'any' : 'cash'",
        to: "from: 'any'",
      },
      {
        file: 'payments/commands/bounty.ts',
        from: "kind: 'escrow', promoAllowed: promoTransferable",
        to: "kind: 'escrow', promoAllowed: true",
      },
    ],
    rules: ['promo-received'],
    profile: { postBounty: 1, claimBounty: 1 },
    operations: 60,
    depositors: 0,
  },
  percent: {
    says: 'a referrer is paid cash for what its agents pay with starter credits',
    edits: [
      {
        file: 'payments/shares.ts',
        from: 'agent.activated ? agent.referrer : null',
        to: 'agent.referrer',
      },
      ...AS_CASH,
    ],
    rules: ['promo-became-cash'],
    profile: { createReferral: 1, onboardReferred: 2 },
    operations: 120,
    depositors: 0,
  },
  royalty: {
    says: 'the author of a strategy is paid cash for forks that were paid with starter credits',
    edits: AS_CASH,
    rules: ['promo-became-cash'],
    profile: { publishStrategy: 1, forkStrategy: 3 },
    operations: 60,
    depositors: 0,
  },
}
