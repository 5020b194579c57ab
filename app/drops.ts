import { newName } from '../core/ids.ts'
import { dropGet, dropOpen, type DropView } from '../payments/commands/drop.ts'
import { dropStore } from '../persistence/drops.ts'
import type { Sql } from '../persistence/plane.ts'
import { asNode } from './errand.ts'

const SHOWN = 10
const CODE_CHARACTERS = 12

/** Opens a radio drop, straight in the database like every command of the operator. */
export const openDrop = (sql: Sql): Promise<DropView[]> =>
  asNode(sql, async ({ ask }) => [await ask(newCode(), dropOpen, {}, { fresh: true })])

/** The latest drops with what is left of them. */
export const listDrops = (sql: Sql): Promise<DropView[]> =>
  asNode(sql, async ({ ask }) => {
    const drops = await dropStore(sql).latest(SHOWN)
    return Promise.all(drops.map(({ code }) => ask(code, dropGet, {})))
  })

/** `RADIODROP-<code>`, in characters that survive being read out. */
const newCode = (): string =>
  newName('RADIODROP')
    .toUpperCase()
    .replace('_', '-')
    .slice(0, 'RADIODROP-'.length + CODE_CHARACTERS)
