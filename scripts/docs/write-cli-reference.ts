import { toCliOptionUsageText } from '../../app/cli/cli-help-text.ts'
import { CLI_VERBS } from '../../app/cli/cli-verb-table.ts'
import {
  CLI_EXIT_CODES,
  CLI_GROUPS,
  type CliVerb,
  type CliVerbEntry,
} from '../../app/cli/cli-verb.ts'
import { markdownTable, writeGeneratedFile } from './write-generated-docs.ts'

/** Writes `docs/cli.md` from the table of verbs. */

const verbs = await Promise.all(
  Object.entries(CLI_VERBS).map(async ([name, entry]) => ({
    name,
    entry,
    verb: await entry.load(),
  })),
)

const code = (text: string) => `\`${text}\``

function describeVerb(name: string, { summary }: CliVerbEntry, verb: CliVerb): string {
  const { forms, about, options, examples = [] } = verb
  const rows = Object.entries(options).map(([option, { value, description }]) => [
    code(toCliOptionUsageText(option, value)),
    description,
  ])
  const lines = forms.map((form) => `gas ${name} ${form}`.trimEnd())
  return [
    `### gas ${name}`,
    `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.${about === undefined ? '' : ` ${about}`}`,
    `\`\`\`\n${lines.join('\n')}\n\`\`\``,
    ...(rows.length === 0 ? [] : [markdownTable(['option', 'meaning'], rows)]),
    ...(examples.length === 0 ? [] : [`\`\`\`sh\n${examples.join('\n')}\n\`\`\``]),
  ].join('\n\n')
}

const groups = Object.entries(CLI_GROUPS).flatMap(([group, title]) => [
  `## ${title}`,
  ...verbs
    .filter(({ entry }) => entry.group === group)
    .map(({ name, entry, verb }) => describeVerb(name, entry, verb)),
])

const exitCodes = markdownTable(
  ['code', 'meaning'],
  Object.entries(CLI_EXIT_CODES).map(([exit, meaning]) => [exit, meaning]),
)

writeGeneratedFile(
  'docs/cli.md',
  `# The command \`gas\`

Generated from \`app/cli/\` by \`npm run docs:cli\`. \`gas help\` lists the verbs, \`gas help VERB\` and \`gas VERB --help\` show one.
In a checkout it is \`npm run gas --\`, beside an installed package \`npx gas\`.

**Settings.** The verbs for agents call the station at \`GAS_URL\` (\`http://127.0.0.1:8402\`) with the key in \`GAS_API_KEY\`. What is not
set comes from \`~/.config/gas/config.json\` (or below \`XDG_CONFIG_HOME\`), which \`gas onboard --save\` and \`gas config\` write with mode
0600; a file that others can read is refused. A key of the file is sent to the station that it was saved for and to no other, and no verb
follows a redirection. The verbs for the operator read the settings of the station ([configuration.md](configuration.md)).

**Output.** Results go to stdout, all else to stderr. The verbs for agents print tables on a terminal, and JSON with \`--json\` or into a
pipe: a list is one object a line. If a request is rejected, programs get its problem document on stdout. Writes carry an Idempotency-Key,
so a repetition after a lost answer takes effect once.

**Exit codes.**

${exitCodes}

${groups.join('\n\n')}
`,
)
