import { rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { quantile } from '../chaos/quantiles-host-hardware-and-text-tables.ts'

/** Measures the latency of `fdatasync` while a benchmark runs. */

const BLOCK = Buffer.alloc(8_192)
const FILE_BYTES = 16 * 1_024 * 1_024
const EVERY_MS = 20

export interface FsyncLatencies {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/**
 * Runs `work` and meanwhile writes blocks into a preallocated file, each followed by `fdatasync`,
 * as a database commits. Latencies are in milliseconds.
 */
export async function measureFsyncDuring<T>(
  dir: string,
  work: () => Promise<T>,
): Promise<[T, FsyncLatencies]> {
  const path = join(dir, 'disk-times')
  const file = await open(path, 'w')
  const taken: number[] = []
  let over = false
  const look = async (): Promise<void> => {
    await file.write(Buffer.alloc(FILE_BYTES), 0, FILE_BYTES, 0)
    await file.datasync()
    for (let at = 0; !over; at = (at + BLOCK.length) % FILE_BYTES) {
      const begun = performance.now()
      await file.write(BLOCK, 0, BLOCK.length, at)
      await file.datasync()
      taken.push(performance.now() - begun)
      await pause(EVERY_MS)
    }
  }
  const looking = look()
  try {
    const result = await work()
    over = true
    await looking
    const times = { p50: quantile(taken, 0.5), p99: quantile(taken, 0.99) }
    return [result, { ...times, max: Math.max(...taken) }]
  } finally {
    over = true
    await looking.catch(() => {})
    await file.close()
    rmSync(path, { force: true })
  }
}
