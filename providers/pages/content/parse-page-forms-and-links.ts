import { resolvePageHref, formActionUrl } from '../html/page-urls.ts'
import {
  descendantElements,
  elementTextLine,
  directElementText,
  type HtmlElement,
} from '../html/html-parser.ts'

/** Parses forms, controls and links of a page. */

export interface FormControlOption {
  readonly text: string
  readonly value: string
  readonly selected: boolean
  readonly disabled: boolean
}

/** A control with the value it would submit. */
export interface FormControl {
  readonly kind: 'text' | 'choice' | 'tick' | 'hidden' | 'file' | 'submit' | 'other'
  readonly name: string
  /** The type of an input; else the element's name. */
  readonly type: string
  readonly id: string
  readonly value: string
  readonly checked: boolean
  /** Labels for people, best first. */
  readonly labels: readonly string[]
  readonly placeholder: string
  readonly options: readonly FormControlOption[]
  readonly multiple: boolean
  readonly required: boolean
  /** Neither submitted nor editable. */
  readonly disabled: boolean
  readonly readonly: boolean
  /** The target of this button instead of its form's; empty for an invalid one. */
  readonly formAction: string | null
  readonly formMethod: string | null
}

/** A form with everything it would submit. */
export interface FormWithControls {
  /**
   * Absolute. Null for an invalid target, for controls outside a form, and for a form with too many controls
   * to parse, since half a form is not submitted.
   */
  readonly action: string | null
  readonly method: string
  readonly enctype: string
  readonly name: string
  readonly id: string
  readonly label: string
  readonly text: string
  readonly noValidate: boolean
  readonly controls: readonly FormControl[]
  /** Collects the controls outside any form, which submit nothing. */
  readonly isFormless: boolean
  /** The form has more controls than these. */
  readonly isTruncated: boolean
}

export interface PageAnchor {
  readonly text: string
  readonly id: string
  /** Absolute; null for a link that only a script follows. */
  readonly url: string | null
}

export interface FormsAndLinks {
  /** The last one holds the controls outside any form, if there are some. */
  readonly forms: readonly FormWithControls[]
  readonly links: readonly PageAnchor[]
}

const MAX_PARSED_FORMS = 200
const MAX_FORM_CONTROLS = 5_000
const MAX_CONTROL_OPTIONS = 20_000
const MAX_ANCHORS = 5_000
const MAX_LABEL_CHARS = 200
const MAX_OPTION_CHARS = 4_096
/** Characters over all forms and links of a page. */
const MAX_FORMS_CHARS = 2 * 1024 * 1024
const CONTROL_ELEMENTS = new Set(['input', 'select', 'textarea', 'button'])
const BUTTON_INPUT_TYPES = new Set(['submit', 'image', 'button', 'reset'])

/** The URLs that relative addresses depend on. */
interface PageUrls {
  readonly page: URL
  readonly base: URL
}

/** A form whose controls are being collected. */
interface CollectedForm {
  readonly element: HtmlElement | null
  readonly controls: FormControl[]
  /** Some of its controls are missing. */
  cut: boolean
}

/**
 * Returns every form as it would be submitted now, and every link; forms come first where the limit is
 * reached.
 */
export function parseFormsAndLinks(root: HtmlElement, page: URL, base: URL): FormsAndLinks {
  const place = { page, base }
  const labels = indexLabels(root)
  const elements = descendantElements(root)
  const { forms, around, byId } = collectForms(elements)
  const loose: CollectedForm = { element: null, controls: [], cut: false }
  let [controls, options, left] = [0, 0, MAX_FORMS_CHARS]

  for (const element of elements) {
    if (!CONTROL_ELEMENTS.has(element.name)) continue
    const named = element.attributes.get('form')
    const form = (named === undefined ? around.get(element) : byId.get(named)) ?? loose
    controls += 1
    form.cut ||= controls > MAX_FORM_CONTROLS || left <= 0
    if (form.cut) continue
    const control = toFormControl(element, place, labels, MAX_CONTROL_OPTIONS - options)
    options += control.options.length
    left -= textChars(control)
    if (left < 0) form.cut = true
    else form.controls.push(control)
  }
  const all = loose.controls.length > 0 ? [...forms, loose] : forms
  // Labels may be missing.
  if (root.budget.left <= 0) for (const form of all) form.cut = true
  const found = all.map((form) => toFormWithControls(form, place))
  left -= found.reduce((sum, form) => sum + textChars({ ...form, controls: [] }), 0)
  return { forms: found, links: parseAnchors(elements, base, left) }
}

