/** Completion scripts for shells. Texts stand in single quotes, so no shell expands them. */

export interface ShellCompletionVerb {
  readonly name: string
  readonly summary: string
  /** What may stand after the verb: actions. */
  readonly words: readonly string[]
  readonly options: readonly { readonly name: string; readonly description: string }[]
}

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

const wordsOf = ({ words, options }: ShellCompletionVerb): string =>
  [...words, ...options.map(({ name }) => `--${name}`), '--help'].join(' ')

export const bashCompletion = (verbs: readonly ShellCompletionVerb[]): string =>
  `_gas() {
  local words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=${quote(verbs.map(({ name }) => name).join(' '))}
  else
    case "\${COMP_WORDS[1]}" in
${verbs.map((verb) => `      ${verb.name}) words=${quote(wordsOf(verb))} ;;`).join('\n')}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _gas gas`

export const zshCompletion = (verbs: readonly ShellCompletionVerb[]): string =>
  `#compdef gas
_gas() {
  local -a verbs
  if (( CURRENT == 2 )); then
    verbs=(
${verbs.map(({ name, summary }) => `      ${quote(`${name}:${summary}`)}`).join('\n')}
    )
    _describe 'verb' verbs
  else
    case "$words[2]" in
${verbs.map((verb) => `      ${verb.name}) compadd -- ${wordsOf(verb)} ;;`).join('\n')}
    esac
  fi
}
compdef _gas gas`

export const fishCompletion = (verbs: readonly ShellCompletionVerb[]): string =>
  [
    'complete -c gas -f',
    ...verbs.flatMap((verb) => [
      `complete -c gas -n __fish_use_subcommand -a ${verb.name} -d ${quote(verb.summary)}`,
      ...verb.words.map(
        (word) => `complete -c gas -n '__fish_seen_subcommand_from ${verb.name}' -a ${word}`,
      ),
      ...verb.options.map(
        ({ name, description }) =>
          `complete -c gas -n '__fish_seen_subcommand_from ${verb.name}' -l ${name} -d ${quote(description)}`,
      ),
    ]),
  ].join('\n')
