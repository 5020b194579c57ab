import type { PendingCommand } from '../aggregate-mailbox.ts'
import type { CommandRecorder } from './command-recorder.ts'

/** Tells the steps of an answered command. */
export function reportCommandToInspector(
  recorder: CommandRecorder,
  job: PendingCommand,
  isFromInbox: boolean,
): void {
  const { mailbox, requestId, recorded } = job
  if (recorded === null) return
  job.recorded = null
  recorder.tell({
    aggregateId: mailbox.id,
    aggregateKind: mailbox.kind,
    commandId: job.id,
    command: job.command.name,
    cause: requestId !== null ? 'request' : isFromInbox ? 'inbox' : 'station',
    requestId,
    ...recorded,
  })
}
