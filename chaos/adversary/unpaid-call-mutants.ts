import type { SourceEdit, ServiceMutant } from './service-mutant.ts'

/** Mutations that deliver calls without payment. */

/** A stream delivers its result before the call is charged. */
const DELIVER_BEFORE_CHARGE: SourceEdit = {
  file: 'calls/execute-tool-call.ts',
  from: 'const output = createOutputBufferUntilCharge(watcher.progress)',
  to: 'const output = { emit: watcher.progress, deliver: () => {} }',
}
/** A disconnect cancels the call without a charge. */
const CANCEL_ON_DISCONNECT: readonly SourceEdit[] = [
  DELIVER_BEFORE_CHARGE,
  {
    file: 'calls/run-tool.ts',
    from: 'return again ? [shutdown, request.connection.closeSignal] : [shutdown]',
    to: 'return [shutdown, request.connection.closeSignal]',
  },
  {
    file: 'calls/run-tool.ts',
    from: "const stop = () => cut(new ServiceError('unavailable', { retry_after: 2 }))",
    to: "const stop = () => cut(new ServiceError('cancelled'))",
  },
]

/** Calls that deliver without payment. */
export const unpaidCallMutants: Readonly<Record<string, ServiceMutant>> = {
  exit: {
    description: 'a program that corrupts its result file is refunded after its output was sent',
    edits: [
      DELIVER_BEFORE_CHARGE,
      {
        file: 'providers/sandbox/host/sandbox-python-interpreter.ts',
        from: 'resultIn(left) ?? {',
        to: 'resultIn(left) ?? JSON.parse(left) ?? {',
      },
      {
        file: 'providers/sandbox/host/sandbox-host-child-process-entry.ts',
        from: 'if (!asked) throw error',
        to: 'throw error',
      },
      {
        file: 'providers/sandbox/spawn-sandbox-host-process.ts',
        from: "if (!begun) return { kind: 'lost' }",
        to: "if (killed === null) return { kind: 'lost' }",
      },
    ],
    rules: ['delivered-unpaid'],
    operationWeights: { printAndExit: 1 },
    operations: 24,
  },
  cut: {
    description: 'a connection cut after the output of a program is refunded',
    edits: CANCEL_ON_DISCONNECT,
    rules: ['delivered-unpaid'],
    operationWeights: { printAndCut: 1 },
    operations: 16,
  },
  pill: {
    description: 'a connection cut after a verdict returns its free check',
    edits: CANCEL_ON_DISCONNECT,
    rules: ['delivered-unpaid'],
    operationWeights: { cutPill: 1 },
    operations: 48,
  },
}
