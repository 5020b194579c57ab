#!/usr/bin/env node
import { parseArgs } from 'node:util'
import { CLI_COMMANDS } from './gas-cli-commands.ts'

/** Entry point of the `gas` CLI. */

const USAGE = 2
const [name = 'help', ...args] = process.argv.slice(2)
const command = CLI_COMMANDS[name]

if (command === undefined) {
  console.error(`gas: there is no command ${name}\n`)
  console.error(usage())
  process.exitCode = USAGE
} else {
  await runCommand(command)
}

async function runCommand({ options, run }: (typeof CLI_COMMANDS)[string]): Promise<void> {
  let given: { values: Record<string, unknown>; positionals: string[] }
  try {
    given = parseArgs({ args, options, allowPositionals: true })
  } catch (error) {
    console.error(`gas ${name}: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = USAGE
    return
  }
  try {
    process.exitCode = await run(given.positionals, given.values, usage)
  } catch (error) {
    console.error(`gas ${name}: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = error instanceof Error && error.name === 'ConfigError' ? 78 : 1
  }
}

function usage(): string {
  const lines = Object.entries(CLI_COMMANDS).map(([word, { usage: shape, summary }]) => {
    return `  ${`gas ${word} ${shape}`.padEnd(44)} ${summary}`
  })
  return ['Usage:', ...lines].join('\n')
}
