import { readdir, readFile } from 'node:fs/promises'

const MEMORY_PAGE_BYTES = 4_096

/** Resident memory of a process group in bytes, by Linux's own account; 0 where there is none. */
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
  // Its name stands in brackets and may hold anything; then come state, parent and group.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[2]) === leader ? Number(fields[21]) * MEMORY_PAGE_BYTES : 0
}
