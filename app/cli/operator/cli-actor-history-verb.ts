import { createActorHistory } from '../../../actors/inspection/actor-history.ts'
import { toActorHistoryView } from '../../../http/inspector/actor-views.ts'
import { createActorSearchStore } from '../../../persistence/inspector/actor-search-store.ts'
import { createJournalHistoryStore } from '../../../persistence/inspector/journal-history-store.ts'
import { loadConfig } from '../../config.ts'
import { CliFailure, CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { printJson, printLine, toTerminalSafeText } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'

/** `gas history`: the past of an actor, read from the journal. */

const DEFAULT_ENTRIES = 20
const MAX_ENTRIES = 1_000

export const historyCliVerb: CliVerb = {
  forms: ['<kind> <id>'],
  about:
    'The past states of an actor, the latest first, with what each command changed. Works for actors at rest.',
  options: {
    limit: {
      value: 'N',
      description: `entries, at most ${MAX_ENTRIES}; ${DEFAULT_ENTRIES} by default`,
    },
    ...CLI_JSON_OPTION,
  },
  examples: ['gas history backpack bp_4qk2 --limit 5'],
  async run({ words: [kind, id, ...more], text, has }) {
    const limit = Number(text('limit') ?? DEFAULT_ENTRIES)
    if (kind === undefined || id === undefined || more.length > 0) throw new CliUsageError('')
    if (!Number.isInteger(limit) || limit < 1 || limit > MAX_ENTRIES)
      throw new CliUsageError(`--limit must be a whole number from 1 to ${MAX_ENTRIES}`)
    const config = loadConfig()
    const { journalArchiveDir } = config
    const entries = await withStationDatabase(async ({ sql }) => {
      const [actor] = await createActorSearchStore(sql).find(kind, id)
      if (actor === undefined) throw new CliFailure(`there is no ${kind} ${id}`)
      const history = createActorHistory(createJournalHistoryStore(sql, journalArchiveDir))
      const found = []
      let next: number | null = actor.version + 1
      while (next !== null && found.length < limit) {
        const page = await history.page(actor, next, limit - found.length)
        found.push(...page.entries)
        next = page.next
      }
      return found.map((entry) => toActorHistoryView(kind, entry))
    }, config)
    for (const entry of entries) {
      if (has('json')) {
        printJson(entry)
        continue
      }
      const state = entry.state === '' ? '' : `  ${entry.state}`
      printLine(toTerminalSafeText(`${entry.version}  ${entry.at}  ${entry.command}${state}`))
      for (const { path, from, to } of entry.diff)
        printLine(toTerminalSafeText(`    ${path}: ${toText(from)} -> ${toText(to)}`))
    }
    return 0
  },
}

const toText = (value: unknown): string => (value === undefined ? '-' : JSON.stringify(value))
