import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Edit } from '../../test/adversary/plant.ts'
import { buildEdits } from '../../test/adversary/planting.ts'
import { ROOT } from '../root.ts'
import { BUILT } from './station.ts'

/** How often each part of the proof runs; 0 leaves a part out. */
export interface Times {
  /** Kills under load. */
  readonly rounds: number
  /** Repetitions of each race, on one process and on two. */
  readonly races: number
  /** Troubles while payments on a chain are under way. */
  readonly payments: number
  /** Troubles of three processes behind nginx. */
  readonly cluster: number
}

interface Plant {
  readonly says: string
  readonly edits: readonly Edit[]
  /** The shortest proof that finds the bug. */
  readonly times: Times
}

const MIGRATIONS = 'persistence/migrations'
const RACES: Times = { rounds: 0, races: 1, payments: 0, cluster: 0 }
const KILLS: Times = { rounds: 3, races: 0, payments: 0, cluster: 0 }
const PAYMENTS: Times = { rounds: 0, races: 0, payments: 3, cluster: 0 }

/** The migration whose definition of a function holds: the last one that creates it. */
function migrationOf(name: string): string {
  const creates = new RegExp(`create (or replace )?function ${name}\\(`)
  const last = readdirSync(join(ROOT, MIGRATIONS))
    .sort()
    .findLast((file) => creates.test(readFileSync(join(ROOT, MIGRATIONS, file), 'utf8')))
  if (last === undefined) throw new Error(`no migration creates ${name}`)
  return `${MIGRATIONS}/${last}`
}

/** Bugs for a copy of the service: a proof that stays green with one of them proves nothing. */
export const plants: Readonly<Record<string, Plant>> = {
  version: {
    says: 'the commit does not compare versions',
    edits: [
      {
        file: migrationOf('commit_batch'),
        from: 'where a.version is distinct from o',
        to: 'where a.version is null',
      },
    ],
    times: RACES,
  },
  greedy: {
    says: 'a balance never lets its last call through',
    edits: [
      {
        file: 'machines/purse.ts',
        from: 'free(purse) - reserved >= amount',
        to: 'free(purse) - reserved > amount',
      },
    ],
    times: RACES,
  },
  budget: {
    says: 'a task does not look at its budget when it is charged',
    edits: [
      {
        file: 'machines/task-session.ts',
        from: 'return fits(context, event.amount, ZERO)',
        to: 'return true',
      },
    ],
    times: RACES,
  },
  gate: {
    says: 'replies leave before COMMIT',
    edits: [
      {
        file: 'actors/runtime.ts',
        from: 'commits.add({ cell, state, job, oldVersion, newVersion, journal, actors, effects })',
        to: 'commits.add({ cell, state, job, oldVersion, newVersion, journal, actors, effects })\n    settle(job, job.answer)',
      },
    ],
    times: KILLS,
  },
  keys: {
    says: 'an Idempotency-Key is not looked up',
    edits: [
      {
        file: 'persistence/call-log.ts',
        from: 'return row === undefined ? null : fromAnswer(row)',
        to: 'return null',
      },
    ],
    times: RACES,
  },
  unclaimed: {
    says: 'a call runs without a claim on its payment',
    edits: [
      {
        file: 'calls/paid.ts',
        from: 'await paying.claim(payment, door, buyer, offer).catch(unlessOvertaken(look))',
        to: '{ payment, ref: paying.refOf(payment), tx: null }',
      },
    ],
    times: PAYMENTS,
  },
  hasty: {
    says: 'a payment is given up as soon as nobody knows what became of it',
    edits: [
      {
        file: 'payments/settle-evm.ts',
        from: 'return pursue(rail, work, terms, verdict)',
        to: 'return giveUp(rail, work, null)',
      },
    ],
    times: PAYMENTS,
  },
}

/** Builds a copy of a built service with one of the bugs; returns its folder. */
export async function planted({ edits }: Plant, built = BUILT): Promise<string> {
  const home = join(ROOT, '.cache/planted')
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  cpSync(built, home, { recursive: true })
  for (const path of ['package.json', MIGRATIONS]) {
    cpSync(join(ROOT, path), join(home, path), { recursive: true })
  }
  await buildEdits(home, edits)
  return home
}
