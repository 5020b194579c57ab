import type { OperationWeights } from './run-adversary.ts'

/** A text of a source, that stands there once, and what takes its place. */
export interface SourceEdit {
  readonly file: string
  readonly from: string
  readonly to: string
}

/** A bug for a copy of the service, and the operations that find it within seconds. */
export interface ServiceMutation {
  readonly description: string
  readonly edits: readonly SourceEdit[]
  /** The rules of the suite that may name it. */
  readonly rules: readonly string[]
  readonly operationWeights: OperationWeights
  readonly operations: number
  /** How many agents have deposited; where nobody has, all cash is too much. */
  readonly depositors?: number
}
