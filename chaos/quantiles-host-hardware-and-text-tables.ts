import { cpus, loadavg, totalmem } from 'node:os'

/** The quantile of `values` at `share`; NaN for an empty list. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}

export const median = (values: readonly number[]): number => quantile(values, 0.5)

/** The load average of the last minute, printed as context for timings. */
export const loadAverage = (): string => (loadavg()[0] ?? 0).toFixed(1)

export function describeHostHardware(): string {
  const [first, ...others] = cpus()
  const memory = Math.round(totalmem() / 2 ** 30)
  const processor = first?.model.trim() ?? ''
  const model = ['', 'unknown'].includes(processor) ? process.arch : processor
  return `${others.length + 1} cores (${model}), ${memory} GiB, ${process.platform}, Node ${process.version}`
}

/** Aligns rows in columns of equal width. */
export function alignColumns(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) =>
    Math.max(...rows.map((row) => (row[at] ?? '').length)),
  )
  const line = (row: readonly string[]) =>
    row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
  return rows.map((row) => line(row).trimEnd()).join('\n')
}
