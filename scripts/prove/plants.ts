import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../root.ts'
import { BUILT } from './station.ts'

interface Plant {
  readonly says: string
  readonly file: string
  readonly from: string
  readonly to: string
}

/** Bugs for a copy of the service: a proof that stays green with one of them proves nothing. */
export const plants: Readonly<Record<string, Plant>> = {
  version: {
    says: 'the commit does not compare versions',
    file: 'persistence/migrations/0001-core.sql',
    from: 'where a.version is distinct from o',
    to: 'where a.version is null',
  },
  greedy: {
    says: 'a balance never lets its last call through',
    file: 'machines/agent.js',
    from: 'free(purse) - reserved >= amount',
    to: 'free(purse) - reserved > amount',
  },
  budget: {
    says: 'a task does not look at its budget when it is charged',
    file: 'machines/task-session.js',
    from: 'return fits(context, event.amount, ZERO);',
    to: 'return true;',
  },
  gate: {
    says: 'replies leave before COMMIT',
    file: 'actors/runtime.js',
    from: 'state.version = oldVersion + 1;',
    to: 'state.version = oldVersion + 1; settle(job, job.answer);',
  },
  keys: {
    says: 'an Idempotency-Key is not looked up',
    file: 'persistence/call-log.js',
    from: 'return row === undefined ? null : fromAnswer(row);',
    to: 'return null;',
  },
  unclaimed: {
    says: 'a call runs without a claim on its payment',
    file: 'calls/paid.js',
    from: 'await paying.claim(payment, door, buyer, offer)',
    to: '{ payment, ref: paying.refOf(payment), tx: null }',
  },
  hasty: {
    says: 'a payment is given up as soon as nobody knows what became of it',
    file: 'payments/settle-evm.js',
    from: "work.money === 'lost' ? 'later' : pursue(work, terms)",
    to: "work.money === 'lost' ? 'later' : giveUp(work, null)",
  },
}

/** A copy of the built service with one of the bugs; the folder of it. */
export function planted(name: string): string {
  const plant = plants[name]
  if (plant === undefined) throw new Error(`no bug ${name}: ${Object.keys(plants).join(', ')}`)
  const home = join(ROOT, '.cache/planted')
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  cpSync(BUILT, home, { recursive: true })
  for (const path of ['package.json', 'persistence/migrations']) {
    cpSync(join(ROOT, path), join(home, path), { recursive: true })
  }
  const file = join(home, plant.file)
  const text = readFileSync(file, 'utf8')
  if (text.split(plant.from).length !== 2)
    throw new Error(`${plant.file} has no single place for the bug ${name}`)
  writeFileSync(file, text.replace(plant.from, plant.to))
  return home
}
