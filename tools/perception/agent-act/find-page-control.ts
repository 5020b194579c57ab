import type {
  FormWithControls,
  FormControl,
  FormsAndLinks,
  PageAnchor,
} from '../../../providers/pages/content/parse-page-forms-and-links.ts'

/** A control and its form, by index in the page. */
export interface FormControlLocation {
  readonly form: number
  readonly control: number
}

type ControlTest = (control: FormControl) => boolean

/** Names are cut here, since a page may contain names as long as itself. */
const MAX_NAME_CHARS = 200
const TRAILING_MARKS = new Set([' ', ':', '*'])

/** Normalises whitespace, and removes the marks that forms put after labels. */
function normalizeLabel(text: string): string {
  const line = text.slice(0, MAX_NAME_CHARS).replace(/\s+/g, ' ').trim()
  let end = line.length
  while (TRAILING_MARKS.has(line[end - 1] ?? '')) end -= 1
  return line.slice(0, end).toLowerCase()
}

/** Splits identifiers into words: `first_name`, `first-name`, `firstName`. */
const splitIdentifier = (text: string): string =>
  normalizeLabel(
    text
      .slice(0, MAX_NAME_CHARS)
      .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
      .replace(/[_\-[\].]+/g, ' '),
  )

/** Quality of a match: by visible label, by an identifier, by a part of either. */
const MATCH_LEVELS = ['said', 'named', 'part'] as const
type MatchLevel = (typeof MATCH_LEVELS)[number]

/**
 * Finds controls of these kinds, best first: by label, by name, id and placeholder, then by a part of these.
 * A browser session uses the same levels.
 */
export function findFormControls(
  { forms }: FormsAndLinks,
  kinds: readonly FormControl['kind'][],
  name: string,
  levels: readonly MatchLevel[] = MATCH_LEVELS,
): FormControlLocation[] {
  const testsByLevel = controlTests(name)
  const all = forms.flatMap(({ controls }, form) =>
    controls.flatMap((given, control) =>
      kinds.includes(given.kind) && !given.disabled ? [{ given, form, control }] : [],
    ),
  )
  return levels
    .flatMap((level) => testsByLevel[level])
    .flatMap((test) => all.filter(({ given }) => test(given)))
}

function controlTests(name: string): Readonly<Record<MatchLevel, readonly ControlTest[]>> {
  const wanted = normalizeLabel(name)
  const part = (text: string) => wanted !== '' && normalizeLabel(text).includes(wanted)
  const whole = (text: string) => normalizeLabel(text) === wanted
  return {
    said: [({ labels }) => labels.some(whole)],
    named: [
      (control) => whole(control.name) || name === `#${control.id}`,
      ({ id }) => whole(id),
      ({ placeholder }) => whole(placeholder),
      ({ name: own, id }) => splitIdentifier(own) === wanted || splitIdentifier(id) === wanted,
    ],
    part: [
      (control) => (control.kind === 'tick' ? whole(control.value) : whole(control.type)),
      ({ labels }) => labels.some(part),
      ({ placeholder }) => part(placeholder),
      ({ name: own }) => part(own),
    ],
  }
}

/** Finds a link by its text, its id, or a part of its text. */
function findLink(
  { links }: FormsAndLinks,
  name: string,
  level: MatchLevel,
): PageAnchor | undefined {
  const wanted = normalizeLabel(name)
  const tests: Readonly<Record<MatchLevel, (link: PageAnchor) => boolean>> = {
    said: ({ text }) => normalizeLabel(text) === wanted,
    named: ({ id }) => id !== '' && (normalizeLabel(id) === wanted || name === `#${id}`),
    part: ({ text }) => wanted !== '' && normalizeLabel(text).includes(wanted),
  }
  return links.find(tests[level])
}

type Clickable =
  | { readonly button: FormControlLocation }
  | { readonly link: PageAnchor }
  | { readonly box: FormControlLocation }

/** Finds what to click under this name; exact matches come before partial ones. */
export function findClickable(page: FormsAndLinks, name: string): Clickable | null {
  for (const level of MATCH_LEVELS) {
    const [button] = findFormControls(page, ['submit'], name, [level])
    if (button !== undefined) return { button }
    const link = findLink(page, name, level)
    if (link !== undefined) return { link }
    const [box] = findFormControls(page, ['tick'], name, [level])
    if (box !== undefined) return { box }
  }
  return null
}

/** Returns the index of the form, or -1. */
export function findFormIndex({ forms }: FormsAndLinks, name: string): number {
  const wanted = normalizeLabel(name)
  const tests: ((form: FormWithControls) => boolean)[] = [
    (form) => [form.name, form.id, form.label].some((text) => normalizeLabel(text) === wanted),
    (form) =>
      name === `#${form.id}` ||
      [form.name, form.id].some((text) => splitIdentifier(text) === wanted),
    ({ controls }) =>
      controls.some(
        ({ kind, labels }) =>
          kind === 'submit' && labels.some((text) => normalizeLabel(text) === wanted),
      ),
    ({ name: own, id }) =>
      [own, id].some((text) => splitIdentifier(text).split(' ').includes(wanted)),
    ({ text }) => wanted !== '' && normalizeLabel(text).includes(wanted),
  ]
  for (const test of tests) {
    const place = forms.findIndex((form) => form.action !== null && test(form))
    if (place >= 0) return place
  }
  return -1
}

/** Returns the index of an option by text or value, or -1. */
export function findSelectOptionIndex({ options }: FormControl, name: string): number {
  const wanted = normalizeLabel(name)
  const by = (test: (option: FormControl['options'][number]) => boolean) =>
    options.findIndex((option) => !option.disabled && test(option))
  const shown = by(({ text }) => normalizeLabel(text) === wanted)
  return shown >= 0 ? shown : by(({ value }) => normalizeLabel(value) === wanted)
}
