import { DAY, HOUR, MINUTE, type Clock } from '../../core/clock.ts'
import {
  WEEKLY_DIGEST_TOPIC,
  type OwnerAlertStore,
} from '../../persistence/notifications/owner-alert-store.ts'
import type {
  PendingWeeklyDigestRecipient,
  WeeklyDigestStore,
} from '../../persistence/notifications/weekly-digest-store.ts'
import type { AgentPeriodFiguresReader } from '../../persistence/account-statement/weekly-digest-figures.ts'
import { createFailureTransitionLog, createPollingLoop, type PollingLoop } from '../polling-loop.ts'
import { formatWeeklyDigest, isQuietWeek } from './weekly-digest-text.ts'

/** Writes the weekly digests: each as an alert, once a week and agent on any number of nodes. */

export interface WeeklyDigestJobDeps {
  readonly digests: WeeklyDigestStore
  readonly alerts: Pick<OwnerAlertStore, 'add'>
  readonly figuresOf: AgentPeriodFiguresReader
  readonly publicUrl: string
  readonly clock: Pick<Clock, 'now'>
  /** Called when alerts were written. */
  readonly wake: () => void
  readonly log: (message: string, error: unknown) => void
}

const WEEK = 7 * DAY
/** The first Monday after the epoch, 1970-01-05. */
const FIRST_MONDAY = 4 * DAY
/** Rows of the last minutes of a week may still commit. */
const QUIET_MS = HOUR
const BATCH_SIZE = 50
const EVERY_MS = MINUTE
const IDLE_MS = 10 * MINUTE

/** The last week that has ended, and its rows committed: UTC weeks begin on Mondays. */
function findLastWeek(now: number): { from: Date; to: Date } {
  const to = Math.floor((now - QUIET_MS - FIRST_MONDAY) / WEEK) * WEEK + FIRST_MONDAY
  return { from: new Date(to - WEEK), to: new Date(to) }
}

/**
 * The mark of the week, the address and the alert are one transaction: a node that dies leaves the agent to
 * the next round of any node, and two nodes cannot write the same digest. Sending is that of all alerts.
 */
export function createWeeklyDigestJob({ log, ...deps }: WeeklyDigestJobDeps): PollingLoop {
  const { digests, clock, wake } = deps
  let doneUntil = 0

  return createPollingLoop({
    async work(isStopping) {
      const { from, to } = findLastWeek(clock.now())
      if (doneUntil >= to.getTime()) return Infinity
      let due = await digests.due(from, to, BATCH_SIZE)
      while (due.length > 0 && !isStopping()) {
        const failed: unknown[] = []
        for (const recipient of due)
          await writeDigest(deps, recipient, { from, to }).catch((error) => failed.push(error))
        wake()
        // The others are done; these are tried again a minute later.
        if (failed.length > 0) throw failed[0]
        due = await digests.due(from, to, BATCH_SIZE)
      }
      if (due.length === 0) doneUntil = to.getTime()
      return Infinity
    },
    everyMs: EVERY_MS,
    idleMs: IDLE_MS,
    log: createFailureTransitionLog(log, 'digests not written', 'digests are written again'),
  })
}

async function writeDigest(
  deps: Omit<WeeklyDigestJobDeps, 'log'>,
  recipient: PendingWeeklyDigestRecipient,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<void> {
  const { digests, alerts, figuresOf, publicUrl, clock } = deps
  const { agentId, name, email } = recipient
  const figures = await figuresOf(agentId, from, to)
  await digests.finish(recipient, from, async (tx, token) => {
    if (isQuietWeek(figures)) return
    const unsubscribeUrl = `${publicUrl}/digest/${token}`
    const digest = { agentId, name, from, to, figures, publicUrl, unsubscribeUrl }
    await alerts.add(tx, {
      ...formatWeeklyDigest(digest),
      key: `${WEEKLY_DIGEST_TOPIC}:${agentId}:${from.toISOString()}`,
      agentId,
      topic: WEEKLY_DIGEST_TOPIC,
      channel: 'email',
      address: email,
      at: new Date(clock.now()),
      unsubscribeUrl,
    })
  })
}
