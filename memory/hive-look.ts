import type { Clock } from '../core/clock.ts'
import { MINUTE } from '../core/clock.ts'
import type { HiveAnswer, HiveQuestion } from './hive.ts'

/** An entry that goes beside the result of a call. */
export interface Note {
  readonly id: string
  readonly excerpt: string
  readonly namespace: string
  readonly confidence: number
  readonly agent_id: string
  readonly created_at: string
}

const KEPT_MS = MINUTE
const MOST_KEPT = 2_000
const MOST_AT_ONCE = 4
const SHOWN = 3
const EXCERPT = 160

type Search = (asked: HiveQuestion) => Promise<{ entries: readonly HiveAnswer[] }>

/**
 * What the public Hive has on a text, all of whose words must be there. Kept for a minute, and never
 * more than a few look-ups at once: where there are more, there is nothing to show.
 */
export function createLook(search: Search, clock: Clock) {
  const kept = new Map<string, { readonly until: number; readonly notes: Promise<Note[]> }>()
  let running = 0

  async function look(text: string): Promise<Note[]> {
    running += 1
    try {
      const { entries } = await search({
        text,
        namespace: null,
        minConfidence: 0,
        limit: SHOWN,
        agentId: null,
        reader: '',
        at: clock.now(),
        exact: true,
      })
      return entries.map(noteOf)
    } finally {
      running -= 1
    }
  }

  return (text: string): Promise<readonly Note[]> => {
    // Words only: what joins them would be read as a phrase, and "or" as a choice.
    const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
    const key = words.filter((word) => word !== 'or').join(' ')
    const known = kept.get(key)
    const now = clock.mono()
    if (known !== undefined && now < known.until) return known.notes
    if (running >= MOST_AT_ONCE) return Promise.resolve([])
    const notes = look(key)
    notes.catch(() => kept.delete(key))
    kept.delete(key)
    kept.set(key, { until: now + KEPT_MS, notes })
    const [oldest] = kept.keys()
    if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest)
    return notes
  }
}

const noteOf = ({ id, content, namespace, confidence, agentId, at }: HiveAnswer): Note => ({
  id,
  excerpt: content.length <= EXCERPT ? content : `${content.slice(0, EXCERPT - 1)}…`,
  namespace,
  confidence,
  agent_id: agentId,
  created_at: at,
})
