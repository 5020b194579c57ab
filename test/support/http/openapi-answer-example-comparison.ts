import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { OPENAPI_EXAMPLE_IDS } from '../../../http/openapi/openapi-request-examples.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

/** Makes examples of answers from real ones, and compares the shape of both. */

/** With it the examples of answers are written, else compared. */
const WRITES_EXAMPLES = process.env['ANSWER_EXAMPLES'] === 'write'
/** A longer one tells a reader nothing more. */
const MAX_EXAMPLE_CHARS = 5_000

/** An answer, and what the document shows for it. */
interface AnsweredExample {
  readonly answer: unknown
  readonly shown: unknown
  /** Says how a value breaks the schema of the answer; empty for a valid one. */
  misfitOf(value: unknown): string
  /** Puts the ids of examples in the place of those of real objects. */
  toExampleId?(text: string): string
}

/** Compares examples with answers by their names. With `ANSWER_EXAMPLES=write` it writes them instead. */
export function createAnswerExampleChecker(path: string) {
  const recorded: Record<string, unknown> = {}
  return {
    /** Returns what is wrong with an example; null for nothing. A long answer has none. */
    faultOf(
      name: string,
      { answer, shown, misfitOf, toExampleId = String }: AnsweredExample,
    ): string | null {
      const comparable = withoutCacheMark(answer)
      const example = toAnswerExample(comparable, toExampleId)
      if (JSON.stringify(example).length > MAX_EXAMPLE_CHARS) return null
      recorded[name] = example
      if (WRITES_EXAMPLES) return null
      if (shown === undefined) return 'there is none'
      const misfit = misfitOf(shown)
      return misfit === '' ? differenceOfShape(shown, comparable) : misfit
    },
    save(): void {
      if (WRITES_EXAMPLES)
        writeFileSync(join(REPOSITORY_ROOT, path), `${JSON.stringify(recorded, null, 2)}\n`)
    },
  }
}

/** Whether a provider's answer was given again depends on what ran before. */
function withoutCacheMark(answer: unknown): unknown {
  const { _meta: meta } = (answer ?? {}) as { _meta?: { cached?: boolean } }
  if (meta?.cached === undefined) return answer
  const { cached: _, ...rest } = meta
  return { ...(answer as object), _meta: rest }
}

const MAX_TEXT_CHARS = 160
const UUID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/g

/** What differs from run to run, and what an example says in its place; in this order. */
const REPLACED: readonly (readonly [pattern: RegExp, text: string])[] = [
  [/http:\/\/gas\.test/g, 'https://gas.example'],
  [/http:\/\/127\.0\.0\.1:\d+/g, 'https://agents.example'],
  [/\b127\.0\.0\.1:\d+/g, 'agents.example'],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '2026-11-23T12:00:00.000Z'],
  [/\b20\d\d-\d\d-\d\d\b(?!T)/g, '2026-11-23'],
  [/gas_[0-9A-Za-z]{40,}/g, 'gas_the-key-of-the-agent'],
  [/whsec_[\w+/=]+/g, 'whsec_bm90LWEtc2VjcmV0'],
  [/gr1\.[\w.-]+/g, 'gr1.the-receipt'],
  [/\bbp_\w{10,}/g, OPENAPI_EXAMPLE_IDS.backpack],
  [/\bwh_\w{10,}/g, OPENAPI_EXAMPLE_IDS.webhook],
  [/\bmsg_\w{10,}/g, OPENAPI_EXAMPLE_IDS.delivery],
  [/\bRADIODROP_\w+/g, OPENAPI_EXAMPLE_IDS.dropCode],
  [/0x[\da-fA-F]{64}/g, OPENAPI_EXAMPLE_IDS.transaction],
  [/0x[\da-fA-F]{40}\b/g, OPENAPI_EXAMPLE_IDS.wallet],
]

/** A field whose value says something about the test alone; undefined for any other. */
function replaceField(name: string, value: unknown): unknown {
  if (name === 'ms' && typeof value === 'number') return 120
  return name === 'mode' && value === 'fixture' ? 'live' : undefined
}

/** Returns an answer as an example: first entries of lists, short texts, and the ids of the examples. */
function toAnswerExample(answer: unknown, toExampleId: (text: string) => string): unknown {
  const uuids = new Map<string, string>()
  const known: ReadonlySet<string> = new Set(Object.values(OPENAPI_EXAMPLE_IDS))
  const replaceUuid = (uuid: string): string => {
    if (known.has(uuid)) return uuid
    const name =
      uuids.get(uuid) ?? `018f2f6e-7c1a-7b3a-9c55-${String(uuids.size + 1).padStart(12, '0')}`
    uuids.set(uuid, name)
    return name
  }
  const replaceText = (text: string): string => {
    const whole = REPLACED.reduce(
      (done, [pattern, to]) => done.replace(pattern, to),
      toExampleId(text).replace(UUID, replaceUuid),
    )
    return whole.length > MAX_TEXT_CHARS ? `${whole.slice(0, MAX_TEXT_CHARS - 1)}…` : whole
  }
  const replace = (value: unknown): unknown => {
    if (typeof value === 'string') return replaceText(value)
    if (Array.isArray(value)) return value.slice(0, 1).map(replace)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [
        replaceText(name),
        replaceField(name, inner) ?? replace(inner),
      ]),
    )
  }
  return replace(answer)
}

const kindOf = (value: unknown): string => (Array.isArray(value) ? 'list' : typeof value)

/** Names the first part of an answer whose form is not that of the example; null for none. */
function differenceOfShape(example: unknown, answer: unknown, at = ''): string | null {
  // What may be absent is null in one of them.
  if (example === null || answer === null) return null
  if (kindOf(example) !== kindOf(answer))
    return `${at} is ${kindOf(answer)}, not ${kindOf(example)}`
  if (Array.isArray(example) && Array.isArray(answer))
    return example.length === 0 || answer.length === 0
      ? null
      : differenceOfShape(example[0], answer[0], `${at}/0`)
  if (typeof example !== 'object') return null
  const [shown, got] = [example, answer] as Record<string, unknown>[] as [
    Record<string, unknown>,
    Record<string, unknown>,
  ]
  for (const name of new Set([...Object.keys(shown), ...Object.keys(got)])) {
    if (!Object.hasOwn(got, name)) return `${at}/${name} is in the example only`
    if (!Object.hasOwn(shown, name)) return `${at}/${name} is in the answer only`
    const inner = differenceOfShape(shown[name], got[name], `${at}/${name}`)
    if (inner !== null) return inner
  }
  return null
}
