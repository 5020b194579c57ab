import { absolute, actionOf } from './address.ts'
import { elementsOf, lineOf, rawText, type PageElement } from './tree.ts'

export interface ControlOption {
  readonly text: string
  readonly value: string
  readonly selected: boolean
  readonly disabled: boolean
}

/** A control as it stands in the page, with what it would send. */
export interface PageControl {
  readonly kind: 'text' | 'choice' | 'tick' | 'hidden' | 'file' | 'submit' | 'other'
  readonly name: string
  /** Of an input; else the name of the element. */
  readonly type: string
  readonly id: string
  readonly value: string
  readonly checked: boolean
  /** What it is called for people, the best name first. */
  readonly labels: readonly string[]
  readonly placeholder: string
  readonly options: readonly ControlOption[]
  readonly multiple: boolean
  readonly required: boolean
  /** Neither sent nor changed. */
  readonly disabled: boolean
  readonly readonly: boolean
  /** Where this button sends its form instead; empty where that is nowhere that can be asked. */
  readonly formAction: string | null
  readonly formMethod: string | null
}

/** A form with all it would send. */
export interface FilledForm {
  /**
   * Absolute; null where it leads nowhere that can be asked, the controls are in no form, or there are
   * too many to read: half a form is not sent.
   */
  readonly action: string | null
  readonly method: string
  readonly enctype: string
  readonly name: string
  readonly id: string
  readonly label: string
  readonly text: string
  readonly noValidate: boolean
  readonly controls: readonly PageControl[]
  /** No form of the page: these controls are in none, and none of them sends anything. */
  readonly loose: boolean
  /** It has more controls than these. */
  readonly cut: boolean
}

export interface PlainLink {
  readonly text: string
  readonly id: string
  /** Absolute; null for one that only a script follows. */
  readonly url: string | null
}

export interface PageControls {
  /** The last one holds what is in no form, where there is such a thing. */
  readonly forms: readonly FilledForm[]
  readonly links: readonly PlainLink[]
}

const MOST_FORMS = 200
const MOST_CONTROLS = 5_000
const MOST_OPTIONS = 20_000
const MOST_LINKS = 5_000
const LONGEST_LABEL = 200
const LONGEST_OPTION = 4_096
/** Of all there is in the forms and links of a page; in characters. */
const MOST_CHARACTERS = 2 * 1024 * 1024
const CONTROLS = new Set(['input', 'select', 'textarea', 'button'])
const NOT_WRITTEN = new Set(['submit', 'image', 'button', 'reset'])

/** What the addresses of a page depend on. */
interface Place {
  readonly page: URL
  readonly base: URL
}

/** A form while its controls are found. */
interface Gathered {
  readonly element: PageElement | null
  readonly controls: PageControl[]
  /** Some of its controls are not here. */
  cut: boolean
}

/** Every form of a page as it would be sent now, and every link; forms first where it is too much. */
export function formsOf(root: PageElement, page: URL, base: URL): PageControls {
  const place = { page, base }
  const labels = labelsOf(root)
  const elements = elementsOf(root)
  const { forms, byElement, byId } = emptyForms(elements)
  const loose: Gathered = { element: null, controls: [], cut: false }
  let [controls, options, left] = [0, 0, MOST_CHARACTERS]

  for (const element of elements) {
    if (!CONTROLS.has(element.name)) continue
    const named = element.attributes.get('form')
    const form = (named === undefined ? aroundIn(element, byElement) : byId.get(named)) ?? loose
    controls += 1
    form.cut ||= controls > MOST_CONTROLS || left <= 0
    if (form.cut) continue
    const control = controlOf(element, place, labels, MOST_OPTIONS - options)
    options += control.options.length
    left -= sizeOf(control)
    if (left < 0) form.cut = true
    else form.controls.push(control)
  }
  const all = loose.controls.length > 0 ? [...forms, loose] : forms
  const found = all.map((form) => formOf(form, place))
  left -= found.reduce((sum, form) => sum + sizeOf({ ...form, controls: [] }), 0)
  return { forms: found, links: linksOf(elements, base, left) }
}

function emptyForms(elements: readonly PageElement[]) {
  const forms: Gathered[] = []
  const byElement = new Map<PageElement, Gathered>()
  const byId = new Map<string, Gathered>()
  for (const element of elements) {
    if (element.name !== 'form' || forms.length >= MOST_FORMS) continue
    const form = { element, controls: [], cut: false }
    forms.push(form)
    byElement.set(element, form)
    const id = element.attributes.get('id')
    if (id !== undefined && !byId.has(id)) byId.set(id, form)
  }
  return { forms, byElement, byId }
}

function linksOf(elements: readonly PageElement[], base: URL, most: number): PlainLink[] {
  const links: PlainLink[] = []
  let left = most
  for (const element of elements) {
    if (element.name !== 'a') continue
    if (links.length === MOST_LINKS) break
    const link = linkOf(element, base)
    left -= sizeOf(link)
    if (left < 0) break
    links.push(link)
  }
  return links
}

