import { CliUsageError, type CliVerb, type CliVerbTable } from '../cli-verb.ts'
import { printLine } from '../cli-output.ts'
import {
  bashCompletion,
  fishCompletion,
  zshCompletion,
  type ShellCompletionVerb,
} from './shell-completion-scripts.ts'

/** `gas completion`. */

const SHELLS: Readonly<Record<string, (verbs: readonly ShellCompletionVerb[]) => string>> = {
  bash: bashCompletion,
  zsh: zshCompletion,
  fish: fishCompletion,
}

export const completionCliVerb: CliVerb = {
  forms: ['bash | zsh | fish'],
  about: 'Prints a script for the shell.',
  options: {},
  examples: [
    'eval "$(gas completion bash)"    # in ~/.bashrc',
    'eval "$(gas completion zsh)"     # in ~/.zshrc, after compinit',
    'gas completion fish > ~/.config/fish/completions/gas.fish',
  ],
  async run({ words: [shell = '', ...more] }, verbs) {
    const script = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined
    if (script === undefined || more.length > 0) throw new CliUsageError('')
    printLine(script(await completedVerbs(verbs)))
    return 0
  },
}

const completedVerbs = (verbs: CliVerbTable): Promise<ShellCompletionVerb[]> =>
  Promise.all(
    Object.entries(verbs).map(async ([name, { summary, load }]) => {
      const { forms, options } = await load()
      const actions = forms
        .flatMap((form) => form.split(' | '))
        .map((form) => form.split(' ')[0] ?? '')
      const words =
        name === 'help' ? Object.keys(verbs) : actions.filter((one) => /^[a-z]/.test(one))
      const given = Object.entries(options).map(([option, { description }]) => ({
        name: option,
        description,
      }))
      return { name, summary, words: [...new Set(words)], options: given }
    }),
  )
