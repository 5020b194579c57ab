import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { AggregateKind } from '../core/aggregate-commit-row-types.ts'
import { createAggregateMailbox, type AggregateMailbox } from './aggregate-mailbox.ts'

/** The mailboxes of the aggregates in memory, the least recently used first. */
export function createResidentMailboxes(
  clock: Clock,
  resident: number,
  isCommitting: (mailbox: AggregateMailbox) => boolean,
) {
  const mailboxes = new Map<string, AggregateMailbox>()

  /** Removes the least recently used aggregates without open holds, commands or commits. */
  function passivate(): void {
    for (const [id, mailbox] of mailboxes) {
      if (mailboxes.size < resident) return
      if (isIdle(mailbox)) mailboxes.delete(id)
    }
  }

  const isIdle = (mailbox: AggregateMailbox): boolean =>
    mailbox.openCommands === 0 &&
    mailbox.pendingLoads === 0 &&
    mailbox.inMemoryHolds.holds.size === 0 &&
    !isCommitting(mailbox)

  /** True when the state is too old to trust: a deleted visitor starts again at version 1. */
  const isOutdated = (mailbox: AggregateMailbox): boolean =>
    isIdle(mailbox) &&
    mailbox.state !== null &&
    clock.mono() - mailbox.lastAnsweredAt > LIMITS.stateMaxAgeMs

  return {
    get: (id: string): AggregateMailbox | undefined => mailboxes.get(id),
    get size(): number {
      return mailboxes.size
    },
    of(id: string, kind: AggregateKind): AggregateMailbox {
      const known = mailboxes.get(id)
      mailboxes.delete(id)
      if (known !== undefined && !isOutdated(known)) {
        mailboxes.set(id, known)
        return known
      }
      const mailbox = createAggregateMailbox(id, kind)
      // Passivate first: the new mailbox is idle still, and an aggregate must never have two.
      if (mailboxes.size >= resident) passivate()
      mailboxes.set(id, mailbox)
      return mailbox
    },
  }
}
