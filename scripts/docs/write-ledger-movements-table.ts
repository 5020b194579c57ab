import {
  LEDGER_MOVEMENT_RULES,
  type LedgerAccountKind,
  type LedgerMovementRoute,
} from '../../domain/ledger-movements.ts'
import { writeGeneratedSection, markdownTable } from './write-generated-docs.ts'

/** Writes the table of permitted ledger movements. */

const TRANSFERABLE_LABELS = { no: 'no', yes: 'yes', switch: '`PROMO_TRANSFERABLE`' } as const
const isPromo = (account: LedgerAccountKind) => account.endsWith(':promo')

/** Groups source accounts with the same targets into one row. */
function groupMovements(
  ways: readonly LedgerMovementRoute[],
): readonly { from: string; to: string; ways: readonly LedgerMovementRoute[] }[] {
  const groups = new Map<string, LedgerMovementRoute[]>()
  for (const way of ways) {
    const key = `${way.to} ${way.crosses} ${isPromo(way.from)}`
    groups.set(key, [...(groups.get(key) ?? []), way])
  }
  return [...groups.values()].map((same) => ({
    from: same.map(({ from }) => `\`${from}\``).join(', '),
    to: `\`${(same[0] as LedgerMovementRoute).to}\``,
    ways: same,
  }))
}

function creditKindOf({ from, to }: LedgerMovementRoute): string {
  if (isPromo(from)) return 'promotional'
  return isPromo(to) ? 'promotional' : 'cash'
}

const rows = Object.entries(LEDGER_MOVEMENT_RULES).flatMap(([kind, { description, routes }]) =>
  groupMovements(routes).map(({ from, to, ways: [first] }, at) => [
    at === 0 ? `\`${kind}\`` : '',
    at === 0 ? description : '',
    from,
    to,
    creditKindOf(first as LedgerMovementRoute),
    TRANSFERABLE_LABELS[(first as LedgerMovementRoute).crosses],
  ]),
)

writeGeneratedSection(
  'docs/credits.md',
  'movements',
  markdownTable(['Kind', 'Movement', 'From', 'To', 'Credits', 'To another agent'], rows),
)
