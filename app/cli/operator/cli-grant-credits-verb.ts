import { CliFailure, CliUsageError, USAGE_EXIT_CODE, type CliVerb } from '../cli-verb.ts'
import { withStationDatabase } from './database-for-cli.ts'
import { grantCredits, parseGrantArguments } from './cli-grant-credits.ts'

/** `gas grant`. */
export const grantCliVerb: CliVerb = {
  forms: ['<agent_id> <usdc> --note "…" [--id UUID]'],
  about:
    'The credits are promotional: they buy tools and never become cash. A running station sees them at once.',
  options: {
    note: { value: 'TEXT', description: 'the reason, which is stored; required' },
    id: { value: 'UUID', description: 'repetitions with the same id give the credits once' },
  },
  async run({ words: [agentId, usdc, ...more], text }) {
    if (agentId === undefined || usdc === undefined || more.length > 0) throw new CliUsageError('')
    const wanted = parseGrantArguments({ agentId, usdc, note: text('note') ?? '', id: text('id') })
    if (typeof wanted === 'string') throw new CliFailure(wanted, USAGE_EXIT_CODE)
    return withStationDatabase(({ sql }) => grantCredits(sql, wanted))
  },
}
