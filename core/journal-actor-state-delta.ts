import { stringifyWithBigints } from './json/bigint.ts'

/**
 * What the journal stores of each actor that a command changed: a delta from the state before it,
 * and in some rows the full state after it. States are JSON with tagged bigints (bigint-json.ts).
 *
 * A delta is `value`, the new chart state, only if that changed; `set`, new values by JSON Pointer
 * (RFC 6901) into the context; and `del`, removed pointers. A pointer is as deep as both sides are
 * objects: `/promo`, `/holds/<call>`, `/keyWindows/<key>/spentDay`. Arrays are replaced
 * whole. JSON Merge Patch (RFC 7396) cannot set null, which contexts contain.
 */
export interface JournalStateDelta {
  readonly value?: unknown
  readonly set?: Readonly<Record<string, unknown>>
  readonly del?: readonly string[]
}

/** A state as JSON, or as a machine has it. */
export interface ActorState {
  readonly value: unknown
  readonly context: unknown
}

/** One element of `journal.changed`. */
export interface JournalChange extends JournalStateDelta {
  readonly kind: string
  /** Absent for the actor that has the id of its aggregate. */
  readonly id?: string
  /** The version of the machine. */
  readonly machine: number
  /**
   * The state after the command. Present at creation, at the first change by a node that loaded the
   * actor, and after `JOURNAL_FULL_STATE_INTERVAL` versions. Without a delta beside it, there is no earlier
   * state of this version of the machine.
   */
  readonly state?: ActorState
}

/** A change this many versions of the aggregate after a full state has the next full state. */
export const JOURNAL_FULL_STATE_INTERVAL = 100

/** The members of a delta as JSON text, without braces; empty when nothing changed. */
export function serializeStateDelta(before: ActorState, after: ActorState): string {
  const set: string[] = []
  const del: string[] = []
  if (before.context !== after.context)
    compareRecords(before.context as JsonRecord, after.context as JsonRecord, '', set, del)
  const members: string[] = []
  if (!isSameChartState(before.value, after.value))
    members.push(`"value":${JSON.stringify(after.value)}`)
  if (set.length > 0) members.push(`"set":{${set.join(',')}}`)
  if (del.length > 0) members.push(`"del":[${del.join(',')}]`)
  return members.join(',')
}

/** The state after a change. Throws for a delta that does not fit the state. */
export function applyStateDelta(
  state: ActorState,
  { value, set, del }: JournalStateDelta,
): ActorState {
  let { context } = state
  for (const [pointer, to] of Object.entries(set ?? {})) {
    context = replaceAt(context, pointer, (record, key) => ({ ...record, [key]: to }))
  }
  for (const pointer of del ?? []) {
    context = replaceAt(context, pointer, (record, key) => {
      const { [key]: gone, ...rest } = record
      if (gone === undefined) throw new Error(`nothing to remove at ${pointer}`)
      return rest
    })
  }
  return { value: value ?? state.value, context }
}

type JsonRecord = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isSameChartState = (before: unknown, after: unknown): boolean =>
  before === after || (isRecord(after) && JSON.stringify(before) === JSON.stringify(after))

/** Machines keep references to unchanged parts, so only changed branches are visited. */
function compareRecords(
  before: JsonRecord,
  after: JsonRecord,
  path: string,
  set: string[],
  del: string[],
): void {
  for (const key of Object.keys(after)) {
    const now = after[key]
    if (now === before[key] || now === undefined) continue
    const was = Object.hasOwn(before, key) ? before[key] : undefined
    if (isRecord(now) && isRecord(was)) compareRecords(was, now, toPointer(path, key), set, del)
    else set.push(`${JSON.stringify(toPointer(path, key))}:${serializeValue(now)}`)
  }
  for (const key of Object.keys(before)) {
    const gone = !Object.hasOwn(after, key) || after[key] === undefined
    if (gone && before[key] !== undefined) del.push(JSON.stringify(toPointer(path, key)))
  }
}

function serializeValue(value: unknown): string {
  if (typeof value === 'bigint') return `{"$n":"${value}"}`
  return typeof value === 'object' ? stringifyWithBigints(value) : JSON.stringify(value)
}

const toPointer = (path: string, key: string): string =>
  `${path}/${/[~/]/.test(key) ? key.replaceAll('~', '~0').replaceAll('/', '~1') : key}`

const toKeys = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))

function replaceAt(
  root: unknown,
  pointer: string,
  change: (record: JsonRecord, key: string) => JsonRecord,
): JsonRecord {
  const keys = toKeys(pointer)
  const at = (record: unknown, depth: number): JsonRecord => {
    const key = keys[depth]
    if (key === undefined || !isRecord(record)) throw new Error(`no object at ${pointer}`)
    if (depth === keys.length - 1) return change(record, key)
    const inner = Object.hasOwn(record, key) ? record[key] : undefined
    return { ...record, [key]: at(inner, depth + 1) }
  }
  return at(root, 0)
}
