/** Work that goes on by itself; it does not reject. */
export type BackgroundRoundTask = Promise<void>

/**
 * Rounds of one kind, one at a time: whoever asks while one is under way shares it, and none waits for
 * those of other kinds. What a round has begun goes on by itself. None of it rejects.
 */
export function createCoalescedRounds(
  round: () => Promise<BackgroundRoundTask[]>,
  failed: (error: unknown) => void,
) {
  let running: Promise<BackgroundRoundTask[]> | null = null
  return {
    begin(): Promise<BackgroundRoundTask[]> {
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
export type CoalescedRounds = ReturnType<typeof createCoalescedRounds>
