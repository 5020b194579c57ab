import { h, setText } from './dom.js'
import { RefusedError, signIn } from './station.js'

/** The sign-in box: the operator token, or the one-time code that the station printed. */

/** @param {() => void} onSignedIn */
export function signInBox(onSignedIn) {
  const input = h('input', {
    type: 'password',
    name: 'proof',
    autocomplete: 'off',
    'aria-label': 'Operator token or one-time code',
    placeholder: 'operator token or one-time code',
    required: true,
  })
  const fault = h('p', { class: 'fault', role: 'alert' })
  const button = h('button', { type: 'submit', class: 'primary' }, 'Sign in')
  const form = h(
    'form',
    {
      class: 'sign-in',
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault()
        void submit()
      },
    },
    h('h1', {}, 'Inspector'),
    h(
      'p',
      {},
      'The machines of this station, live and back in time. It shows everything that agents do, so it needs the operator token, or the one-time code that the station printed when it started (',
      h('code', {}, 'gas inspect'),
      ' prints a new one).',
    ),
    input,
    button,
    fault,
  )
  async function submit() {
    button.disabled = true
    setText(fault, '')
    const text = input.value.trim()
    const refused = (await attempt({ token: text })) && (await attempt({ code: text }))
    button.disabled = false
    if (!refused) return onSignedIn()
    input.select()
    setText(fault, refused)
  }
  return { form, focus: () => input.focus() }
}

/** The fault in words; empty when signed in. @param {{code: string} | {token: string}} proof */
async function attempt(proof) {
  try {
    await signIn(proof)
    return ''
  } catch (error) {
    if (!(error instanceof RefusedError)) return 'The station does not answer.'
    return error.status === 401 ? 'Neither the operator token nor a valid code.' : error.message
  }
}
