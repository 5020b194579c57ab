import { readFileSync } from 'node:fs'

/** Reads what Linux counts for a process; zero where there is no `/proc`, or the process has ended. */

const CPU_TICK_US = 10_000

/** CPU time of all threads in microseconds. Linux counts it in hundredths of a second. */
export function readCpuMicroseconds(pid: number): number {
  const [own] = readCpuTicks(pid)
  return own * CPU_TICK_US
}

/** The same for the process that started this one, its children, and those that have ended. */
export function readCpuMicrosecondsOfSiblings(pid: number): number {
  const parent = Number(statFields(pid)[1] ?? 0)
  const children = readProcFile(parent, `task/${parent}/children`).trim().split(' ').map(Number)
  const [own, ended] = readCpuTicks(parent)
  const living = children.reduce((sum, child) => sum + readCpuTicks(child)[0], 0)
  return (own + ended + living) * CPU_TICK_US
}

const statFields = (pid: number): string[] =>
  readProcFile(pid, 'stat').split(') ')[1]?.split(' ') ?? []

/** Of the process, and of its children that have ended. */
function readCpuTicks(pid: number): [number, number] {
  const fields = statFields(pid)
  const ticks = (at: number) => Number(fields[at] ?? 0) + Number(fields[at + 1] ?? 0)
  return [ticks(11), ticks(13)]
}

/** Memory of a process in RAM. */
export function readResidentMegabytes(pid: number): number {
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readProcFile(pid, 'status')) ?? []
  return Math.round(Number(kilobytes ?? 0) / 1_024)
}

function readProcFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return ''
  }
}
