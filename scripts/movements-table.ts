import { MOVEMENTS, type AccountClass, type Way } from '../core/movements.ts'
import { keepPart, table } from './generated.ts'

const CROSSES = { no: 'no', yes: 'yes', switch: '`PROMO_TRANSFERABLE`' } as const
const isPromo = (account: AccountClass) => account.endsWith(':promo')

/** The accounts that lead to the same ones, in one row. */
function joined(
  ways: readonly Way[],
): readonly { from: string; to: string; ways: readonly Way[] }[] {
  const groups = new Map<string, Way[]>()
  for (const way of ways) {
    const key = `${way.to} ${way.crosses} ${isPromo(way.from)}`
    groups.set(key, [...(groups.get(key) ?? []), way])
  }
  return [...groups.values()].map((same) => ({
    from: same.map(({ from }) => `\`${from}\``).join(', '),
    to: `\`${(same[0] as Way).to}\``,
    ways: same,
  }))
}

function kindOf({ from, to }: Way): string {
  if (isPromo(from)) return 'promotional'
  return isPromo(to) ? 'promotional' : 'cash'
}

const rows = Object.entries(MOVEMENTS).flatMap(([kind, { says, ways }]) =>
  joined(ways).map(({ from, to, ways: [first] }, at) => [
    at === 0 ? `\`${kind}\`` : '',
    at === 0 ? says : '',
    from,
    to,
    kindOf(first as Way),
    CROSSES[(first as Way).crosses],
  ]),
)

keepPart(
  'docs/credits.md',
  'movements',
  table(['Kind', 'What moves', 'From', 'To', 'Credits', 'To another agent'], rows),
)
