import { verifyDatabaseInvariants } from '../../../persistence/verify/verify-database-invariants.ts'
import { formatUsdc } from '../../../core/money.ts'
import { readDatabaseTotals } from '../../../persistence/verify/database-totals.ts'
import { loadConfig } from '../../config.ts'
import { type CliVerb } from '../cli-verb.ts'
import { printJson, printLine, toTerminalSafeJsonText } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'

/** `gas verify`. */
export const verifyCliVerb: CliVerb = {
  forms: [''],
  about:
    'Works on a live station. Says which database it has checked and what that holds. Exit code 1 if an invariant is broken.',
  options: { json: { description: 'prints the findings as one JSON array' } },
  async run(given) {
    const config = loadConfig()
    return withStationDatabase(async ({ sql, where }) => {
      const { agents, calls, transfers, balances } = await readDatabaseTotals(sql)
      const told = `${where}: ${agents} agents with ${formatUsdc(balances)} USDC, ${calls} calls, ${transfers} transfers`
      const findings = await verifyDatabaseInvariants(sql, config.journalArchiveDir)
      // Findings are one array for programs, so this line goes beside it.
      if (given.has('json')) {
        console.error(told)
        printJson(findings)
      } else {
        printLine(told)
        printFindings(findings)
      }
      return findings.every(({ broken }) => broken.length === 0) ? 0 : 1
    }, config)
  },
}

type Findings = Awaited<ReturnType<typeof verifyDatabaseInvariants>>

function printFindings(findings: Findings): void {
  for (const { rule, says, checked, broken: rows } of findings) {
    const result = rows.length === 0 ? 'ok    ' : 'BROKEN'
    printLine(`${result} ${rule.padEnd(4)} ${String(checked).padStart(9)} ${says}`)
    for (const row of rows) printLine(`         ${toTerminalSafeJsonText(row)}`)
  }
  const broken = findings.filter((finding) => finding.broken.length > 0).length
  printLine(broken === 0 ? 'verified: no difference' : `verified: ${broken} invariants are broken`)
}
