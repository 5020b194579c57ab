import { readdir, readFile } from 'node:fs/promises'

/** Memory use of a process group. */

const MEMORY_PAGE_BYTES = 4_096

/** Reads the resident memory of a process group from /proc, in bytes; 0 where it is unavailable. */
export async function readProcessGroupMemory(leader: number): Promise<number> {
  if (leader <= 1) return 0
  const names = await readdir('/proc').catch(() => [])
  const sizes = names
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => readResidentBytes(pid, leader))
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
}

async function readResidentBytes(pid: string, leader: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')
  // The name is in parentheses and may hold anything; state, parent and group follow.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[2]) === leader ? Number(fields[21]) * MEMORY_PAGE_BYTES : 0
}