function collectForms(elements: readonly HtmlElement[]) {
  const forms: CollectedForm[] = []
  /** By what is in them, since looking upwards would take as long as the page is deep. */
  const around = new Map<HtmlElement, CollectedForm>()
  const byId = new Map<string, CollectedForm>()
  for (const element of elements) {
    const outer = element.parent === null ? undefined : around.get(element.parent)
    if (outer !== undefined) around.set(element, outer)
    if (element.name !== 'form' || forms.length >= MAX_PARSED_FORMS) continue
    const form = { element, controls: [], cut: false }
    forms.push(form)
    around.set(element, form)
    const id = element.attributes.get('id')
    if (id !== undefined && !byId.has(id)) byId.set(id, form)
  }
  return { forms, around, byId }
}

function parseAnchors(elements: readonly HtmlElement[], base: URL, limit: number): PageAnchor[] {
  const links: PageAnchor[] = []
  let left = limit
  for (const element of elements) {
    if (element.name !== 'a') continue
    if (links.length === MAX_ANCHORS) break
    const link = toPageAnchor(element, base)
    left -= textChars(link)
    if (left < 0) break
    links.push(link)
  }
  return links
}

/** Counts the characters of all strings in a value, and a little for other values. */
function textChars(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  return Object.values(value).reduce((sum: number, one) => sum + textChars(one), 0)
}

function toFormWithControls(
  { element, controls, cut: isTruncated }: CollectedForm,
  { page, base }: PageUrls,
): FormWithControls {
  const of = (name: string) => element?.attributes.get(name)?.trim() ?? ''
  return {
    action:
      element === null || isTruncated ? null : toHttpHref(formActionUrl(of('action'), page, base)),
    method: of('method').toLowerCase() || 'get',
    enctype: of('enctype').toLowerCase(),
    name: of('name'),
    id: of('id'),
    label: of('aria-label'),
    text: element === null ? '' : elementTextLine(element, MAX_LABEL_CHARS),
    noValidate: element?.attributes.has('novalidate') ?? true,
    controls,
    isFormless: element === null,
    isTruncated,
  }
}

function toPageAnchor(element: HtmlElement, base: URL): PageAnchor {
  const { attributes } = element
  const shown = elementTextLine(element, MAX_LABEL_CHARS)
  const text =
    shown === '' ? (attributes.get('aria-label') ?? attributes.get('title') ?? '') : shown
  const href = attributes.get('href')
  const url = href === undefined ? null : toHttpHref(resolvePageHref(href, base))
  return { text: text.slice(0, MAX_LABEL_CHARS), id: attributes.get('id') ?? '', url }
}

const toHttpHref = (url: URL | null): string | null =>
  url !== null && /^https?:$/.test(url.protocol) ? url.href : null

function toFormControl(
  element: HtmlElement,
  { page, base }: PageUrls,
  labels: LabelIndex,
  mostOptions: number,
): FormControl {
  const { attributes, name: tag } = element
  const of = (name: string) => attributes.get(name) ?? ''
  const type = tag === 'input' ? of('type').toLowerCase() || 'text' : tag
  const kind = controlKind(element, type)
  const text = tag === 'textarea' ? directElementText(element).replace(/^\r?\n/, '') : of('value')
  const formAction = attributes.get('formaction')
  return {
    kind,
    name: of('name'),
    type,
    id: of('id'),
    value: kind === 'tick' && !attributes.has('value') ? 'on' : text,
    checked: attributes.has('checked'),
    labels: controlLabels(element, labels, kind),
    placeholder: of('placeholder').slice(0, MAX_LABEL_CHARS),
    options: tag === 'select' ? parseControlOptions(element, mostOptions) : [],
    multiple: attributes.has('multiple'),
    required: attributes.has('required'),
    disabled: isDisabled(element),
    readonly: attributes.has('readonly'),
    formAction:
      formAction === undefined ? null : (toHttpHref(formActionUrl(formAction, page, base)) ?? ''),
    formMethod: attributes.get('formmethod')?.toLowerCase() ?? null,
  }
}

