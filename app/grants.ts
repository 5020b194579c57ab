import { userInfo } from 'node:os'
import { systemClock } from '../core/clock.ts'
import { isUuid, newId } from '../core/ids.ts'
import { formatUsdc, fromUsdc, ZERO, type Micros } from '../core/money.ts'
import { LARGEST_BUDGET } from '../core/prices.ts'
import { grantGive } from '../payments/commands/grant.ts'
import { isTaken } from '../persistence/fleets.ts'
import { grantStore, type Grant } from '../persistence/grants.ts'
import type { Sql } from '../persistence/plane.ts'
import { profileStore } from '../persistence/profiles.ts'
import { asNode } from './errand.ts'

const print = (text: string) => void process.stdout.write(`${text}\n`)
const MAX_NOTE_CHARS = 500
const AMOUNT = /^\d{1,7}(\.\d{1,6})?$/

/** What `gas grant` is asked for, as it was typed. */
export interface GrantWords {
  readonly agentId: string
  readonly usdc: string
  readonly note: string
  /** Names the grant: repeated with the same id, it is given once. */
  readonly id: string | null
}

type Wanted = Pick<Grant, 'grantId' | 'agentId' | 'amount' | 'note'>

/** Reads the words of a grant; a text says what is wrong with them. */
export function readGrant({ agentId, usdc, note, id }: GrantWords): Wanted | string {
  const amount = AMOUNT.test(usdc) ? fromUsdc(Number(usdc)) : ZERO
  if (amount === ZERO || amount > LARGEST_BUDGET)
    return `${usdc} must be an amount in USDC above 0 and up to ${formatUsdc(LARGEST_BUDGET)}, with at most six decimals`
  if (note.trim() === '' || note.length > MAX_NOTE_CHARS)
    return `--note must say why, in at most ${MAX_NOTE_CHARS} characters`
  if (!isUuid(agentId)) return `${agentId} must be the id of an agent`
  if (id !== null && !isUuid(id)) return `--id ${id} must be a UUID`
  const grantId = (id ?? newId(systemClock().now())).toLowerCase()
  return { grantId, agentId: agentId.toLowerCase(), amount, note }
}

/**
 * Gives an agent promotional credits, straight in the database like every command of the operator; a
 * running station sees them at once. Resolves to the exit code.
 */
export async function giveGrant(sql: Sql, wanted: Wanted): Promise<number> {
  const { grantId, agentId, amount, note } = wanted
  const store = grantStore(sql)
  const before = await store.find(grantId)
  if (before !== null) return repeated(before, wanted)
  if (!(await profileStore(sql).has(agentId))) return no(`there is no agent ${agentId}`)
  const grant = { grantId, amount, note, grantedBy: `gas grant (${userName()})` }
  try {
    const { balance } = await asNode(sql, ({ ask }) => ask(agentId, grantGive, grant))
    print(`granted ${shown(amount)} promotional USDC to ${agentId}: it has ${shown(balance)} now`)
    print(`grant ${grantId}`)
    return 0
  } catch (error) {
    // The same grant was given meanwhile.
    const given = isTaken(error, 'operator_grants') ? await store.find(grantId) : null
    if (given === null) throw error
    return repeated(given, wanted)
  }
}

function repeated(given: Grant, wanted: Wanted): number {
  const { grantId, agentId, amount, note } = given
  const same = agentId === wanted.agentId && amount === wanted.amount && note === wanted.note
  if (!same)
    return no(`${grantId} was given before: ${shown(amount)} USDC to ${agentId}, "${note}"`)
  print(
    `given before, at ${given.at.toISOString()}: ${shown(amount)} promotional USDC to ${agentId}`,
  )
  print(`grant ${grantId}`)
  return 0
}

const shown = (amount: Micros): string => formatUsdc(amount)

function no(why: string): number {
  console.error(`gas grant: ${why}`)
  return 1
}

/** A user of a container may have no name. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return 'no name'
  }
}
