import { newPrefixedId } from '../../../core/ids-and-api-keys.ts'
import {
  getCreditDropCommand,
  openCreditDropCommand,
  type CreditDropView,
} from '../../../payments/commands/credit-drop-commands.ts'
import { createCreditDropStore } from '../../../persistence/payments/credit-drop-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { withCliActorRuntime } from './temporary-actor-runtime-for-cli.ts'

/** The `gas drop` command. */

const SHOWN = 10
const CODE_CHARACTERS = 12

/** Opens a radio drop, directly in the database. */
export const openCreditDrop = (sql: Sql): Promise<CreditDropView[]> =>
  withCliActorRuntime(sql, async ({ ask }) => [
    await ask(newCode(), openCreditDropCommand, {}, { fresh: true }),
  ])

/** Returns the latest drops with their free slots. */
export const listCreditDrops = (sql: Sql): Promise<CreditDropView[]> =>
  withCliActorRuntime(sql, async ({ ask }) => {
    const drops = await createCreditDropStore(sql).latest(SHOWN)
    return Promise.all(drops.map(({ code }) => ask(code, getCreditDropCommand, {})))
  })

/** `RADIODROP-<code>` in upper case, which is easy to read out. */
const newCode = (): string =>
  newPrefixedId('RADIODROP')
    .toUpperCase()
    .replace('_', '-')
    .slice(0, 'RADIODROP-'.length + CODE_CHARACTERS)
