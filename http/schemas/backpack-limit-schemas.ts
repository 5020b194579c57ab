import { Type, type Static } from 'typebox'
import {
  REMOVABLE_BACKPACK_LIMITS,
  type BackpackLimitName,
  type BackpackView,
} from '../../actors/commands/backpacks-commands.ts'
import {
  BACKPACK_NON_TOOL_PERMISSIONS,
  EXPLICIT_BACKPACK_SPENDING_PERMISSIONS,
} from '../../domain/backpack-spending-permissions.ts'
import { invalidInputError, type ServiceError } from '../../core/errors.ts'
import { fromUsdc, type Micros } from '../../core/money.ts'
import { findClosestWord } from '../../core/validation/did-you-mean.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { RequestUsdcAmountSchema, Nullable } from './shared-schemas.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'

/** Schemas and parsers for the limits of a Backpack. */

/** The limits of a Backpack, as requests that create or change one give them. */
type Fuse = BackpackView['fuse']
type Pager = BackpackView['pager']

const MAX_EXPIRY_DAYS = 3_650
const OptionalAmount = (description: string) =>
  Type.Optional(Nullable(RequestUsdcAmountSchema(description)))

/** The fuse in a request. */
export const FuseLimitsSchema = Type.Object(
  {
    per_call_usdc: OptionalAmount('The most one call may cost'),
    per_day_usdc: OptionalAmount('The most a UTC day may cost'),
    per_month_usdc: OptionalAmount('The most a UTC month may cost'),
  },
  {
    additionalProperties: false,
    description:
      'Null: no limit. In a change an absent limit stays, and one that is set is removed only by `remove`.',
  },
)
/** Description of a tool list. */
export const BACKPACK_TOOL_LIST_DESCRIPTION = `Tools by their slugs, and what else may cost: ${BACKPACK_NON_TOOL_PERMISSIONS.join(', ')}. Null: every tool; ${EXPLICIT_BACKPACK_SPENDING_PERMISSIONS.join(', ')} have to be named, and packs count as \`purchase\`.`

/** The tool list in a request. */
export const BackpackToolListSchema = Nullable(
  Type.Array(Type.String({ minLength: 1, maxLength: 64, pattern: NOT_BLANK_PATTERN }), {
    maxItems: 200,
    uniqueItems: true,
  }),
)
/** The limits that a change removes (decision 430). */
export const RemovedLimitsSchema = Type.Array(Type.Enum([...REMOVABLE_BACKPACK_LIMITS]), {
  minItems: 1,
  uniqueItems: true,
  description:
    'The limits to remove, by name. Null for one that is set and not named here is 409 `limit_not_named`.',
})
/** Days until a Backpack expires. */
export const BackpackExpiryDaysSchema = Type.Integer({ minimum: 1, maximum: MAX_EXPIRY_DAYS })

/** A fuse without limits. */
export const UNLIMITED_FUSE: Fuse = { perCall: null, perDay: null, perMonth: null }

/** A pager without channels. */
export const BACKPACK_PAGER_WITHOUT_CHANNELS: Pager = {
  webhookUrl: null,
  ownerEmail: null,
  ownerTelegram: null,
}

/** Returns the given limits; null lifts one. Throws `invalid_input` at `pointer`. */
export function toFuseLimits(
  input: Static<typeof FuseLimitsSchema>,
  pointer = '/fuse',
): Partial<Fuse> {
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

/** Throws 400 for a limit that one change both sets and removes. */
export function assertNotSetAndRemoved(
  remove: readonly BackpackLimitName[],
  { tools, fuse = {} }: { tools?: unknown; fuse?: Static<typeof FuseLimitsSchema> },
): void {
  const set: Readonly<Record<string, unknown>> = { ...fuse, tools }
  const both = remove.find((name) => (set[name] ?? null) !== null)
  if (both !== undefined) throw invalidInputError('/remove', `names ${both}, which is set as well`)
}

/**
 * Returns slugs as the catalogue spells them, and spending permissions. Throws 400 with `did_you_mean` for a
 * name that is neither: it would allow nothing.
 */
export function resolveBackpackToolList(
  { catalogue }: Pick<HttpServices, 'catalogue'>,
  tools: readonly string[] | null,
  pointer = '/tools',
): string[] | null {
  if (tools === null) return null
  const slugs = tools.map((name, at) => {
    if (BACKPACK_NON_TOOL_PERMISSIONS.includes(name)) return name
    const tool = catalogue.find(name)
    if (tool !== undefined) return tool.slug
    throw unknownToolError(
      `${pointer}/${at}`,
      name,
      findClosestWord(name, BACKPACK_NON_TOOL_PERMISSIONS) ?? catalogue.suggestSlug(name),
    )
  })
  return [...new Set(slugs)]
}

function unknownToolError(pointer: string, name: string, meant: string | null): ServiceError {
  if (meant === null) return invalidInputError(pointer, `names no tool: ${name}`)
  const refusal = invalidInputError(pointer, `names no tool: ${name}; did you mean ${meant}?`)
  refusal.details['did_you_mean'] = meant
  return refusal
}
