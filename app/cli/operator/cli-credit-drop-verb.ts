import { CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { printJson, printLine } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'
import { listCreditDrops, openCreditDrop } from './cli-credit-drops.ts'

/** `gas drop`. */
export const dropCliVerb: CliVerb = {
  forms: ['open', 'list'],
  about: 'Each slot gives promotional credits to one agent that redeems the code.',
  options: CLI_JSON_OPTION,
  async run({ words: [what, ...more], has }) {
    if ((what !== 'open' && what !== 'list') || more.length > 0) throw new CliUsageError('')
    const drops = await withStationDatabase(({ sql }) =>
      what === 'open' ? openCreditDrop(sql) : listCreditDrops(sql),
    )
    for (const { code, slots, left, open, expiresAt } of drops) {
      const until = new Date(expiresAt).toISOString()
      if (has('json')) printJson({ code, slots, left, open, expires_at: until })
      else printLine(`${code}  ${left} of ${slots} left  ${open ? 'open until' : 'ended'} ${until}`)
    }
    return 0
  },
}
