import { load } from '../scripts/prove/figures.ts'

/** One line of the results: what was measured, beside what it is measured against. */
export interface Row {
  readonly what: string
  readonly measured: string
  readonly baseline: string
  /** The measured value against the target. */
  readonly result: string
  readonly target: string
  readonly met: boolean
  readonly n: string
  readonly load: string
}

export const row = (fields: Omit<Row, 'load'>): Row => ({ ...fields, load: load() })

export const thousands = (value: number): string => Math.round(value).toLocaleString('en-US')
export const ms = (value: number): string =>
  `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`
export const times = (value: number): string =>
  `${value < 10 ? value.toFixed(2) : value.toFixed(1)}x`

/** How long things are measured; short for a first look. */
export interface Scale {
  readonly rounds: number
  readonly warmUpMs: number
  readonly measureMs: number
}
