import { writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'

/** What the session of a process gets of the processors, beside other sessions. */
export const AUTOGROUP_FILE = '/proc/self/autogroup'

/** Below the service: a busy sandbox takes what is left of the processors. */
const HOST_NICENESS = 10

/**
 * Steps back behind the service; true once all is done. Linux may share processors between sessions
 * first, and by niceness only within each (sched(7), "the autogroup feature"): a host that leads a
 * session of its own would get as much as the whole service. Only such a host may write there. The
 * kernel takes one change in a tenth of a second from all who are not root.
 */
export function lowerCpuPriority(): boolean {
  setPriority(HOST_NICENESS)
  try {
    writeFileSync(AUTOGROUP_FILE, String(HOST_NICENESS))
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EAGAIN'
  }
}
