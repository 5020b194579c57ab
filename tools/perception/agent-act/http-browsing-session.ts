import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../../core/errors.ts'
import type { BrowserSession, RenderedPage } from '../../../providers/browser/browser-port.ts'
import type { EgressClient, SingleHopReply } from '../../../providers/egress/egress-client-port.ts'
import type {
  FormWithControls,
  FormControl,
  FormsAndLinks,
} from '../../../providers/pages/content/parse-page-forms-and-links.ts'
import type { PageParser } from '../../../providers/pages/page-parser-port.ts'
import {
  findClickable,
  findFormControls,
  findFormIndex,
  findSelectOptionIndex,
  type FormControlLocation,
} from './find-page-control.ts'
import {
  findMissingFormField,
  toFormSubmissionRequest,
  createFilledFormState,
  checkRadioOrCheckboxControl,
  type FormControlState,
  type FilledFormState,
} from './filled-form-state.ts'
import { isHtmlContentType, renderedPageToHtmlSource } from './agent-act-extract-values.ts'
import {
  createHttpPageVisit,
  urlWithoutFragment,
  type HttpPageVisitRequest,
} from './http-page-visit.ts'

/** A browsing session over plain HTTP, without scripts. */

export interface HttpBrowsingSessionDeps {
  readonly egress: Pick<EgressClient, 'sendSingleHop'>
  readonly pages: Pick<PageParser, 'forms'>
  readonly now: () => Date
  readonly signal: AbortSignal
  /** Whose pages they are. */
  readonly owner: string
  /** The unguessable boundary of multipart bodies. */
  readonly boundary: string
}

interface LoadedFormPage extends RenderedPage {
  readonly controls: FormsAndLinks
  readonly forms: readonly FilledFormState[]
}