function controlKind({ name: tag, attributes }: HtmlElement, type: string): FormControl['kind'] {
  if (tag === 'select') return 'choice'
  if (tag === 'textarea') return 'text'
  if (tag === 'button') {
    const does = attributes.get('type')?.toLowerCase() ?? 'submit'
    return does === 'button' || does === 'reset' ? 'other' : 'submit'
  }
  if (type === 'checkbox' || type === 'radio') return 'tick'
  if (type === 'hidden' || type === 'file') return type
  if (BUTTON_INPUT_TYPES.has(type))
    return type === 'submit' || type === 'image' ? 'submit' : 'other'
  return 'text'
}

function isDisabled(element: HtmlElement): boolean {
  if (element.attributes.has('disabled')) return true
  for (let at = element.parent; at !== null; at = at.parent)
    if (at.name === 'fieldset' && at.attributes.has('disabled')) return true
  return false
}

function parseControlOptions(list: HtmlElement, limit: number): FormControlOption[] {
  const options: FormControlOption[] = []
  for (const element of descendantElements(list)) {
    if (options.length >= limit) break
    if (element.name !== 'option') continue
    const text = elementTextLine(element, MAX_OPTION_CHARS)
    const { attributes } = element
    options.push({
      text: text.slice(0, MAX_LABEL_CHARS),
      value: (attributes.get('value') ?? text).slice(0, MAX_OPTION_CHARS),
      selected: attributes.has('selected'),
      disabled: attributes.has('disabled'),
    })
  }
  return options
}

interface LabelIndex {
  /** Label texts by the id they are for. */
  readonly named: ReadonlyMap<string, string>
  /** Elements by id, for `aria-labelledby`. */
  readonly elements: ReadonlyMap<string, HtmlElement>
}

function indexLabels(root: HtmlElement): LabelIndex {
  const named = new Map<string, string>()
  const elements = new Map<string, HtmlElement>()
  for (const element of descendantElements(root)) {
    const id = element.attributes.get('id')
    if (id !== undefined && !elements.has(id)) elements.set(id, element)
    const of = element.name === 'label' ? element.attributes.get('for') : undefined
    if (of !== undefined && !named.has(of)) named.set(of, elementTextLine(element, MAX_LABEL_CHARS))
  }
  return { named, elements }
}

function controlLabels(
  element: HtmlElement,
  labels: LabelIndex,
  kind: FormControl['kind'],
): string[] {
  const { attributes } = element
  const by = attributes.get('aria-labelledby')?.trim().split(/\s+/)[0] ?? ''
  const speaking = labels.elements.get(by)
  const around = findEnclosingLabel(element)
  const own = kind === 'submit' || kind === 'other' ? buttonText(element) : undefined
  const names = [
    own,
    labels.named.get(attributes.get('id') ?? '\0'),
    around === null ? undefined : elementTextLine(around, MAX_LABEL_CHARS),
    speaking === undefined ? undefined : elementTextLine(speaking, MAX_LABEL_CHARS),
    attributes.get('aria-label'),
    attributes.get('title'),
  ]
  return names.flatMap((name) =>
    name === undefined || name.trim() === '' ? [] : [name.trim().slice(0, MAX_LABEL_CHARS)],
  )
}

const buttonText = (element: HtmlElement): string | undefined =>
  element.name === 'button'
    ? elementTextLine(element, MAX_LABEL_CHARS)
    : (element.attributes.get('value') ?? element.attributes.get('alt'))

function findEnclosingLabel(element: HtmlElement): HtmlElement | null {
  for (let at = element.parent; at !== null && at.name !== 'form'; at = at.parent)
    if (at.name === 'label') return at
  return null
}
