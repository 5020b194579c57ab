import type { Plant } from './plant.ts'

/** Bytes that nobody pays for. */
export const storagePlants: Readonly<Record<string, Plant>> = {
  bodies: {
    says: 'large answers of free calls are kept',
    edits: [
      {
        file: 'calls/settle.ts',
        from: 'const reason = cost > ZERO ? null : store(Buffer.byteLength(response))',
        to: 'const reason = null as NotKept | null',
      },
    ],
    rules: ['bytes-kept'],
    profile: { bigAnswer: 1 },
    operations: 24,
  },
  twins: {
    says: 'a text stands in the Hive as often as it is written',
    edits: [
      {
        file: 'tools/hive/claim-text.ts',
        from: 'const claim = await hiveTexts.claim(text, entryId, claimant)',
        to: "await hiveTexts.claim(text, entryId, claimant)\n  const claim = { state: 'taken', id: entryId } as TextClaim",
      },
    ],
    rules: ['hive-duplicate'],
    profile: { writeHive: 1 },
    operations: 80,
  },
}
