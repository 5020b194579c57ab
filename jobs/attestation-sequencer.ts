import { SECOND } from '../core/clock.ts'
import { createPollingLoop, createFailureTransitionLog, type PollingLoop } from './polling-loop.ts'

/** Appends fees to the attestations after their commits. */

export interface AttestationSequencerDeps {
  /** Appends the next fees; null if there are none or another node appends. */
  readonly append: () => Promise<{ readonly note: string; readonly more: boolean } | null>
  /** Told of each head that this node signs. */
  readonly onHead: (note: string) => Promise<void>
  readonly log: (message: string, error: unknown) => void
  /** Fees of this time share a head, in milliseconds; a second when absent. */
  readonly gatherMs?: number | undefined
}

const GATHER_MS = SECOND
/** Without a commit of this node: another one may have ended before it appended its last fees. */
const IDLE_MS = 30 * SECOND

/**
 * The node that finds the cursor unlocked appends for all. Woken by the commits of its node; without fees it
 * signs nothing.
 */
export const createAttestationSequencer = ({
  append,
  onHead,
  log,
  gatherMs = GATHER_MS,
}: AttestationSequencerDeps): PollingLoop =>
  createPollingLoop({
    async work(isStopping) {
      for (let more = true; more && !isStopping();) {
        const head = await append()
        if (head !== null) await onHead(head.note)
        more = head?.more === true
      }
      return Infinity
    },
    everyMs: gatherMs,
    idleMs: IDLE_MS,
    wakeDelayMs: gatherMs,
    log: createFailureTransitionLog(log, 'fees not attested', 'fees are attested again'),
  })
