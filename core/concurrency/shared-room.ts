/** Room of a node that strangers share. When it is full, its largest holder gives way (decision 490). */

/** What a holder has taken. */
interface Part {
  readonly holder: string
  readonly size: number
  giveWay(): void
}

export interface SharedRoom {
  /**
   * Takes room and returns its release. When the room is full the oldest parts of the largest holder give way, while it
   * holds more than this one would; null when nothing can.
   */
  take(holder: string, size: number, giveWay: () => void): (() => void) | null
}

/** Creates a room of `total`, in any unit. */
export function createSharedRoom(total: number): SharedRoom {
  const holders = new Map<string, Set<Part>>()
  const held = new Map<string, number>()
  let taken = 0

  function release(part: Part): void {
    const parts = holders.get(part.holder)
    if (parts?.delete(part) !== true) return
    taken -= part.size
    held.set(part.holder, (held.get(part.holder) ?? 0) - part.size)
    if (parts.size > 0) return
    holders.delete(part.holder)
    held.delete(part.holder)
  }

  /** Searched only while the room is full. */
  function largest(): { holder: string; size: number } {
    let found = { holder: '', size: 0 }
    for (const [holder, size] of held) if (size > found.size) found = { holder, size }
    return found
  }

  return {
    take(holder, size, giveWay) {
      const wanted = (held.get(holder) ?? 0) + size
      while (taken + size > total) {
        const biggest = largest()
        // Strictly more: two that hold the same would push each other out for ever.
        if (biggest.holder === holder || biggest.size <= wanted) return null
        const [oldest] = holders.get(biggest.holder) ?? []
        if (oldest === undefined) return null
        release(oldest)
        oldest.giveWay()
      }
      const part = { holder, size, giveWay }
      holders.set(holder, (holders.get(holder) ?? new Set<Part>()).add(part))
      held.set(holder, wanted)
      taken += size
      return () => release(part)
    },
  }
}
