import { CliUsageError, type CliVerb } from '../cli-verb.ts'
import { cliHelpText, cliVerbHelpText } from '../cli-help-text.ts'
import { printLine } from '../cli-output.ts'

/** `gas help`. */
export const helpCliVerb: CliVerb = {
  forms: ['', '<verb>'],
  options: {},
  examples: ['gas help call'],
  async run({ words: [name, ...more] }, verbs) {
    if (more.length > 0) throw new CliUsageError('')
    if (name === undefined) printLine(cliHelpText(verbs))
    else {
      const entry = Object.hasOwn(verbs, name) ? verbs[name] : undefined
      if (entry === undefined) throw new CliUsageError(`there is no verb ${name}`)
      printLine(cliVerbHelpText(name, entry.summary, await entry.load()))
    }
    return 0
  },
}
