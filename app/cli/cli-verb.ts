import type { ParseArgsConfig } from 'node:util'

/** What a verb of `gas` is: its forms, its options, and what it does. */

/** An option of a verb. `value` names what it takes; without it the option is a switch. */
export interface CliOption {
  readonly value?: string
  readonly description: string
}

/** The words after the verb, and its options by their names without dashes. */
export interface CliArguments {
  readonly words: readonly string[]
  /** The value of an option; null if it was not given. */
  readonly text: (option: string) => string | null
  /** Whether a switch was given. */
  readonly has: (option: string) => boolean
}

export interface CliVerb {
  /** What follows the verb, one text a form: `ls`, `retry <id>`. A verb without words has `['']`. */
  readonly forms: readonly string[]
  /** Sentences for `gas help VERB`, after the summary. */
  readonly about?: string
  readonly options: Readonly<Record<string, CliOption>>
  /** Complete command lines for `gas help VERB`. */
  readonly examples?: readonly string[]
  /**
   * Does it. Results go to stdout, everything else to stderr. Resolves to an exit code of
   * `CLI_EXIT_CODES`; may throw `CliUsageError`, `CliFailure` and `ConfigError`. `verbs` are all of
   * them, for help and completion.
   */
  run(given: CliArguments, verbs: CliVerbTable): Promise<number>
}

export const CLI_GROUPS = {
  agent: 'For agents and their owners: calls the station at GAS_URL',
  operator: 'For the operator: works on the database of the settings',
  general: 'General',
} as const

export interface CliVerbEntry {
  readonly group: keyof typeof CLI_GROUPS
  /** Completes the sentence "This verb …". */
  readonly summary: string
  load(): Promise<CliVerb>
}

export type CliVerbTable = Readonly<Record<string, CliVerbEntry>>

/** The exit codes of `gas`, with their meanings. */
export const CLI_EXIT_CODES = {
  0: 'success',
  1: 'failure',
  2: 'usage: a wrong verb, word or option',
  3: 'authentication: no key, a key that does not work, or one that may not do this',
  4: 'payment required',
  5: 'a limit or a fuse: budget, cap, quota or rate',
  78: 'the settings cannot be used',
} as const

export const USAGE_EXIT_CODE = 2

/** The words or options of a command are wrong. The message may be empty. */
export class CliUsageError extends Error {
  override readonly name = 'CliUsageError'
}

/** A failure with its own exit code. Programs get the document, if there is one, on stdout. */
export class CliFailure extends Error {
  override readonly name: string = 'CliFailure'
  readonly exitCode: number
  readonly document: unknown
  constructor(
    message: string,
    exitCode = 1,
    { document, ...options }: ErrorOptions & { document?: unknown } = {},
  ) {
    super(message, options)
    this.exitCode = exitCode
    this.document = document
  }
}

/** The option that most verbs have. */
export const CLI_JSON_OPTION = { json: { description: 'prints JSON, one value a line' } } as const

/** The options in the form that `parseArgs` takes, with `--help`, which every verb has. */
export const toParseArgsOptions = (
  options: CliVerb['options'],
): NonNullable<ParseArgsConfig['options']> => ({
  ...Object.fromEntries(
    Object.entries(options).map(([name, { value }]) => [
      name,
      { type: value === undefined ? ('boolean' as const) : ('string' as const) },
    ]),
  ),
  help: { type: 'boolean', short: 'h' },
})

/** Access to parsed words and options. */
export const toCliArguments = (
  words: readonly string[],
  values: Readonly<Record<string, unknown>>,
): CliArguments => ({
  words,
  text: (option) => (typeof values[option] === 'string' ? values[option] : null),
  has: (option) => values[option] === true,
})
