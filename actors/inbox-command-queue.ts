import type { AbsorbInboxCommand } from './absorb-aggregate-inbox-command.ts'
import type { AggregateCommand } from './aggregate-command-types.ts'
import type { AggregateMailbox, PendingCommand } from './aggregate-mailbox.ts'

/** The commands of a mailbox that absorb its inbox, and those that wait for them. */

/** Creates the queue operations; `absorbing` is the command that absorbs messages. */
export function createInboxCommandQueue(
  absorbing: AggregateCommand<unknown, unknown>,
  settle: (job: PendingCommand, answer: () => void) => void,
) {
  const isAbsorbing = ({ command }: PendingCommand): boolean => command === absorbing

  function unmark({ mailbox, input }: PendingCommand): void {
    for (const { id } of input as Parameters<AbsorbInboxCommand['apply']>[1])
      mailbox.absorbing.delete(id)
  }

  function recheck(mailbox: AggregateMailbox): void {
    for (const job of mailbox.queue) if (!isAbsorbing(job)) job.absorbed = false
  }

  return {
    /** Puts commands back at the front of the queue in their order, behind inbox commands. */
    requeue(mailbox: AggregateMailbox, jobs: readonly PendingCommand[]): void {
      const front = mailbox.queue.findIndex((job) => !isAbsorbing(job))
      const unsettled = jobs.filter((job) => !job.settled)
      mailbox.queue.splice(front < 0 ? mailbox.queue.length : front, 0, ...unsettled)
    },

    /** Lets the messages of an inbox command be read again. */
    unmark,

    /** Call it for each committed command. */
    absorbed(job: PendingCommand): void {
      if (!isAbsorbing(job)) return
      job.mailbox.isInboxRefused = false
      unmark(job)
    },

    /**
     * Call it after the database has refused a commit. The inbox is committed alone from then on. If it is refused
     * alone, the commands that wait for it are answered without it.
     */
    refused(mailbox: AggregateMailbox, jobs: readonly PendingCommand[], alone: boolean): void {
      if (!jobs.some(isAbsorbing)) return
      mailbox.isInboxRefused = true
      if (alone) for (const job of mailbox.queue) job.absorbed = true
    },

    /** Discards what was read from the inbox: another node may have absorbed it since. */
    forget(mailbox: AggregateMailbox): void {
      mailbox.absorbing.clear()
      for (const job of mailbox.queue) if (isAbsorbing(job)) settle(job, () => {})
      recheck(mailbox)
    },

    /** The commands of the queue look at the inbox again. */
    recheck,
  }
}
