import { SettingsSchema } from '../../app/settings.ts'
import { writeGeneratedSection, markdownTable } from './write-generated.ts'

interface Setting {
  readonly description?: string
  readonly must?: string
  readonly unset?: string
  readonly default?: unknown
}

const settings = Object.entries(SettingsSchema.properties as Record<string, Setting>)
const rows = settings.map(([name, { description = '', must = '', unset, default: standard }]) => [
  `\`${name}\``,
  unset ?? `\`${String(standard)}\``,
  `${description} ${must.charAt(0).toUpperCase()}${must.slice(1)}.`,
])

/** The configuration table of the README, made from the schema that checks the settings. */
writeGeneratedSection(
  'README.md',
  'config',
  markdownTable(['Setting', 'When unset', 'Meaning'], rows),
)
