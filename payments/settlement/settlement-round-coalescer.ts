/** Background work; never rejects. */
export type SettlementRoundBackgroundWork = Promise<void>

/**
 * Runs rounds of one kind one at a time: callers during a round share it, and kinds do not wait for
 * each other. Work that a round has begun continues in the background. Nothing rejects.
 */
export function createSettlementRoundCoalescer(
  round: () => Promise<SettlementRoundBackgroundWork[]>,
  failed: (error: unknown) => void,
) {
  let running: Promise<SettlementRoundBackgroundWork[]> | null = null
  return {
    begin(): Promise<SettlementRoundBackgroundWork[]> {
      running ??= round()
        .catch((error: unknown) => {
          failed(error)
          return []
        })
        .finally(() => (running = null))
      return running
    },
    ended: async (): Promise<void> => void (await running),
  }
}
export type SettlementRoundCoalescer = ReturnType<typeof createSettlementRoundCoalescer>
