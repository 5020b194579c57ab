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

  /** Rejects the waiting commands that need the inbox. */
  function rejectDependent(mailbox: AggregateMailbox, error: unknown): void {
    for (const job of mailbox.queue)
      if (job.command.needsInbox === true) settle(job, () => job.reject(error))
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

    /** Whether a command has to wait for the answer to the commit of the inbox. */
    mustWait: (job: PendingCommand): boolean =>
      (job.mailbox.isInboxRefused || job.command.needsInbox === true) &&
      job.mailbox.absorbing.size > 0 &&
      !isAbsorbing(job),

    /** Call it for each committed command. */
    onCommitted(job: PendingCommand): void {
      if (!isAbsorbing(job)) return
      job.mailbox.isInboxRefused = false
      unmark(job)
    },

    /**
     * Call it after the database has refused a commit. The inbox is committed alone from then on. If the refusal is
     * final, the commands that wait for the inbox are answered without it, or rejected if they need it.
     */
    onRefused(
      mailbox: AggregateMailbox,
      jobs: readonly PendingCommand[],
      { error, isFinal }: { readonly error: unknown; readonly isFinal: boolean },
    ): void {
      if (!jobs.some(isAbsorbing)) return
      mailbox.isInboxRefused = true
      if (!isFinal) return
      rejectDependent(mailbox, error)
      for (const job of mailbox.queue) job.absorbed = true
    },

    rejectDependent,

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
