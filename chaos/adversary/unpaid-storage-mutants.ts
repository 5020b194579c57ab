import type { ServiceMutant } from './service-mutant.ts'

/** Mutations that store bytes without payment. */
export const unpaidStorageMutants: Readonly<Record<string, ServiceMutant>> = {
  bodies: {
    description: 'large answers of free calls are stored',
    edits: [
      {
        file: 'calls/settle-call.ts',
        from: 'const reason = cost > ZERO_MICROS ? null : store(Buffer.byteLength(response))',
        to: 'const reason = null as UnstoredResponseReason | null',
      },
    ],
    rules: ['bytes-kept'],
    operationWeights: { bigAnswer: 1 },
    operations: 24,
  },
  twins: {
    description: 'every write of a text creates an entry in the Hive',
    edits: [
      {
        file: 'tools/memory/hive/reserve-hive-text.ts',
        from: 'const claim = await hiveTexts.claim(text, entryId, claimant)',
        to: "await hiveTexts.claim(text, entryId, claimant)\n  const claim = { state: 'taken', id: entryId } as HiveTextReservation",
      },
    ],
    rules: ['hive-duplicate'],
    operationWeights: { writeHive: 1 },
    operations: 80,
  },
}
