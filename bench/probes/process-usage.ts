import { readFileSync } from 'node:fs'

/** Reads what Linux counts for a process; zero where there is no `/proc`, or the process has ended. */

const CPU_TICK_US = 10_000

/** CPU time of all threads in microseconds. Linux counts it in hundredths of a second. */
export function readCpuMicroseconds(pid: number): number {
  const fields = readProcFile(pid, 'stat').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * CPU_TICK_US
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
