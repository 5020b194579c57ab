import { readTypedAmount } from '../../../core/typed-amount.ts'
import {
  CliUsageError,
  CLI_JSON_OPTION,
  type CliArguments,
  type CliOption,
  type CliVerb,
} from '../cli-verb.ts'
import { shouldPrintJson, printTableOrJsonLines } from '../cli-output.ts'
import { printAnswer } from '../print-answer.ts'
import { rowsOfAnswer } from './rows-of-station-reply.ts'
import { createCliStationClient, type CliStationClient } from './cli-station-client.ts'

/** Makes verbs with actions, such as `gas task start`. */

type Json = Readonly<Record<string, unknown>>

/** What an action prints: one document, or rows as a table. */
export type CliSubcommandResult =
  | Json
  | { readonly rows: readonly Json[]; readonly columns: string[] }

export interface CliSubcommand {
  /** The words after the action and its options: `<name> --budget USDC`. */
  readonly form: string
  run(client: CliStationClient, given: CliArguments): Promise<CliSubcommandResult>
}

interface ActionVerbSettings {
  readonly about?: string
  readonly options?: Readonly<Record<string, CliOption>>
  readonly examples?: readonly string[]
  readonly actions: Readonly<Record<string, CliSubcommand>>
}

/** A verb whose first word names an action; the other words are those of its form. */
export function createVerbWithSubcommands({
  actions,
  options = {},
  ...texts
}: ActionVerbSettings): CliVerb {
  return {
    ...texts,
    forms: Object.entries(actions).map(([name, { form }]) => `${name} ${form}`.trimEnd()),
    options: { ...options, ...CLI_JSON_OPTION },
    async run({ words: [name = '', ...words], text, has }) {
      const action = Object.hasOwn(actions, name) ? actions[name] : undefined
      if (action === undefined || !isWordCount(action.form, words.length))
        throw new CliUsageError('')
      const result = await action.run(createCliStationClient(), { words, text, has })
      const forPrograms = shouldPrintJson(has('json'))
      if (Array.isArray(result['rows'])) {
        const { rows, columns } = result as Extract<CliSubcommandResult, { columns: string[] }>
        printTableOrJsonLines(rows, columns, forPrograms)
      } else printAnswer(result, forPrograms)
      return 0
    },
  }
}

/** `<word>` and `<one|other>` are required, `[<word>]` is not. */
function isWordCount(form: string, count: number): boolean {
  const all = form.match(/<[\w|]+>/g)?.length ?? 0
  const optional = form.match(/\[<[\w|]+>\]/g)?.length ?? 0
  return count <= all && count >= all - optional
}

/** All rows of a list, page by page, up to `--limit`. */
export async function fetchStationListPages(
  client: CliStationClient,
  path: string,
  name: string,
  { text }: CliArguments,
): Promise<Json[]> {
  const limit =
    text('limit') === null ? Infinity : parseNumberOption(text('limit') ?? '', '--limit')
  const rows: Json[] = []
  // A station that names a page again would be asked for ever.
  const asked = new Set<string>()
  for (let cursor: string | null = ''; cursor !== null && rows.length < limit;) {
    const more: string = cursor === '' ? '' : `cursor=${encodeURIComponent(cursor)}`
    const answer = await client.request('GET', joinQuery(path, more))
    rows.push(...rowsOfAnswer(answer, name))
    const { next_cursor: next } = answer
    cursor = typeof next === 'string' && !asked.has(next) ? next : null
    if (cursor !== null) asked.add(cursor)
  }
  return rows.slice(0, limit)
}

const joinQuery = (path: string, more: string): string =>
  more === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${more}`

export const CLI_LIMIT_OPTION = {
  limit: { value: 'N', description: 'at most so many rows; without it all' },
} as const

/** A whole number; throws `CliUsageError` for anything else. */
export function parseNumberOption(text: string, name: string): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(value)) return value
  throw new CliUsageError(`${name} must be a whole number`)
}

/** An amount of USDC as a person types it; throws `CliUsageError` for anything else (decision 431). */
export function parseAmountOption(text: string, name: string): number {
  const read = readTypedAmount(text)
  if ('usdc' in read) return read.usdc
  throw new CliUsageError(`${name}: ${text === '' ? 'it' : text} ${read.fault}`)
}

/** An option that an action needs. */
export function readRequiredOption({ text }: CliArguments, name: string): string {
  const value = text(name)
  if (value === null) throw new CliUsageError(`--${name} is required`)
  return value
}

/** Separate words of an option: `a,b`. */
export const parseListOption = (text: string): string[] =>
  text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')

/** The fields that were given. */
export const withoutNulls = (fields: Readonly<Record<string, unknown>>): Json =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))
