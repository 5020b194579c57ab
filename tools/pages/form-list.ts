import type { Listed } from './contents.ts'
import { formsOf, type FilledForm, type PageControl } from './forms.ts'
import type { PageField, PageForm } from './port.ts'
import type { PageElement } from './tree.ts'

const MOST_FORMS = 50
const MOST_FIELDS = 100
const MOST_OPTIONS = 50
const LONGEST = 200
const BUTTONS = new Set<PageControl['kind']>(['submit', 'other'])

/** The forms of a page, as a person would fill them in. */
export function listForms(root: PageElement, page: URL, base: URL): Listed<PageForm> {
  // What leads nowhere is no form: controls of scripts, addresses that are none.
  const all = formsOf(root, page, base).forms
  const forms = all.filter(({ action }) => action !== null)
  const list = forms.slice(0, MOST_FORMS).map(presented)
  const more =
    all.some(({ cut }) => cut) ||
    forms.length > MOST_FORMS ||
    forms.some((form) => fieldsOf(form).length > MOST_FIELDS)
  return { list, more }
}

const fieldsOf = ({ controls }: FilledForm): PageControl[] =>
  controls.filter(({ kind }) => !BUTTONS.has(kind))

function presented(form: FilledForm): PageForm {
  const button = form.controls.find(({ kind }) => kind === 'submit')
  return {
    action: form.action ?? '',
    method: form.method === 'post' ? 'post' : 'get',
    fields: fieldsOf(form).slice(0, MOST_FIELDS).map(field),
    submit: button?.labels[0] ?? '',
  }
}

function field({
  name,
  type,
  kind,
  labels,
  placeholder,
  required,
  options,
}: PageControl): PageField {
  return {
    name: name.slice(0, LONGEST),
    type: type.slice(0, LONGEST),
    label: kind === 'hidden' ? '' : (labels[0] ?? placeholder),
    required,
    ...(kind === 'choice'
      ? { options: options.slice(0, MOST_OPTIONS).map(({ text }) => text) }
      : {}),
  }
}
