import { CliUsageError, type CliVerb } from '../cli-verb.ts'

/** `gas serve`, and `gas start`. */
export const serveCliVerb: CliVerb = {
  forms: [''],
  about:
    'The settings are environment variables (docs/configuration.md). Without any, it brings its own PostgreSQL, keeps its data in ./.data and listens on http://127.0.0.1:8402.',
  options: {},
  examples: ['PORT=8500 gas serve'],
  async run({ words }) {
    if (words.length > 0) throw new CliUsageError('settings are environment variables')
    await import('../../main.ts')
    return 0
  },
}
