import { writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'

/** CPU share of a process's session, relative to other sessions. */
export const LINUX_AUTOGROUP_FILE = '/proc/self/autogroup'

/** Below the service: a busy sandbox gets the remaining CPU time. */
const HOST_NICENESS = 10

/**
 * Lowers the CPU priority of this host below the service; returns true once that is done. Linux may share CPU
 * time between sessions first, and by niceness only within each (sched(7), "the autogroup feature"): a host
 * that leads its own session would get as much as the whole service. Only such a host may write the file. The
 * kernel accepts one change per tenth of a second from all unprivileged users.
 */
export function lowerSandboxHostCpuPriority(): boolean {
  setPriority(HOST_NICENESS)
  try {
    writeFileSync(LINUX_AUTOGROUP_FILE, String(HOST_NICENESS))
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EAGAIN'
  }
}
