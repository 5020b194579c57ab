import type { ListWithTruncatedFlag } from './headings-and-links.ts'
import {
  parseFormsAndLinks,
  type FormWithControls,
  type FormControl,
} from './parse-page-forms-and-links.ts'
import type { PageField, PageForm } from '../page-parser-port.ts'
import type { HtmlElement } from '../html/html-parser.ts'

/** Summaries of the forms of a page. */

const MAX_SUMMARIZED_FORMS = 50
const MAX_SUMMARIZED_FIELDS = 100
const MAX_SUMMARIZED_OPTIONS = 50
const MAX_FIELD_TEXT_CHARS = 200
const BUTTON_KINDS = new Set<FormControl['kind']>(['submit', 'other'])

/** Returns the forms of a page as a person would fill them in. */
export function summarizeForms(
  root: HtmlElement,
  page: URL,
  base: URL,
): ListWithTruncatedFlag<PageForm> {
  // Forms without a valid target are skipped: they serve scripts only.
  const all = parseFormsAndLinks(root, page, base).forms
  const forms = all.filter(({ action }) => action !== null)
  const items = forms.slice(0, MAX_SUMMARIZED_FORMS).map(toPageForm)
  const isTruncated =
    all.some(({ isTruncated }) => isTruncated) ||
    forms.length > MAX_SUMMARIZED_FORMS ||
    forms.some((form) => fieldsOf(form).length > MAX_SUMMARIZED_FIELDS)
  return { items, isTruncated }
}

const fieldsOf = ({ controls }: FormWithControls): FormControl[] =>
  controls.filter(({ kind }) => !BUTTON_KINDS.has(kind))

function toPageForm(form: FormWithControls): PageForm {
  const button = form.controls.find(({ kind }) => kind === 'submit')
  return {
    action: form.action ?? '',
    method: form.method === 'post' ? 'post' : 'get',
    fields: fieldsOf(form).slice(0, MAX_SUMMARIZED_FIELDS).map(toPageField),
    submit: button?.labels[0] ?? '',
  }
}

function toPageField({
  name,
  type,
  kind,
  labels,
  placeholder,
  required,
  options,
}: FormControl): PageField {
  return {
    name: name.slice(0, MAX_FIELD_TEXT_CHARS),
    type: type.slice(0, MAX_FIELD_TEXT_CHARS),
    label: kind === 'hidden' ? '' : (labels[0] ?? placeholder),
    required,
    ...(kind === 'choice'
      ? { options: options.slice(0, MAX_SUMMARIZED_OPTIONS).map(({ text }) => text) }
      : {}),
  }
}