/** Of all texts in it, in characters; what is no text counts little. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  return Object.values(value).reduce((sum: number, one) => sum + sizeOf(one), 0)
}

function aroundIn<T>(element: PageElement, forms: ReadonlyMap<PageElement, T>): T | undefined {
  for (let at = element.parent; at !== null; at = at.parent) {
    const form = forms.get(at)
    if (form !== undefined) return form
  }
  return undefined
}

function formOf({ element, controls, cut }: Gathered, { page, base }: Place): FilledForm {
  const of = (name: string) => element?.attributes.get(name)?.trim() ?? ''
  return {
    action: element === null || cut ? null : asked(actionOf(of('action'), page, base)),
    method: of('method').toLowerCase() || 'get',
    enctype: of('enctype').toLowerCase(),
    name: of('name'),
    id: of('id'),
    label: of('aria-label'),
    text: element === null ? '' : lineOf(element, LONGEST_LABEL),
    noValidate: element?.attributes.has('novalidate') ?? true,
    controls,
    loose: element === null,
    cut,
  }
}

function linkOf(element: PageElement, base: URL): PlainLink {
  const { attributes } = element
  const shown = lineOf(element, LONGEST_LABEL)
  const text =
    shown === '' ? (attributes.get('aria-label') ?? attributes.get('title') ?? '') : shown
  const href = attributes.get('href')
  const url = href === undefined ? null : asked(absolute(href, base))
  return { text: text.slice(0, LONGEST_LABEL), id: attributes.get('id') ?? '', url }
}

const asked = (url: URL | null): string | null =>
  url !== null && /^https?:$/.test(url.protocol) ? url.href : null

function controlOf(
  element: PageElement,
  { page, base }: Place,
  labels: Labels,
  mostOptions: number,
): PageControl {
  const { attributes, name: tag } = element
  const of = (name: string) => attributes.get(name) ?? ''
  const type = tag === 'input' ? of('type').toLowerCase() || 'text' : tag
  const kind = kindOf(element, type)
  const text = tag === 'textarea' ? rawText(element).replace(/^\r?\n/, '') : of('value')
  const formAction = attributes.get('formaction')
  return {
    kind,
    name: of('name'),
    type,
    id: of('id'),
    value: kind === 'tick' && !attributes.has('value') ? 'on' : text,
    checked: attributes.has('checked'),
    labels: namesOf(element, labels, kind),
    placeholder: of('placeholder').slice(0, LONGEST_LABEL),
    options: tag === 'select' ? optionsOf(element, mostOptions) : [],
    multiple: attributes.has('multiple'),
    required: attributes.has('required'),
    disabled: isDisabled(element),
    readonly: attributes.has('readonly'),
    formAction: formAction === undefined ? null : (asked(actionOf(formAction, page, base)) ?? ''),
    formMethod: attributes.get('formmethod')?.toLowerCase() ?? null,
  }
}

function kindOf({ name: tag, attributes }: PageElement, type: string): PageControl['kind'] {
  if (tag === 'select') return 'choice'
  if (tag === 'textarea') return 'text'
  if (tag === 'button') {
    const does = attributes.get('type')?.toLowerCase() ?? 'submit'
    return does === 'button' || does === 'reset' ? 'other' : 'submit'
  }
  if (type === 'checkbox' || type === 'radio') return 'tick'
  if (type === 'hidden' || type === 'file') return type
  if (NOT_WRITTEN.has(type)) return type === 'submit' || type === 'image' ? 'submit' : 'other'
  return 'text'
}

function isDisabled(element: PageElement): boolean {
  if (element.attributes.has('disabled')) return true
  for (let at = element.parent; at !== null; at = at.parent)
    if (at.name === 'fieldset' && at.attributes.has('disabled')) return true
  return false
}

function optionsOf(list: PageElement, most: number): ControlOption[] {
  const options: ControlOption[] = []
  for (const element of elementsOf(list)) {
    if (options.length >= most) break
    if (element.name !== 'option') continue
    const text = lineOf(element, LONGEST_OPTION)
    const { attributes } = element
    options.push({
      text: text.slice(0, LONGEST_LABEL),
      value: (attributes.get('value') ?? text).slice(0, LONGEST_OPTION),
      selected: attributes.has('selected'),
      disabled: attributes.has('disabled'),
    })
  }
  return options
}

interface Labels {
  /** By the id that a label names. */
  readonly named: ReadonlyMap<string, string>
  /** By the id of whatever may be named by `aria-labelledby`. */
  readonly elements: ReadonlyMap<string, PageElement>
}

function labelsOf(root: PageElement): Labels {
  const named = new Map<string, string>()
  const elements = new Map<string, PageElement>()
  for (const element of elementsOf(root)) {
    const id = element.attributes.get('id')
    if (id !== undefined && !elements.has(id)) elements.set(id, element)
    const of = element.name === 'label' ? element.attributes.get('for') : undefined
    if (of !== undefined && !named.has(of)) named.set(of, lineOf(element, LONGEST_LABEL))
  }
  return { named, elements }
}

function namesOf(element: PageElement, labels: Labels, kind: PageControl['kind']): string[] {
  const { attributes } = element
  const by = attributes.get('aria-labelledby')?.trim().split(/\s+/)[0] ?? ''
  const speaking = labels.elements.get(by)
  const around = labelAround(element)
  const own = kind === 'submit' || kind === 'other' ? buttonText(element) : undefined
  const names = [
    own,
    labels.named.get(attributes.get('id') ?? '\0'),
    around === null ? undefined : lineOf(around, LONGEST_LABEL),
    speaking === undefined ? undefined : lineOf(speaking, LONGEST_LABEL),
    attributes.get('aria-label'),
    attributes.get('title'),
  ]
  return names.flatMap((name) =>
    name === undefined || name.trim() === '' ? [] : [name.trim().slice(0, LONGEST_LABEL)],
  )
}

const buttonText = (element: PageElement): string | undefined =>
  element.name === 'button'
    ? lineOf(element, LONGEST_LABEL)
    : (element.attributes.get('value') ?? element.attributes.get('alt'))

function labelAround(element: PageElement): PageElement | null {
  for (let at = element.parent; at !== null && at.name !== 'form'; at = at.parent)
    if (at.name === 'label') return at
  return null
}
