import { loadConfig } from '../../config.ts'
import { listDatabaseChecks } from '../../doctor/database-checks.ts'
import { listMachineChecks } from '../../doctor/machine-checks.ts'
import { runChecks } from '../../doctor/run-checks.ts'
import { listServiceChecks } from '../../doctor/service-checks.ts'
import { VERSION } from '../../version.ts'
import { CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { printJson, printLine, toTerminalSafeText } from '../cli-output.ts'

/** `gas doctor`. */
export const doctorCliVerb: CliVerb = {
  forms: [''],
  about:
    'Tries what the settings name: the database, Redis, the nodes of chains, mail, Telegram, models, search, Chromium, the sandbox, the port, the clock and the master key. One line each: ok, warning or failed, with the setting. It creates nothing, shows no secret and works beside a running station. Exit code 1 if something failed.',
  options: CLI_JSON_OPTION,
  examples: ['gas doctor', 'gas doctor --json'],
  async run({ words, has }) {
    if (words.length > 0) throw new CliUsageError('')
    const config = loadConfig()
    const settings = config.production ? 'production' : 'development'
    const about = `gas-station ${VERSION} on Node ${process.version}, ${process.platform} ${process.arch}, ${settings} settings`
    if (has('json')) console.error(about)
    else printLine(about)
    const checks = [listDatabaseChecks, listServiceChecks, listMachineChecks]
    const findings = [
      ...config.warnings.map((says) => ({
        setting: 'environment',
        result: 'warning' as const,
        says,
      })),
      ...(await runChecks(checks.flatMap((list) => list(config)))),
    ]
    for (const { setting, result, says } of findings) {
      if (has('json')) printJson({ setting, result, says })
      else printLine(toTerminalSafeText(`${result.padEnd(7)}  ${setting}: ${says}`))
    }
    return findings.some(({ result }) => result === 'failed') ? 1 : 0
  },
}
