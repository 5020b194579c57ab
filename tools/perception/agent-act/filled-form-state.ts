import type {
  FormWithControls,
  FormControl,
} from '../../../providers/pages/content/parse-page-forms-and-links.ts'

/** The values entered into a form so far. */
export interface FilledFormState {
  readonly form: FormWithControls
  readonly controls: FormControlState[]
}

export interface FormControlState {
  readonly control: FormControl
  value: string
  checked: boolean
  /** Indexes of the selected options. */
  chosen: readonly number[]
}

export function createFilledFormState(form: FormWithControls): FilledFormState {
  const controls = form.controls.map((control) => {
    const { value, checked } = control
    return { control, value, checked, chosen: initialOptionIndexes(control) }
  })
  return { form, controls }
}

/** A single-choice list always has a selected option. */
function initialOptionIndexes({ kind, options, multiple }: FormControl): readonly number[] {
  if (kind !== 'choice') return []
  const selected = options.flatMap(({ selected: is }, place) => (is ? [place] : []))
  if (multiple) return selected
  const last = selected.at(-1) ?? options.findIndex(({ disabled }) => !disabled)
  return last < 0 ? [] : [last]
}

/** Checks a control and unchecks the others of its radio group. */
export function checkRadioOrCheckboxControl(
  { controls }: FilledFormState,
  state: FormControlState,
): void {
  const { type, name } = state.control
  if (type === 'radio' && name !== '')
    for (const other of controls)
      if (other.control.type === 'radio' && other.control.name === name) other.checked = false
  state.checked = true
}

/** Returns the name of a missing required field; null where the form is complete or not validated. */
export function findMissingFormField({ form, controls }: FilledFormState): string | null {
  if (form.noValidate) return null
  const empty = controls.find(({ control, value, checked, chosen }) => {
    if (control.disabled || control.readonly) return false
    if (control.type === 'email' && value !== '' && !/^[^\s@]+@[^\s@]+$/.test(value)) return true
    if (!control.required) return false
    if (control.kind === 'text') return value === ''
    if (control.kind === 'file') return true
    if (control.kind === 'choice') return !chosen.some((at) => control.options[at]?.value !== '')
    if (control.kind !== 'tick' || checked) return false
    const { name, type } = control
    return !(type === 'radio' && controls.some((one) => one.control.name === name && one.checked))
  })
  if (empty === undefined) return null
  const { labels, name, id } = empty.control
  return labels[0] ?? (name || id || 'a field')
}

/** A submitted name and value. */
interface FormEntry {
  readonly name: string
  readonly value: string
  readonly file: boolean
}

/** Returns what the form submits with this button, in page order. */
function entriesOf({ controls }: FilledFormState, button: FormControl | null): FormEntry[] {
  return controls.flatMap(({ control, value, checked, chosen }) => {
    const { name, kind, disabled, options } = control
    if (disabled) return []
    const entry = (text: string) => [{ name, value: text, file: false }]
    if (kind === 'submit') {
      if (control !== button) return []
      if (control.type !== 'image') return name === '' ? [] : entry(value)
      const prefix = name === '' ? '' : `${name}.`
      return ['x', 'y'].map((axis) => ({ name: `${prefix}${axis}`, value: '0', file: false }))
    }
    if (name === '' || kind === 'other') return []
    if (kind === 'file') return [{ name, value: '', file: true }]
    if (kind === 'tick') return checked ? entry(value) : []
    if (kind === 'choice')
      return chosen.flatMap((at) => (options[at] === undefined ? [] : entry(options[at].value)))
    return entry(value)
  })
}

export interface FormSubmissionRequest {
  readonly method: 'GET' | 'POST'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** Returns the target of the form with this button, as browsers resolve it: the button's attribute wins. */
function targetOf(form: FormWithControls, button: FormControl | null): string | null {
  if (form.isTruncated || form.isFormless) return null
  return (button?.formAction ?? form.action) || null
}

/** Returns the request that submits a form; null without a valid target. `boundary` is for multipart. */
export function toFormSubmissionRequest(
  state: FilledFormState,
  button: FormControl | null,
  boundary: string,
): FormSubmissionRequest | null {
  const { form } = state
  const action = targetOf(form, button)
  const method = button?.formMethod ?? form.method
  if (action === null || method === 'dialog') return null
  const entries = entriesOf(state, button)
  if (method !== 'post') {
    const url = new URL(action)
    url.search = encoded(entries)
    url.hash = ''
    return { method: 'GET', url: url.href, headers: {} }
  }
  const posted = (type: string, body: string) =>
    ({ method: 'POST', url: action, headers: { 'content-type': type }, body }) as const
  if (form.enctype === 'multipart/form-data')
    return posted(`multipart/form-data; boundary=${boundary}`, multipart(entries, boundary))
  if (form.enctype === 'text/plain')
    return posted('text/plain', entries.map(({ name, value }) => `${name}=${value}\r\n`).join(''))
  return posted('application/x-www-form-urlencoded', encoded(entries))
}

const lines = (text: string): string => text.replace(/\r\n|\r|\n/g, '\r\n')

function encoded(entries: readonly FormEntry[]): string {
  const pairs = entries.map(({ name, value }): [string, string] => [lines(name), lines(value)])
  return new URLSearchParams(pairs).toString()
}

const escaped = (name: string): string =>
  lines(name).replace(/\r\n/g, '%0D%0A').replace(/"/g, '%22')

function multipart(entries: readonly FormEntry[], boundary: string): string {
  const parts = entries.map(({ name, value, file }) => {
    const head = `--${boundary}\r\ncontent-disposition: form-data; name="${escaped(name)}"`
    const kind = file ? '; filename=""\r\ncontent-type: application/octet-stream' : ''
    return `${head}${kind}\r\n\r\n${lines(value)}\r\n`
  })
  return `${parts.join('')}--${boundary}--\r\n`
}
