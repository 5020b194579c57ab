/** Work that goes on by itself; it does not reject. */
export type Begun = Promise<void>

/**
 * Rounds of one kind, one at a time: whoever asks while one is under way shares it, and none waits for
 * those of other kinds. What a round has begun goes on by itself. None of it rejects.
 */
export function rounds(round: () => Promise<Begun[]>, failed: (error: unknown) => void) {
  let running: Promise<Begun[]> | null = null
  return {
    begin(): Promise<Begun[]> {
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
export type Rounds = ReturnType<typeof rounds>