/** Opens a session that parses, fills and submits forms as a browser would, without running scripts. */
export function createHttpBrowsingSession(deps: HttpBrowsingSessionDeps): BrowserSession {
  const { egress, pages, now, signal, owner, boundary } = deps
  const navigate = createHttpPageVisit({ egress, now, signal })
  let loadedPage: LoadedFormPage | null = null
  /** Index of the form that was last filled. */
  let written = -1

  async function load(request: HttpPageVisitRequest): Promise<void> {
    const { reply, url } = await navigate(
      request,
      loadedPage === null ? null : new URL(loadedPage.url),
    )
    await show(reply, url)
  }

  async function show(reply: SingleHopReply, url: URL): Promise<void> {
    const contentType = reply.headers['content-type'] ?? null
    // Decoding some charsets is slow, so the bytes go to the page reader's threads, which decode them.
    const page = { html: reply.body, truncated: false, url: url.href, status: reply.status }
    const source = renderedPageToHtmlSource({ ...page, contentType })
    const controls = await pages.forms(isHtmlContentType(contentType) ? source : emptyPageAt(url), {
      owner,
      signal,
    })
    const forms = controls.forms.map(createFilledFormState)
    written = -1
    loadedPage = { ...page, contentType, controls, forms }
  }

  function currentPage(): LoadedFormPage {
    if (loadedPage === null) throw stepFailed('no page is open')
    return loadedPage
  }

  function find(kinds: readonly FormControl['kind'][], name: string, noun: string) {
    const [found] = findFormControls(currentPage().controls, kinds, name)
    const at = found === undefined ? undefined : stateAt(found)
    if (at === undefined) throw stepFailed(`there is no ${noun} "${name}"`)
    return at
  }

  function stateAt({ form: place, control }: FormControlLocation) {
    const form = currentPage().forms[place]
    const state = form?.controls[control]
    return form === undefined || state === undefined ? undefined : { place, form, state }
  }

  async function send(place: number, button: FormControlState | null, before: () => void) {
    const form = currentPage().forms[place]
    if (form === undefined) throw stepFailed('there is no form to submit')
    const missing = findMissingFormField(form)
    if (missing !== null) throw stepFailed(`the form does not take what is in "${missing}"`)
    const by =
      button ??
      form.controls.find(({ control: { kind, disabled } }) => kind === 'submit' && !disabled)
    const request = toFormSubmissionRequest(form, by?.control ?? null, boundary)
    if (request === null) throw stepFailed(describeUnsendableForm(form.form, by?.control ?? null))
    before()
    await load(request)
  }

  return {
    async goto(text) {
      const base = loadedPage?.url
      const url = URL.canParse(text, base) ? new URL(text, base) : null
      if (url === null) throw stepFailed(`"${text}" is no address`)
      // A typed address has no referrer.
      const { reply, url: arrived } = await navigate(
        { method: 'GET', url: urlWithoutFragment(url), headers: {} },
        null,
      )
      await show(reply, arrived)
    },
    // Without scripts nothing runs by itself.
    onSideEffect() {},
    async fill(name, value) {
      const { place, state } = find(['text'], name, 'field')
      if (state.control.readonly) throw stepFailed(`the field "${name}" cannot be written in`)
      state.value = state.control.type === 'textarea' ? value : value.replace(/[\r\n]/g, '')
      written = place
    },
    async select(name, option) {
      const { place, state } = find(['choice'], name, 'selection')
      const at = findSelectOptionIndex(state.control, option)
      if (at < 0) throw stepFailed(`it has no option "${option}"`)
      state.chosen = state.control.multiple ? [...new Set([...state.chosen, at])] : [at]
      written = place
    },
    async check(name) {
      const { place, form, state } = find(['tick'], name, 'checkbox or radio button')
      checkRadioOrCheckboxControl(form, state)
      written = place
    },
    async click(name, before) {
      const found = findClickable(currentPage().controls, name)
      if (found === null) throw stepFailed(`there is nothing to click that is called "${name}"`)
      if ('link' in found) {
        const { url } = found.link
        if (url === null) throw stepFailed(`only a script could follow the link "${name}"`)
        return load({ method: 'GET', url: urlWithoutFragment(new URL(url)), headers: {} })
      }
      const at = stateAt('button' in found ? found.button : found.box)
      if (at === undefined) throw stepFailed(`there is nothing to click that is called "${name}"`)
      if ('button' in found) return send(at.place, at.state, before)
      checkRadioOrCheckboxControl(at.form, at.state)
      written = at.place
    },
    async submit(name, before) {
      const { controls, forms } = currentPage()
      const place = name === null ? defaultFormIndex(forms, written) : findFormIndex(controls, name)
      if (place < 0)
        throw stepFailed(
          name === null ? 'there is no form to submit' : `there is no form "${name}"`,
        )
      await send(place, null, before)
    },
    async wait(ms) {
      await sleep(ms, undefined, { signal }).catch(() => {})
      signal.throwIfAborted()
    },
    async page() {
      const { html, truncated, url, status, contentType } = currentPage()
      return { html, truncated, url, status, contentType }
    },
    close: async () => {},
  }
}

function describeUnsendableForm(
  { isTruncated }: FormWithControls,
  button: FormControl | null,
): string {
  if (isTruncated) return 'the form is too large to be read, and half a form is not sent'
  if (button?.formAction !== '') return 'only a script could send this form'
  const name = button.labels[0] ?? button.name
  return `the button "${name}" leads nowhere that can be asked over HTTP: only a browser could use it`
}

const emptyPageAt = (url: URL) => ({ body: '', contentType: null, url: url.href })

const stepFailed = (detail: string): ServiceError => new ServiceError('step_failed', { detail })

/** Returns the form that was filled, the only one, or the first with a submit button. */
function defaultFormIndex(forms: readonly FilledFormState[], written: number): number {
  if (written >= 0 && forms[written]?.form.action !== null) return written
  const real = (state: FilledFormState) => state.form.action !== null
  const withButton = forms.findIndex(
    (state) => real(state) && state.controls.some(({ control }) => control.kind === 'submit'),
  )
  return withButton >= 0 ? withButton : forms.findIndex(real)
}
