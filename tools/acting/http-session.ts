import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../core/errors.ts'
import type { BrowserSession, RenderedPage } from '../browser/port.ts'
import type { Egress, VisitReply } from '../egress/egress.ts'
import type { FilledForm, PageControl, PageControls } from '../pages/forms.ts'
import type { Pages } from '../pages/port.ts'
import {
  clickableCalled,
  controlsCalled,
  formCalled,
  optionCalled,
  type Found,
} from './find-control.ts'
import {
  missingIn,
  requestOf,
  stateOf,
  tick,
  type ControlState,
  type FormState,
} from './form-state.ts'
import { isPage, sourceOf } from './extracting.ts'
import { createJourney, withoutHash, type Request } from './journey.ts'

export interface HttpParts {
  readonly egress: Pick<Egress, 'visit'>
  readonly pages: Pick<Pages, 'forms'>
  readonly now: () => Date
  readonly signal: AbortSignal
  /** Stands between the parts of a multipart body; nobody can guess it. */
  readonly boundary: string
}

interface Shown extends RenderedPage {
  readonly controls: PageControls
  readonly forms: readonly FormState[]
}

/** Pages without their scripts: forms are read, filled and sent as a browser would send them. */
export function httpSession(parts: HttpParts): BrowserSession {
  const { egress, pages, now, signal, boundary } = parts
  const journey = createJourney({ egress, now, signal })
  let shown: Shown | null = null
  /** Where the last thing was written. */
  let written = -1

  async function load(request: Request): Promise<void> {
    const { reply, url } = await journey(request, shown === null ? null : new URL(shown.url))
    await show(reply, url)
  }

  async function show(reply: VisitReply, url: URL): Promise<void> {
    const contentType = reply.headers['content-type'] ?? null
    // Some charsets take long: as bytes it goes to the threads that read pages, and they decode it.
    const page = { html: reply.body, truncated: false, url: url.href, status: reply.status }
    const source = sourceOf({ ...page, contentType })
    const controls = await pages.forms(isPage(contentType) ? source : nothingAt(url), signal)
    const forms = controls.forms.map(stateOf)
    written = -1
    shown = { ...page, contentType, controls, forms }
  }

  function here(): Shown {
    if (shown === null) throw failed('no page is open')
    return shown
  }

  function find(kinds: readonly PageControl['kind'][], name: string, noun: string) {
    const [found] = controlsCalled(here().controls, kinds, name)
    const at = found === undefined ? undefined : stateAt(found)
    if (at === undefined) throw failed(`there is no ${noun} "${name}"`)
    return at
  }

  function stateAt({ form: place, control }: Found) {
    const form = here().forms[place]
    const state = form?.controls[control]
    return form === undefined || state === undefined ? undefined : { place, form, state }
  }

  async function send(place: number, button: ControlState | null, before: () => void) {
    const form = here().forms[place]
    if (form === undefined) throw failed('there is no form to submit')
    const missing = missingIn(form)
    if (missing !== null) throw failed(`the form does not take what is in "${missing}"`)
    const by =
      button ??
      form.controls.find(({ control: { kind, disabled } }) => kind === 'submit' && !disabled)
    const request = requestOf(form, by?.control ?? null, boundary)
    if (request === null) throw failed(leadsNowhere(form.form, by?.control ?? null))
    before()
    await load(request)
  }

  return {
    async goto(text) {
      const base = shown?.url
      const url = URL.canParse(text, base) ? new URL(text, base) : null
      if (url === null) throw failed(`"${text}" is no address`)
      // Whoever types an address comes from nowhere.
      const { reply, url: arrived } = await journey(
        { method: 'GET', url: withoutHash(url), headers: {} },
        null,
      )
      await show(reply, arrived)
    },
    // Nothing here runs by itself.
    onSent() {},
    async fill(name, value) {
      const { place, state } = find(['text'], name, 'field')
      if (state.control.readonly) throw failed(`the field "${name}" cannot be written in`)
      state.value = state.control.type === 'textarea' ? value : value.replace(/[\r\n]/g, '')
      written = place
    },
    async select(name, option) {
      const { place, state } = find(['choice'], name, 'selection')
      const at = optionCalled(state.control, option)
      if (at < 0) throw failed(`it has no option "${option}"`)
      state.chosen = state.control.multiple ? [...new Set([...state.chosen, at])] : [at]
      written = place
    },
    async check(name) {
      const { place, form, state } = find(['tick'], name, 'checkbox or radio button')
      tick(form, state)
      written = place
    },
    async click(name, before) {
      const found = clickableCalled(here().controls, name)
      if (found === null) throw failed(`there is nothing to click that is called "${name}"`)
      if ('link' in found) {
        const { url } = found.link
        if (url === null) throw failed(`only a script could follow the link "${name}"`)
        return load({ method: 'GET', url: withoutHash(new URL(url)), headers: {} })
      }
      const at = stateAt('button' in found ? found.button : found.box)
      if (at === undefined) throw failed(`there is nothing to click that is called "${name}"`)
      if ('button' in found) return send(at.place, at.state, before)
      tick(at.form, at.state)
      written = at.place
    },
    async submit(name, before) {
      const { controls, forms } = here()
      const place = name === null ? meant(forms, written) : formCalled(controls, name)
      if (place < 0)
        throw failed(name === null ? 'there is no form to submit' : `there is no form "${name}"`)
      await send(place, null, before)
    },
    async wait(ms) {
      await sleep(ms, undefined, { signal }).catch(() => {})
      signal.throwIfAborted()
    },
    async page() {
      const { html, truncated, url, status, contentType } = here()
      return { html, truncated, url, status, contentType }
    },
    close: async () => {},
  }
}

function leadsNowhere({ cut }: FilledForm, button: PageControl | null): string {
  if (cut) return 'the form is too large to be read, and half a form is not sent'
  if (button?.formAction !== '') return 'only a script could send this form'
  const name = button.labels[0] ?? button.name
  return `the button "${name}" leads nowhere that can be asked over HTTP: only a browser could use it`
}

const nothingAt = (url: URL) => ({ body: '', contentType: null, url: url.href })

const failed = (detail: string): ServiceError => new ServiceError('step_failed', { detail })

/** The form that was written in, the only one, or the first with a button to send it. */
function meant(forms: readonly FormState[], written: number): number {
  if (written >= 0 && forms[written]?.form.action !== null) return written
  const real = (state: FormState) => state.form.action !== null
  const withButton = forms.findIndex(
    (state) => real(state) && state.controls.some(({ control }) => control.kind === 'submit'),
  )
  return withButton >= 0 ? withButton : forms.findIndex(real)
}
