import type { ChangelogRelease } from './station-updates-port.ts'

/** Parses the changelog of the station. */

const HEADING = /^## (\S+)(?: \((.+)\))?$/
const DAY = /^\d{4}-\d{2}-\d{2}$/

/**
 * Parses `## version (day)` headings, the topic lines below them, and their points. Continuation lines are
 * joined.
 */
export function parseChangelog(changelog: string): ChangelogRelease[] {
  const releases: (ChangelogRelease & { notes: { about: string; text: string }[] })[] = []
  let about = ''
  let open: { text: string } | null = null
  for (const line of changelog.split(/\r?\n/)) {
    const heading = HEADING.exec(line)
    const release = releases.at(-1)
    if (heading !== null) {
      const [, version = '', day = ''] = heading
      releases.push({ version, releasedOn: DAY.test(day) ? day : null, notes: [] })
      about = ''
      open = null
    } else if (release === undefined || line.trim() === '') {
      open = null
    } else if (line.startsWith('- ')) {
      const note = { about, text: line.slice(2).trim() }
      release.notes.push(note)
      open = note
    } else if (open !== null) {
      open.text = `${open.text} ${line.trim()}`
    } else about = line.trim().replace(/\.$/, '')
  }
  return releases
}
