import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { SourceEdit } from './adversary/service-mutant.ts'
import { buildEditedSources } from './adversary/build-mutants.ts'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'
import { STATION_BUILD_DIR } from './station-process.ts'

/** Repetitions of each part of the proof; 0 skips a part. */
export interface ChaosProofRepetitions {
  /** Kills under load. */
  readonly rounds: number
  /** Repetitions of each race, on one process and on two. */
  readonly races: number
  /** Faults during payments on a chain. */
  readonly payments: number
  /** Faults of three processes behind nginx. */
  readonly cluster: number
}

interface CrashProofMutation {
  readonly description: string
  readonly edits: readonly SourceEdit[]
  /** The shortest proof that detects the mutation. */
  readonly rounds: ChaosProofRepetitions
}

const MIGRATIONS = 'persistence/migrations'
const RACES_ONLY: ChaosProofRepetitions = { rounds: 0, races: 1, payments: 0, cluster: 0 }
const CRASHES_ONLY: ChaosProofRepetitions = { rounds: 3, races: 0, payments: 0, cluster: 0 }
const PAYMENTS_ONLY: ChaosProofRepetitions = { rounds: 0, races: 0, payments: 3, cluster: 0 }

/** The migration with the current definition of a function: the last one that creates it. */
function migrationCreating(name: string): string {
  const creates = new RegExp(`create (or replace )?function ${name}\\(`)
  const last = readdirSync(join(REPOSITORY_ROOT, MIGRATIONS))
    .sort()
    .findLast((file) => creates.test(readFileSync(join(REPOSITORY_ROOT, MIGRATIONS, file), 'utf8')))
  if (last === undefined) throw new Error(`no migration creates ${name}`)
  return `${MIGRATIONS}/${last}`
}

/** Bugs for a copy of the service; the proof must fail with each of them. */
export const CHAOS_PROOF_MUTANTS: Readonly<Record<string, CrashProofMutation>> = {
  version: {
    description: 'the commit does not compare versions',
    edits: [
      {
        file: migrationCreating('commit_batch'),
        from: 'where a.version is distinct from o',
        to: 'where a.version is null',
      },
    ],
    rounds: RACES_ONLY,
  },
  greedy: {
    description: 'a balance rejects its last call',
    edits: [
      {
        file: 'machines/agent/agent-balance.ts',
        from: 'sumPromoAndCash(purse) - reserved >= amount',
        to: 'sumPromoAndCash(purse) - reserved > amount',
      },
    ],
    rounds: RACES_ONLY,
  },
  budget: {
    description: 'a task does not check its budget',
    edits: [
      {
        file: 'machines/task-session-machine.ts',
        from: 'amount === ZERO_MICROS || spent + held + reserved + amount <= budget',
        to: 'amount >= ZERO_MICROS',
      },
    ],
    rounds: RACES_ONLY,
  },
  fuse: {
    description: 'a call that is admitted and charged at once passes every fuse',
    edits: [
      {
        file: 'machines/backpack-machine.ts',
        from: "guard: { type: 'allowed', params: ({ event }) => event },\n            actions: { type: 'spend',",
        to: "actions: { type: 'spend',",
      },
    ],
    rounds: RACES_ONLY,
  },
  gate: {
    description: 'replies leave before COMMIT',
    edits: [
      {
        file: 'actors/actor-runtime.ts',
        from: 'commits.add({ ...step, newVersion, journal, actors, effects })',
        to: 'commits.add({ ...step, newVersion, journal, actors, effects })\n    settle(pendingCommand, pendingCommand.answer)',
      },
    ],
    rounds: CRASHES_ONLY,
  },
  keys: {
    description: 'an Idempotency-Key is not looked up',
    edits: [
      {
        file: 'persistence/calls/call-log-store.ts',
        from: 'return row === undefined ? null : toStoredAnswer(row)',
        to: 'return null',
      },
    ],
    rounds: RACES_ONLY,
  },
  unclaimed: {
    description: 'a call runs without a claim on its payment',
    edits: [
      {
        file: 'calls/paid-call-admission.ts',
        from: 'await paying\n      .claim(payment, door, buyer, offer)\n      .catch(recoverReplyOfRacingPaidRequest(look))',
        to: '{ payment, ref: paying.refOf(payment), tx: null }',
      },
    ],
    rounds: PAYMENTS_ONLY,
  },
  hasty: {
    description: 'a payment is given up as soon as its outcome is unknown',
    edits: [
      {
        file: 'payments/settlement/evm-settlement-rail.ts',
        from: 'return retryUnusedPayment(rail, work, terms, verdict)',
        to: 'return giveUp(rail, work, null)',
      },
    ],
    rounds: PAYMENTS_ONLY,
  },
}

/** Builds a copy of a build with one mutation; returns its folder. */
export async function buildMutantOfService(
  { edits }: CrashProofMutation,
  built = STATION_BUILD_DIR,
): Promise<string> {
  const home = join(REPOSITORY_ROOT, '.cache/planted')
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  cpSync(built, home, { recursive: true })
  for (const path of ['package.json', MIGRATIONS]) {
    cpSync(join(REPOSITORY_ROOT, path), join(home, path), { recursive: true })
  }
  await buildEditedSources(home, edits)
  return home
}
