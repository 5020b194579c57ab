import { CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { withStationDatabase } from './database-for-cli.ts'
import {
  listUnresolvedSettlements,
  resolveSolanaSettlementByOperator,
} from './cli-resolve-settlements.ts'

/** `gas settlement`. */
export const settlementCliVerb: CliVerb = {
  forms: ['ls [--json]', 'resolve <id> (--settled <tx> | --lost)'],
  about: 'On other chains than Solana only the chain decides.',
  options: {
    ...CLI_JSON_OPTION,
    settled: { value: 'TX', description: 'the transaction that settled the payment' },
    lost: { description: 'the payment never settled: the payer must pay again' },
  },
  async run({ words: [what, id, ...more], text, has }) {
    if (more.length > 0) throw new CliUsageError('')
    if (what === 'ls' && id === undefined)
      return withStationDatabase(({ sql }) => listUnresolvedSettlements(sql, has('json')))
    const settled = text('settled')
    const isOneOutcome = (settled !== null) !== has('lost')
    if (what !== 'resolve' || id === undefined || !isOneOutcome) throw new CliUsageError('')
    return withStationDatabase(({ sql }) => resolveSolanaSettlementByOperator(sql, id, settled))
  },
}
