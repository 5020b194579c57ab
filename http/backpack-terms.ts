import { Type, type Static } from 'typebox'
import type { BackpackView } from '../actors/commands/backpacks.ts'
import { PERMISSIONS, SPENDING_PERMISSIONS } from '../core/backpack-permissions.ts'
import { invalid, type ServiceError } from '../core/errors.ts'
import { fromUsdc, type Micros } from '../core/money.ts'
import { nearest } from '../core/near.ts'
import { SAID } from '../core/said.ts'
import { Amount, Nullable } from './schemas.ts'
import type { Services } from './services.ts'

/** What the limits of a Backpack are, in requests that create one or change it. */
type Fuse = BackpackView['fuse']
type Pager = BackpackView['pager']

const LONGEST_DAYS = 3_650
const OptionalAmount = (description: string) => Type.Optional(Nullable(Amount(description)))

/** The fuse of a request. */
export const FuseInput = Type.Object(
  {
    per_call_usdc: OptionalAmount('The most one call may cost'),
    per_day_usdc: OptionalAmount('The most a UTC day may cost'),
    per_month_usdc: OptionalAmount('The most a UTC month may cost'),
  },
  { additionalProperties: false, description: 'Null lifts a limit, an absent one stays as it is.' },
)
/** Describes a list of tools. */
export const TOOLS_DESCRIPTION = `Tools by their slugs, and what else may cost: ${PERMISSIONS.join(', ')}. Null: every tool; ${SPENDING_PERMISSIONS.join(', ')} have to be named, and packs count as \`purchase\`.`

/** The list of tools of a request. */
export const Tools = Nullable(
  Type.Array(Type.String({ minLength: 1, maxLength: 64, pattern: SAID }), {
    maxItems: 200,
    uniqueItems: true,
  }),
)
/** The days until a Backpack expires. */
export const ExpiryDays = Type.Integer({ minimum: 1, maximum: LONGEST_DAYS })

/** A fuse that limits nothing. */
export const UNLIMITED: Fuse = { perCall: null, perDay: null, perMonth: null }

/** A pager that tells nobody. */
export const NOBODY: Pager = { webhookUrl: null, ownerEmail: null, ownerTelegram: null }

/** The limits that were given; null lifts one. Amounts are refused under `pointer`. */
export function fuseOf(input: Static<typeof FuseInput>, pointer = '/fuse'): Partial<Fuse> {
  const limit = (name: keyof typeof input): { amount: Micros | null } | undefined => {
    const usdc = input[name]
    if (usdc === undefined) return undefined
    return { amount: usdc === null ? null : fromUsdc(usdc, `${pointer}/${name}`) }
  }
  const [call, day, month] = [
    limit('per_call_usdc'),
    limit('per_day_usdc'),
    limit('per_month_usdc'),
  ]
  return {
    ...(call === undefined ? {} : { perCall: call.amount }),
    ...(day === undefined ? {} : { perDay: day.amount }),
    ...(month === undefined ? {} : { perMonth: month.amount }),
  }
}

/**
 * The slugs as the catalogue spells them, and the permissions to spend. Rejects a name that is neither
 * (400, with `did_you_mean`): it would silently allow nothing.
 */
export function knownTools(
  { catalogue }: Pick<Services, 'catalogue'>,
  tools: readonly string[] | null,
  pointer = '/tools',
): string[] | null {
  if (tools === null) return null
  const slugs = tools.map((name, at) => {
    if (PERMISSIONS.includes(name)) return name
    const tool = catalogue.find(name)
    if (tool !== undefined) return tool.slug
    throw unknownTool(`${pointer}/${at}`, name, nearest(name, PERMISSIONS) ?? catalogue.meant(name))
  })
  return [...new Set(slugs)]
}

function unknownTool(pointer: string, name: string, meant: string | null): ServiceError {
  if (meant === null) return invalid(pointer, `names no tool: ${name}`)
  const refusal = invalid(pointer, `names no tool: ${name}; did you mean ${meant}?`)
  refusal.details['did_you_mean'] = meant
  return refusal
}
