import type { Edit, Plant } from './plant.ts'

/** What a stream delivers leaves before its call has been charged. */
const UNHELD: Edit = {
  file: 'calls/perform.ts',
  from: 'const output = heldOutput(watcher.progress)',
  to: 'const output = { emit: watcher.progress, deliver: () => {} }',
}
/** A caller who leaves ends the call, and pays nothing for it. */
const LEFT: readonly Edit[] = [
  UNHELD,
  {
    file: 'calls/run.ts',
    from: 'return again ? [shutdown, request.signal] : [shutdown]',
    to: 'return [shutdown, request.signal]',
  },
  {
    file: 'calls/run.ts',
    from: "const stop = () => cut(new ServiceError('unavailable', { retry_after: 2 }))",
    to: "const stop = () => cut(new ServiceError('cancelled'))",
  },
]

/** Calls that deliver without being paid. */
export const callPlants: Readonly<Record<string, Plant>> = {
  exit: {
    says: 'a program that breaks its result file is refunded, and what it printed was sent',
    edits: [
      UNHELD,
      {
        file: 'tools/sandbox/host/python.ts',
        from: 'return resultIn(left) ?? {',
        to: 'return resultIn(left) ?? JSON.parse(left) ?? {',
      },
      {
        file: 'tools/sandbox/host/main.ts',
        from: 'if (!asked) throw error',
        to: 'throw error',
      },
      {
        file: 'tools/sandbox/child.ts',
        from: "if (!begun) return { kind: 'lost' }",
        to: "if (killed === null) return { kind: 'lost' }",
      },
    ],
    rules: ['delivered-unpaid'],
    profile: { printAndExit: 1 },
    operations: 24,
  },
  cut: {
    says: 'a connection that is cut once a program has printed gives its price back',
    edits: LEFT,
    rules: ['delivered-unpaid'],
    profile: { printAndCut: 1 },
    operations: 16,
  },
  pill: {
    says: 'a connection that is cut after a verdict gives its free check back',
    edits: LEFT,
    rules: ['delivered-unpaid'],
    profile: { cutPill: 1 },
    operations: 48,
  },
}
