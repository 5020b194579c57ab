#!/usr/bin/env node
import { parseArgs } from 'node:util'
import { EX_CONFIG, SettingError } from '../../core/setting-error.ts'
import { findClosestWord } from '../../core/validation/did-you-mean.ts'
import { shouldPrintJson, toErrorMessage, printJson } from './cli-output.ts'
import { toCliVerbUsageLines, cliVerbHelpText } from './cli-help-text.ts'
import {
  CliFailure,
  CliUsageError,
  toCliArguments,
  toParseArgsOptions,
  USAGE_EXIT_CODE,
  type CliVerb,
} from './cli-verb.ts'
import { CLI_VERBS } from './cli-verb-table.ts'

/** Entry point of the `gas` CLI. */

const FLAGS: Readonly<Record<string, string>> = {
  '--help': 'help',
  '-h': 'help',
  '--version': 'version',
  '-v': 'version',
}

// A reader that goes away, as in `gas tools | head`, is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') console.error(`gas: stdout cannot be written: ${error.message}`)
  process.exit(error.code === 'EPIPE' ? 0 : 1)
})
// What nobody hears is not worth a stack trace.
process.stderr.on('error', () => {})

const [first = 'help', ...args] = process.argv.slice(2)
process.exitCode = await runVerb(FLAGS[first] ?? first)

async function runVerb(name: string): Promise<number> {
  const entry = Object.hasOwn(CLI_VERBS, name) ? CLI_VERBS[name] : undefined
  if (entry === undefined) {
    const meant = findClosestWord(name, Object.keys(CLI_VERBS))
    console.error(
      `gas: there is no verb ${name}${meant === null ? '' : `: did you mean ${meant}?`}`,
    )
    console.error('gas help lists them.')
    return USAGE_EXIT_CODE
  }
  const verb = await entry.load()
  try {
    return await runWithArguments(name, entry.summary, verb)
  } catch (error) {
    if (error instanceof CliUsageError) return rejectUsage(name, verb, error.message)
    if (error instanceof CliFailure) return reportFailure(name, error)
    console.error(`gas ${name}: ${toErrorMessage(error)}`)
    return error instanceof SettingError ? EX_CONFIG : 1
  }
}

async function runWithArguments(name: string, summary: string, verb: CliVerb): Promise<number> {
  const { values, positionals } = parse(verb)
  if (values['help'] !== true) return verb.run(toCliArguments(positionals, values), CLI_VERBS)
  process.stdout.write(`${cliVerbHelpText(name, summary, verb)}\n`)
  return 0
}

function reportFailure(name: string, { message, document, exitCode }: CliFailure): number {
  console.error(`gas ${name}: ${message}`)
  if (document !== undefined && shouldPrintJson(args.includes('--json'))) printJson(document)
  return exitCode
}

function parse({ options }: CliVerb) {
  try {
    return parseArgs({ args, options: toParseArgsOptions(options), allowPositionals: true })
  } catch (error) {
    throw new CliUsageError(toErrorMessage(error))
  }
}

function rejectUsage(name: string, { forms }: CliVerb, why: string): number {
  if (why !== '') console.error(`gas ${name}: ${why}`)
  console.error(`${toCliVerbUsageLines(name, forms)}\ngas help ${name} describes it.`)
  return USAGE_EXIT_CODE
}
