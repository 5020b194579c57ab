import { createInspectorCodeStore } from '../../../persistence/inspector/inspector-one-time-code-store.ts'
import { toInspectorLink } from '../../compose/compose-inspector.ts'
import { loadConfig } from '../../config.ts'
import { hostInUrl } from '../../setting-forms.ts'
import { CliUsageError, CLI_JSON_OPTION, type CliVerb } from '../cli-verb.ts'
import { printJson, printLine } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'

/** `gas inspect`: a link to the inspector. */

const CODE_SECONDS = 600

export const inspectCliVerb: CliVerb = {
  forms: [''],
  about: 'Prints a link to the inspector. It opens once, within ten minutes.',
  options: CLI_JSON_OPTION,
  async run({ words, has }) {
    if (words.length > 0) throw new CliUsageError('')
    const config = loadConfig()
    const publicUrl = config.publicUrl ?? `http://${hostInUrl(config.host)}:${config.port}`
    const code = await withStationDatabase(({ sql }) =>
      createInspectorCodeStore(sql).issue(CODE_SECONDS),
    )
    const url = toInspectorLink(publicUrl, code)
    if (has('json')) printJson({ url, expires_in_seconds: CODE_SECONDS })
    else printLine(url)
    if (!config.inspector) console.error('INSPECTOR is off in these settings')
    return 0
  },
}
