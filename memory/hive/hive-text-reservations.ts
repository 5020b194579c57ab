import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../core/clock.ts'
import type {
  HiveTextDraft,
  HiveDuplicateTextStore,
  ExistingHiveText,
} from '../../persistence/hive/hive-duplicate-text-store.ts'
import { toLetterSkeleton } from '../../core/comparable-text.ts'
import { ANTONYM_AXES, NEGATION_WORDS } from '../text/stance-lexicon.ts'
import { jaccardSimilarity, toFormBands, toTextForms, type TextForms } from '../text/min-hash.ts'

/** The result of claiming a text that an author is about to write. */
export type HiveTextReservationResult =
  /** For an entry with this id. */
  | { readonly state: 'taken'; readonly id: string }
  /** The author's own entry has the same text. */
  | ({ readonly state: 'written' } & ExistingHiveText)
  /** It is a near copy of this public entry of another author. */
  | { readonly state: 'copy'; readonly id: string }
  /** Another call is writing it or a possible copy of it, and has not ended. */
  | { readonly state: 'pending' }

const MIN_COPY_OVERLAP = 0.9
const POLL_MS = 50
const TEXT_CLAIM_TIMEOUT_MS = 1_000

/** Words that reverse a statement: a text that differs in one means something else. */
const MEANING_REVERSING_WORDS: ReadonlySet<string> = new Set([
  ...NEGATION_WORDS,
  ...ANTONYM_AXES.flat().flatMap((words) => words.split(' ')),
])

/** Keeps one entry of each text, among an author's own and the public ones (decision 158). */
export function createHiveTextReservations(store: HiveDuplicateTextStore, clock: Clock) {
  return {
    /**
     * Claims a text for an entry; `claimant` identifies the call and its repetitions, which get the
     * same entry id.
     */
    async claim(
      text: HiveTextDraft,
      entryId: string,
      claimant: string,
    ): Promise<HiveTextReservationResult> {
      const forms = toTextForms(text.content)
      const bands = toFormBands(forms)
      const copied = async () => (text.isPublic ? findCopiedEntry(store, text, forms, bands) : null)
      const until = clock.mono() + TEXT_CLAIM_TIMEOUT_MS
      for (;;) {
        const own = await store.written(text)
        if (own !== null) return { state: 'written', ...own }
        const before = await copied()
        if (before !== null) return { state: 'copy', id: before }
        const id = await store.take(text, { bands, entryId, claimant })
        if (id !== null) {
          // A concurrent text of another author is written by now, or waits for this one.
          const meanwhile = await copied()
          if (meanwhile === null) return { state: 'taken', id }
          await store.release(text, id)
          return { state: 'copy', id: meanwhile }
        }
        if (clock.mono() > until) return { state: 'pending' }
        await sleep(POLL_MS)
      }
    },

    /** Releases a text whose entry is not written after all. */
    release: store.release,
  }
}

async function findCopiedEntry(
  store: HiveDuplicateTextStore,
  text: HiveTextDraft,
  forms: TextForms,
  bands: readonly number[],
): Promise<string | null> {
  const candidates = await store.alike(text, bands)
  return candidates.find(({ content }) => isCopy(forms, toTextForms(content)))?.id ?? null
}

/** Whether a text is a copy of another one in any of its forms. */
export const isCopy = (one: TextForms, other: TextForms): boolean =>
  one.words.some((words, at) => areWordsCopied(words, other.words[at] ?? new Set())) ||
  areLettersCopied(one, other)

/** Hardly a word differs, and none is a number or reverses the statement. */
function areWordsCopied(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  if (jaccardSimilarity(one, other) < MIN_COPY_OVERLAP) return false
  const differing = [...one, ...other].filter((word) => !(one.has(word) && other.has(word)))
  return !differing.some((word) => /\p{N}/u.test(word) || MEANING_REVERSING_WORDS.has(word))
}

/** The same of the letters alone: the digits are equal, and each word that reverses the statement is as often in them. */
function areLettersCopied(one: TextForms, other: TextForms): boolean {
  const [a, b] = [one.letters, other.letters]
  if (Math.min(a.length, b.length) < MIN_COPY_OVERLAP * Math.max(a.length, b.length)) return false
  if (jaccardSimilarity(one.runs, other.runs) < MIN_COPY_OVERLAP) return false
  if (a === b) return true
  if (one.digits !== other.digits) return false
  return REVERSING_SKELETONS.every((word) => countOf(word, a) === countOf(word, b))
}
const REVERSING_SKELETONS = [...MEANING_REVERSING_WORDS].map(toLetterSkeleton)
const countOf = (word: string, letters: string): number => letters.split(word).length
