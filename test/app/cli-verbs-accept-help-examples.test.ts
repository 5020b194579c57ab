import { parseArgs } from 'node:util'
import t, { type Test } from 'tap'
import { CliUsageError, toCliArguments, toParseArgsOptions } from '../../app/cli/cli-verb.ts'
import { CLI_VERBS } from '../../app/cli/cli-verb-table.ts'

/** The verbs of `gas` take the command lines that their help shows. */

// Nothing answers there: a command line that is right fails at the station.
process.env['GAS_URL'] = 'http://127.0.0.1:9'
process.env['GAS_API_KEY'] = 'gas_x'
process.env['XDG_CONFIG_HOME'] = t.testdir()

/** They read standard input. */
const READING = new Set(['mcp', 'config key'])

/** Values that stand for a number. */
const NUMBERS = new Set(['usdc', 'USDC', 'N', '0-100', 'SECONDS'])

/** A command line of a form: the first of alternatives, and nothing that may be left out. */
function wordsOfForm(form: string): string[] {
  const whole = form
    .replace(/\((.*?) \| .*?\)/g, '$1')
    .replace(/ ?\[(?:[^[\]]|\[[^\]]*\])*\]/g, '')
    .replace(/<(\w+)(?:\|[\w|-]+)?>/g, '$1')
  const words = whole.split(' ').filter((word) => word !== '' && word !== '…')
  return words.map((word) => (NUMBERS.has(word) ? '1' : word))
}

/** The words of an example, without what its shell does with them. */
function wordsOfExample(line: string): string[] {
  const [command = ''] = line.split(/ [#<>] ?|"\$\(/)
  const words = [...command.matchAll(/(?:[^\s"]|"[^"]*")+/g)].map(([word]) =>
    word.replaceAll('"', ''),
  )
  return words.slice(1)
}

async function assertTaken(t: Test, name: string, args: readonly string[]): Promise<void> {
  const line = [name, ...args].join(' ')
  if (READING.has(line) || args[0] === 'review') return
  const verb = await CLI_VERBS[name]?.load()
  if (verb === undefined) throw new Error(`there is no gas ${name}`)
  const options = toParseArgsOptions(verb.options)
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
  const given = toCliArguments(positionals, values)
  const error: unknown = await verb.run(given, CLI_VERBS).catch((one: unknown) => one)
  t.notOk(error instanceof CliUsageError, `gas ${line}: ${String(error)}`)
}

for (const [name, { group, load }] of Object.entries(CLI_VERBS)) {
  if (group !== 'agent') continue
  t.test(`gas ${name}`, async (t) => {
    const { forms, examples = [] } = await load()
    for (const form of forms) await assertTaken(t, name, wordsOfForm(form))
    for (const example of examples) {
      const [verb = '', ...args] = wordsOfExample(example)
      await assertTaken(t, verb, args)
    }
  })
}
