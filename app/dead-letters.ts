import { isUuid } from '../core/ids.ts'
import { deadLetters, type DeadLetter } from '../persistence/dead-letters.ts'
import { reviveDelivery } from '../persistence/deliveries.ts'
import { reviveFact } from '../persistence/fan-out.ts'
import type { Sql } from '../persistence/plane.ts'

const print = (text: string) => void process.stdout.write(`${text}\n`)

/** The dead letters of every kind of work; whoever replays one has to know them all. */
export const allLetters = (sql: Sql) =>
  deadLetters(sql, { webhook: reviveDelivery, fact: reviveFact })

/** Shows what failed for good and was not replayed, newest first. */
export async function listLetters(sql: Sql, asJson: boolean): Promise<number> {
  const letters = await allLetters(sql).list()
  if (asJson) print(JSON.stringify(letters))
  else if (letters.length === 0) print('no dead letters')
  else letters.forEach((letter) => print(lineOf(letter)))
  return 0
}

const lineOf = ({ id, at, kind, key, reason }: DeadLetter): string =>
  `${id}  ${at.toISOString()}  ${kind}  ${key}  ${reason.replace(/\s+/g, ' ')}`

/** Makes the work of one letter due again. */
export async function replayLetter(sql: Sql, id: string): Promise<number> {
  const letter = isUuid(id) ? await allLetters(sql).replay(id) : null
  print(letter === null ? 'no such dead letter, or replayed before' : `due again: ${letter.key}`)
  return letter === null ? 1 : 0
}
