import { CLI_EXIT_CODES, CLI_GROUPS, type CliVerb, type CliVerbTable } from './cli-verb.ts'

/** The texts of `gas help` and `gas help VERB`. */

const VERB_WIDTH = 20
const OPTION_WIDTH = 24

/** All verbs by their groups. */
export function cliHelpText(all: CliVerbTable): string {
  const groups = Object.entries(CLI_GROUPS).map(([group, title]) => {
    const verbs = Object.entries(all).filter(([, entry]) => entry.group === group)
    return [`${title}:`, ...verbs.map(([name, { summary }]) => row(name, summary, VERB_WIDTH))]
  })
  return [
    'Usage: gas VERB …',
    '',
    ...groups.flatMap((lines) => [...lines, '']),
    '`gas help VERB` and `gas VERB --help` show its words and options. Exit codes:',
    ...Object.entries(CLI_EXIT_CODES).map(([code, meaning]) => row(code, meaning, 4)),
  ].join('\n')
}

/** One verb: what it does, its forms, options and examples. */
export function cliVerbHelpText(
  name: string,
  summary: string,
  { forms, about, options, examples = [] }: CliVerb,
): string {
  return [
    `gas ${name}: ${summary}`,
    '',
    toCliVerbUsageLines(name, forms),
    ...(about === undefined ? [] : ['', about]),
    '',
    'Options:',
    ...Object.entries(options).map(([option, { value, description }]) =>
      row(toCliOptionUsageText(option, value), description, OPTION_WIDTH),
    ),
    row('-h, --help', 'shows this', OPTION_WIDTH),
    ...(examples.length === 0 ? [] : ['', 'Examples:', ...examples.map((line) => `  ${line}`)]),
  ].join('\n')
}

/** The forms of a verb, one a line. */
export const toCliVerbUsageLines = (name: string, forms: readonly string[]): string =>
  forms
    .map((form, index) => `${index === 0 ? 'Usage: ' : '       '}gas ${name} ${form}`.trimEnd())
    .join('\n')

/** `--category C`, or `--json` for a switch. */
export const toCliOptionUsageText = (name: string, value: string | undefined): string =>
  value === undefined ? `--${name}` : `--${name} ${value}`

const row = (name: string, text: string, width: number) => `  ${name.padEnd(width)} ${text}`
