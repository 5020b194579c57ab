import { parseExactJson } from '../../../core/json/exact.ts'
import { CliUsageError, type CliArguments, type CliVerb } from '../cli-verb.ts'
import { shouldPrintJson, printJsonDocument } from '../cli-output.ts'
import { parseAmountOption } from './cli-verb-with-subcommands.ts'
import { createCliStationClient } from './cli-station-client.ts'

/** `gas call`. */
export const callCliVerb: CliVerb = {
  forms: ['<tool> [key=value …] [--json {…}]'],
  about:
    'A value is JSON if it can be, else a text: n=1 is a number, q=news a text, and so is an integer that a number would round. A lost answer is asked for again with the same Idempotency-Key, so the call is charged once.',
  options: {
    json: { value: '{…}', description: 'the fields of the tool, instead of pairs' },
    task: { value: 'ID', description: 'the task whose budget it counts in' },
    backpack: { value: 'ID', description: 'the Backpack it is made in' },
    'idempotency-key': { value: 'KEY', description: 'repetitions with the same key are one call' },
  },
  examples: ['gas call hive_trending', 'gas call web_search query="base fees" max_results=3'],
  async run(given) {
    const [tool, ...pairs] = given.words
    if (tool === undefined) throw new CliUsageError('')
    const json = given.text('json')
    if (json !== null && pairs.length > 0) throw new CliUsageError('give pairs or --json, not both')
    const fields = json === null ? parseKeyValueArguments(pairs) : parseFields(json)
    const key = readHeaderOption(given, 'idempotency-key')
    const answer = await createCliStationClient().write('POST', '/api/refuel', {
      body: { ...fields, tool },
      headers: limitHeaders(given),
      ...(key === null ? {} : { idempotencyKey: key }),
    })
    printJsonDocument(answer, shouldPrintJson(false))
    return 0
  },
}

/** An option that a header of the request repeats; null without it. */
function readHeaderOption({ text }: CliArguments, name: string): string | null {
  const value = text(name)
  if (value === null || /^[\x21-\x7e]+$/.test(value)) return value
  throw new CliUsageError(`--${name} must be visible characters of ASCII, without spaces`)
}

function limitHeaders(given: CliArguments): Record<string, string> {
  const [task, backpack] = [readHeaderOption(given, 'task'), readHeaderOption(given, 'backpack')]
  return {
    ...(task === null ? {} : { 'x-task-id': task }),
    ...(backpack === null ? {} : { 'x-backpack-id': backpack }),
  }
}

/** An integer that a number of JavaScript would round, such as the id of a post. */
const isLongInteger = (text: string): boolean =>
  /^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text))

/**
 * Parses `key=value` words. Values are JSON if possible: `a=1` is a number, `a=x` a string. An amount (`…_usdc`) is
 * read as a person types it.
 */
export function parseKeyValueArguments(pairs: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=')
      if (at < 1) throw new CliUsageError(`${pair} is not of the form key=value`)
      const text = pair.slice(at + 1)
      if (/_usdc$/.test(pair.slice(0, at)))
        return [pair.slice(0, at), parseAmountOption(text, pair.slice(0, at))]
      if (isLongInteger(text)) return [pair.slice(0, at), text]
      try {
        return [pair.slice(0, at), parseExactJson(text)]
      } catch {
        return [pair.slice(0, at), text]
      }
    }),
  )
}

function parseFields(text: string): Record<string, unknown> {
  try {
    const value = parseExactJson(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch {
    // Rejected below.
  }
  throw new CliUsageError('--json must be a JSON object')
}
