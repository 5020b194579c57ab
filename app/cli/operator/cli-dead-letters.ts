import { isUuid } from '../../../core/ids-and-api-keys.ts'
import {
  createDeadLetterStore,
  type DeadLetteredWork,
} from '../../../persistence/dead-letter-store.ts'
import { requeueWebhookDelivery } from '../../../persistence/webhooks/webhook-delivery-store.ts'
import { requeueOutboxEvent } from '../../../persistence/webhooks/outbox-event-routing-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'

/** The `gas dlq` command. */

const print = (text: string) => void process.stdout.write(`${text}\n`)

/** Dead letters of all kinds, with the functions that replay them. */
export const createOperatorDeadLetterStore = (sql: Sql) =>
  createDeadLetterStore(sql, { webhook: requeueWebhookDelivery, fact: requeueOutboxEvent })

/** Lists dead letters that were not replayed, newest first. */
export async function listDeadLetters(sql: Sql, asJson: boolean): Promise<number> {
  const letters = await createOperatorDeadLetterStore(sql).list()
  if (asJson) print(JSON.stringify(letters))
  else if (letters.length === 0) print('no dead letters')
  else letters.forEach((letter) => print(formatDeadLetter(letter)))
  return 0
}

const formatDeadLetter = ({ id, at, kind, key, reason }: DeadLetteredWork): string =>
  `${id}  ${at.toISOString()}  ${kind}  ${key}  ${reason.replace(/\s+/g, ' ')}`

/** Replays a dead letter. Returns the exit code. */
export async function replayDeadLetter(sql: Sql, id: string): Promise<number> {
  const letter = isUuid(id) ? await createOperatorDeadLetterStore(sql).replay(id) : null
  print(letter === null ? 'no such dead letter, or replayed before' : `due again: ${letter.key}`)
  return letter === null ? 1 : 0
}
