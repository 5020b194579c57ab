import { loadAverage } from '../chaos/quantiles-host-hardware-and-text-tables.ts'

/** One row of the results table: a measurement and its target. */
export interface BenchmarkRow {
  readonly what: string
  readonly measured: string
  readonly baseline: string
  /** The measured value compared with the target. */
  readonly result: string
  readonly target: string
  readonly met: boolean
  readonly n: string
  readonly load: string
}

export const createBenchmarkReportRow = (fields: Omit<BenchmarkRow, 'load'>): BenchmarkRow => ({
  ...fields,
  load: loadAverage(),
})

export const formatWithThousandsSeparators = (value: number): string =>
  Math.round(value).toLocaleString('en-US')
export const formatMilliseconds = (value: number): string =>
  `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`
export const formatFactor = (value: number): string =>
  `${value < 10 ? value.toFixed(2) : value.toFixed(1)}x`

/** Durations and sizes of the benchmarks; reduced for a quick run. */
export interface BenchmarkScale {
  readonly rounds: number
  readonly warmUpMs: number
  readonly measureMs: number
}
