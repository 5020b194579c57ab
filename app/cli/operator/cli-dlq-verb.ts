import { CliUsageError, type CliVerb } from '../cli-verb.ts'
import { withStationDatabase } from './database-for-cli.ts'
import { listDeadLetters, replayDeadLetter } from './cli-dead-letters.ts'

/** `gas dlq`. */
export const dlqCliVerb: CliVerb = {
  forms: ['ls [--json]', 'retry <id>'],
  about: 'Work that failed permanently: jobs, timers, webhook deliveries and events.',
  options: { json: { description: 'prints the list as one JSON array' } },
  async run({ words: [what, id, ...more], has }) {
    const wanted = what === 'ls' ? id === undefined : what === 'retry' && id !== undefined
    if (!wanted || more.length > 0) throw new CliUsageError('')
    return withStationDatabase(({ sql }) =>
      id === undefined ? listDeadLetters(sql, has('json')) : replayDeadLetter(sql, id),
    )
  },
}
