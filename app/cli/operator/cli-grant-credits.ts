import { userInfo } from 'node:os'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { isUuid, newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { formatUsdc, fromUsdc, ZERO_MICROS, type Micros } from '../../../core/money.ts'
import { readTypedAmount } from '../../../core/typed-amount.ts'
import { MAX_CREDIT_AMOUNT } from '../../../domain/pricing.ts'
import { giveOperatorCreditGrantCommand } from '../../../payments/commands/operator-credit-grant-commands.ts'
import { isUniqueViolation } from '../../../persistence/fleets/fleet-store.ts'
import {
  createOperatorCreditGrantStore,
  type OperatorCreditGrantRecord,
} from '../../../persistence/payments/operator-credit-grant-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createAgentProfileStore } from '../../../persistence/agents/agent-profile-store.ts'
import { withCliActorRuntime } from './temporary-actor-runtime-for-cli.ts'

/** The `gas grant` command. */

const print = (text: string) => void process.stdout.write(`${text}\n`)
const MAX_NOTE_CHARS = 500

/** Arguments of `gas grant`. */
export interface GrantArguments {
  readonly agentId: string
  readonly usdc: string
  readonly note: string
  /** Idempotency id: a grant with the same id is given once. */
  readonly id: string | null
}

type GrantRequest = Pick<OperatorCreditGrantRecord, 'grantId' | 'agentId' | 'amount' | 'note'>

/** Parses the arguments. Returns an error text if they are invalid. */
export function parseGrantArguments({
  agentId,
  usdc,
  note,
  id,
}: GrantArguments): GrantRequest | string {
  const read = readTypedAmount(usdc)
  if ('fault' in read) return `the amount ${usdc} ${read.fault}`
  const amount = fromUsdc(read.usdc)
  if (amount === ZERO_MICROS || amount > MAX_CREDIT_AMOUNT)
    return `${usdc} must be an amount in USDC above 0 and up to ${formatUsdc(MAX_CREDIT_AMOUNT)}, with at most six decimals`
  if (note.trim() === '' || note.length > MAX_NOTE_CHARS)
    return `--note must say why, in at most ${MAX_NOTE_CHARS} characters`
  if (!isUuid(agentId)) return `${agentId} must be the id of an agent`
  if (id !== null && !isUuid(id)) return `--id ${id} must be a UUID`
  const grantId = (id ?? newUuidV7(createDatabaseAdjustedClock().now())).toLowerCase()
  return { grantId, agentId: agentId.toLowerCase(), amount, note }
}

/**
 * Grants promotional credits directly in the database; a running station sees them at once. Returns
 * the exit code.
 */
export async function grantCredits(sql: Sql, wanted: GrantRequest): Promise<number> {
  const { grantId, agentId, amount, note } = wanted
  const store = createOperatorCreditGrantStore(sql)
  const before = await store.find(grantId)
  if (before !== null) return reportEarlierGrant(before, wanted)
  if (!(await createAgentProfileStore(sql).has(agentId)))
    return failGrant(`there is no agent ${agentId}`)
  const grant = { grantId, amount, note, grantedBy: `gas grant (${userName()})` }
  try {
    const { balance } = await withCliActorRuntime(sql, ({ ask }) =>
      ask(agentId, giveOperatorCreditGrantCommand, grant),
    )
    print(`granted ${shown(amount)} promotional USDC to ${agentId}: it has ${shown(balance)} now`)
    print(`grant ${grantId}`)
    return 0
  } catch (error) {
    // The same grant was given concurrently.
    const given = isUniqueViolation(error, 'operator_grants') ? await store.find(grantId) : null
    if (given === null) throw error
    return reportEarlierGrant(given, wanted)
  }
}

function reportEarlierGrant(given: OperatorCreditGrantRecord, wanted: GrantRequest): number {
  const { grantId, agentId, amount, note } = given
  const same = agentId === wanted.agentId && amount === wanted.amount && note === wanted.note
  if (!same)
    return failGrant(`${grantId} was given before: ${shown(amount)} USDC to ${agentId}, "${note}"`)
  print(
    `given before, at ${given.at.toISOString()}: ${shown(amount)} promotional USDC to ${agentId}`,
  )
  print(`grant ${grantId}`)
  return 0
}

const shown = (amount: Micros): string => formatUsdc(amount)

function failGrant(why: string): number {
  console.error(`gas grant: ${why}`)
  return 1
}

/** The user of a container may have no name. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return 'no name'
  }
}
