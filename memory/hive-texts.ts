import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../core/clock.ts'
import type { NewText, TextStore, WrittenText } from '../persistence/hive-texts.ts'
import { AXES, NEGATORS } from './text/lexicon.ts'
import { bandsOf, overlap, wordsOf } from './text/min-hash.ts'

/** What became of a text that an author is about to write. */
export type TextClaim =
  /** For an entry with this id. */
  | { readonly state: 'taken'; readonly id: string }
  /** The author's own entry says the same. */
  | ({ readonly state: 'written' } & WrittenText)
  /** It is a near copy of this public entry of another author. */
  | { readonly state: 'copy'; readonly id: string }
  /** Another call is writing it or what may be a copy of it, and has not ended. */
  | { readonly state: 'pending' }

const NEAR = 0.9
const POLL_MS = 50
const PATIENCE_MS = 1_000

/** Words that turn a statement around: a text that differs in one says something else. */
const TURNING: ReadonlySet<string> = new Set([
  ...NEGATORS,
  ...AXES.flat().flatMap((words) => words.split(' ')),
])

/** Keeps one entry of each text: an author's own, and what others have published (decision 158). */
export function hiveTexts(store: TextStore, clock: Clock) {
  return {
    /**
     * Takes a text for an entry; `claimant` names the call, and is the same for a repetition of it, which
     * writes the entry with the id of before.
     */
    async claim(text: NewText, entryId: string, claimant: string): Promise<TextClaim> {
      const words = wordsOf(text.content)
      const bands = bandsOf(words)
      const copied = async () => (text.isPublic ? copyOf(store, text, words, bands) : null)
      const until = clock.mono() + PATIENCE_MS
      for (;;) {
        const own = await store.written(text)
        if (own !== null) return { state: 'written', ...own }
        const before = await copied()
        if (before !== null) return { state: 'copy', id: before }
        const id = await store.take(text, { bands, entryId, claimant })
        if (id !== null) {
          // What another author was writing meanwhile is written by now, or waits for this one.
          const meanwhile = await copied()
          if (meanwhile === null) return { state: 'taken', id }
          await store.release(text, id)
          return { state: 'copy', id: meanwhile }
        }
        if (clock.mono() > until) return { state: 'pending' }
        await sleep(POLL_MS)
      }
    },

    /** Gives a text back whose entry is not written after all. */
    release: store.release,
  }
}

async function copyOf(
  store: TextStore,
  text: NewText,
  words: ReadonlySet<string>,
  bands: readonly number[],
): Promise<string | null> {
  const candidates = await store.alike(text, bands)
  return candidates.find(({ content }) => isCopy(words, wordsOf(content)))?.id ?? null
}

/** Hardly a word differs, and none that is a number or turns the statement around. */
function isCopy(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  if (overlap(one, other) < NEAR) return false
  const differing = [...one, ...other].filter((word) => !(one.has(word) && other.has(word)))
  return !differing.some((word) => /\p{N}/u.test(word) || TURNING.has(word))
}
