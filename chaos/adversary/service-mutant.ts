import type { AdversaryOperationWeights } from './run-adversary.ts'

/** A text that occurs once in a source file, and its replacement. */
export interface SourceEdit {
  readonly file: string
  readonly from: string
  readonly to: string
}

/** A bug for a copy of the service, and the operations that detect it within seconds. */
export interface ServiceMutant {
  readonly description: string
  readonly edits: readonly SourceEdit[]
  /** The rules that may report it. */
  readonly rules: readonly string[]
  readonly operationWeights: AdversaryOperationWeights
  readonly operations: number
  /** Number of agents that deposit; without deposits any cash is a violation. */
  readonly depositors?: number
}
