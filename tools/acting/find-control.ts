import type { FilledForm, PageControl, PageControls, PlainLink } from '../pages/forms.ts'

/** A control with the form it is in, by their places in the page. */
export interface Found {
  readonly form: number
  readonly control: number
}

type Test = (control: PageControl) => boolean

/** Nothing is called by more than this; what a page says may be as long as the page. */
const LONGEST = 200
const MARKS = new Set([' ', ':', '*'])

/** A name without blanks too many, and without the marks that forms put behind one. */
function plain(text: string): string {
  const line = text.slice(0, LONGEST).replace(/\s+/g, ' ').trim()
  let end = line.length
  while (MARKS.has(line[end - 1] ?? '')) end -= 1
  return line.slice(0, end).toLowerCase()
}

/** Words of a name that is written together: `first_name`, `first-name`, `firstName`. */
const words = (text: string): string =>
  plain(
    text
      .slice(0, LONGEST)
      .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
      .replace(/[_\-[\].]+/g, ' '),
  )

/** How well a name is met: by what a thing says, by the names that it has in the page, by a part of them. */
const RUNGS = ['said', 'named', 'part'] as const
type Rung = (typeof RUNGS)[number]

/**
 * Controls of these kinds that a person would call so, the best first: by label, by name, id and
 * placeholder, then by a part of these. A browser session has the same rungs.
 */
export function controlsCalled(
  { forms }: PageControls,
  kinds: readonly PageControl['kind'][],
  name: string,
  rungs: readonly Rung[] = RUNGS,
): Found[] {
  const ladders = controlTests(name)
  const all = forms.flatMap(({ controls }, form) =>
    controls.flatMap((given, control) =>
      kinds.includes(given.kind) && !given.disabled ? [{ given, form, control }] : [],
    ),
  )
  return rungs
    .flatMap((rung) => ladders[rung])
    .flatMap((test) => all.filter(({ given }) => test(given)))
}

function controlTests(name: string): Readonly<Record<Rung, readonly Test[]>> {
  const wanted = plain(name)
  const part = (text: string) => wanted !== '' && plain(text).includes(wanted)
  const whole = (text: string) => plain(text) === wanted
  return {
    said: [({ labels }) => labels.some(whole)],
    named: [
      (control) => whole(control.name) || name === `#${control.id}`,
      ({ id }) => whole(id),
      ({ placeholder }) => whole(placeholder),
      ({ name: own, id }) => words(own) === wanted || words(id) === wanted,
    ],
    part: [
      (control) => (control.kind === 'tick' ? whole(control.value) : whole(control.type)),
      ({ labels }) => labels.some(part),
      ({ placeholder }) => part(placeholder),
      ({ name: own }) => part(own),
    ],
  }
}

/** A link that says this, has this id, or says this among other things. */
function linkCalled({ links }: PageControls, name: string, rung: Rung): PlainLink | undefined {
  const wanted = plain(name)
  const tests: Readonly<Record<Rung, (link: PlainLink) => boolean>> = {
    said: ({ text }) => plain(text) === wanted,
    named: ({ id }) => id !== '' && (plain(id) === wanted || name === `#${id}`),
    part: ({ text }) => wanted !== '' && plain(text).includes(wanted),
  }
  return links.find(tests[rung])
}

type Clickable = { readonly button: Found } | { readonly link: PlainLink } | { readonly box: Found }

/** What is clicked under this name: what is called just so comes before all that is called so in part. */
export function clickableCalled(page: PageControls, name: string): Clickable | null {
  for (const rung of RUNGS) {
    const [button] = controlsCalled(page, ['submit'], name, [rung])
    if (button !== undefined) return { button }
    const link = linkCalled(page, name, rung)
    if (link !== undefined) return { link }
    const [box] = controlsCalled(page, ['tick'], name, [rung])
    if (box !== undefined) return { box }
  }
  return null
}

/** The place of the form that is meant, or -1. */
export function formCalled({ forms }: PageControls, name: string): number {
  const wanted = plain(name)
  const ladder: ((form: FilledForm) => boolean)[] = [
    (form) => [form.name, form.id, form.label].some((text) => plain(text) === wanted),
    (form) => name === `#${form.id}` || [form.name, form.id].some((text) => words(text) === wanted),
    ({ controls }) =>
      controls.some(
        ({ kind, labels }) => kind === 'submit' && labels.some((text) => plain(text) === wanted),
      ),
    ({ name: own, id }) => [own, id].some((text) => words(text).split(' ').includes(wanted)),
    ({ text }) => wanted !== '' && plain(text).includes(wanted),
  ]
  for (const test of ladder) {
    const place = forms.findIndex((form) => form.action !== null && test(form))
    if (place >= 0) return place
  }
  return -1
}

/** Of an option, by its text or its value; -1 where there is none. */
export function optionCalled({ options }: PageControl, name: string): number {
  const wanted = plain(name)
  const by = (test: (option: PageControl['options'][number]) => boolean) =>
    options.findIndex((option) => !option.disabled && test(option))
  const shown = by(({ text }) => plain(text) === wanted)
  return shown >= 0 ? shown : by(({ value }) => plain(value) === wanted)
}
