/** Backpacks with their fuses, and keys, on the owner's page. */

import { element, find } from './dom.js'
import { formatTime, formatUsdc } from './owner-lists.js'
import { ask, RefusedError } from './owner-session.js'
import { readTypedAmount } from './typed-amount.js'

const LIMITS = /** @type {const} */ ([
  ['per_call_usdc', 'a call'],
  ['per_day_usdc', 'a day'],
  ['per_month_usdc', 'a month'],
])

/**
 * The amount of a field; null when it is empty. What is no amount is told at the field and thrown.
 *
 * @param {HTMLInputElement} input
 * @returns {number | null}
 */
export function readLimit(input) {
  const text = input.value
  const read = text === '' ? { usdc: null } : readTypedAmount(text)
  const fault = 'fault' in read ? read.fault : read.usdc === 0 ? 'is nothing: type more' : null
  tellFault(input, fault === null ? null : `${text} ${fault}. Nothing was changed.`)
  if (fault !== null || 'fault' in read) throw new FieldError()
  return read.usdc
}

/** What a field holds is no amount; it says so itself. */
export class FieldError extends Error {}

/** Shows a fault below its field, or takes it away. @param {HTMLInputElement} input @param {string | null} words */
export function tellFault(input, words) {
  const id = `${input.id}-fault`
  document.getElementById(id)?.remove()
  input.toggleAttribute('aria-invalid', words !== null)
  if (words === null) return
  input.setAttribute('aria-describedby', id)
  input.after(element('p', { id, class: 'fault small', role: 'alert' }, words))
  input.focus()
}

/**
 * A button whose second click does it: the first asks.
 *
 * @param {string} label
 * @param {string} question
 * @param {string} named what it is about, for screen readers
 * @param {() => Promise<void>} deed
 * @param {(error: unknown) => void} fail
 */
function askingButton(label, question, named, deed, fail) {
  const button = /** @type {HTMLButtonElement} */ (
    element(
      'button',
      { type: 'button', class: 'quiet slim', 'aria-label': `${label} ${named}` },
      label,
    )
  )
  let asked = false
  button.addEventListener('click', () => {
    if (!asked) {
      asked = true
      button.textContent = question
      button.setAttribute('aria-label', `${question} ${named}`)
      button.classList.add('danger')
      return
    }
    button.disabled = true
    deed().catch((error) => {
      button.disabled = false
      fail(error)
    })
  })
  return button
}

/**
 * Shows the Backpacks, each with a form for its fuse; `changed` reads them again.
 *
 * @param {any[]} packs
 * @param {() => Promise<void>} changed
 * @param {(error: unknown) => void} fail
 */
export function showBackpacks(packs, changed, fail) {
  const open = packs.filter(({ state }) => state === 'active')
  find('#packs')?.replaceChildren(
    ...(open.length === 0
      ? [element('p', {}, 'None yet: make one, then a key that is bound to it.')]
      : open.map((pack) => backpackForm(pack, changed, fail))),
  )
  const choice = find('#bound-pack')
  choice?.replaceChildren(
    ...open.map(({ backpack_id: id, agent_name: name }) =>
      element('option', { value: id }, `${name} (${id})`),
    ),
  )
}

/** What the station has for a limit. @param {any} pack @param {string} limit @param {string} span */
function describeLimit({ fuse, ...pack }, limit, span) {
  const used = { per_day_usdc: pack.spent_today_usdc, per_month_usdc: pack.spent_month_usdc }[limit]
  const rest = used === undefined ? '' : ` ${formatUsdc(used)} used.`
  if (fuse[limit] === null)
    return element(
      'p',
      {},
      `Limit ${span}: `,
      element('b', { class: 'fault' }, 'No limit'),
      `.${rest}`,
    )
  return element('p', {}, `Limit ${span}: ${formatUsdc(fuse[limit])}.${rest}`)
}

/** @param {any} pack */
const describeLimits = (pack) => LIMITS.map(([limit, span]) => describeLimit(pack, limit, span))

/** @param {any} pack @param {() => Promise<void>} changed @param {(error: unknown) => void} fail */
function backpackForm(pack, changed, fail) {
  const { backpack_id: id, agent_name: name } = pack
  let { fuse } = pack
  const fields = LIMITS.map(([limit, span]) => {
    const input = /** @type {HTMLInputElement} */ (
      element('input', {
        id: `${id}-${limit}`,
        name: limit,
        inputmode: 'decimal',
        autocomplete: 'off',
        value: fuse[limit] === null ? '' : String(fuse[limit]),
      })
    )
    return { limit, span, input, label: element('label', { for: input.id }, `USDC ${span}`) }
  })
  const said = element('p', { role: 'status' })
  const kept = element('div', { class: 'small kept' }, ...describeLimits(pack))
  const button = element(
    'button',
    { class: 'slim', 'aria-label': `Set the fuse of ${name}` },
    'Set the fuse',
  )
  /** The limits that the next press removes; the first press asks. @type {string} */
  let asked = ''
  const calm = () => {
    asked = ''
    button.textContent = 'Set the fuse'
    button.classList.remove('danger')
  }
  const form = element(
    'form',
    { class: 'pack' },
    element('h3', {}, name, ' ', element('code', { class: 'small dim' }, id)),
    element(
      'p',
      { class: 'small dim' },
      `Spent ${formatUsdc(pack.spent_total_usdc)} in all. Ends ${formatTime(pack.expires_at)}. Tools: ${pack.tools === null ? 'all' : pack.tools.join(', ')}.`,
    ),
    kept,
    element(
      'div',
      { class: 'limits' },
      ...fields.map(({ label, input }) => element('div', {}, label, input)),
    ),
    element(
      'div',
      { class: 'row' },
      button,
      askingButton(
        'Revoke',
        'Revoke for good?',
        name,
        async () => {
          await ask('POST', `/api/backpack/${id}/revoke`, {})
          await changed()
        },
        fail,
      ),
    ),
    said,
  )
  form.addEventListener('input', calm)

  const save = async () => {
    said.textContent = ''
    const typed = fields.map(({ limit, span, input }) => ({ limit, span, usdc: readLimit(input) }))
    const removed = typed.filter(({ limit, usdc }) => usdc === null && fuse[limit] !== null)
    const names = removed.map(({ limit }) => limit)
    if (names.length > 0 && asked !== names.join()) {
      const spans = removed.map(({ span }) => span).join(', ')
      asked = names.join()
      said.textContent = `Nothing was changed yet. This removes the limit ${spans}. Press again to remove it.`
      button.textContent = 'Remove the limit'
      button.classList.add('danger')
      return
    }
    const set = typed.filter(({ usdc }) => usdc !== null)
    const body = {
      ...(set.length === 0
        ? {}
        : { fuse: Object.fromEntries(set.map(({ limit, usdc }) => [limit, usdc])) }),
      ...(names.length === 0 ? {} : { remove: names }),
    }
    calm()
    if (Object.keys(body).length === 0) {
      said.textContent = 'Nothing was changed: it has no limit.'
      return
    }
    const now = await ask('PATCH', `/api/backpack/${id}`, body)
    fuse = now.fuse
    kept.replaceChildren(...describeLimits(now))
    for (const { limit, input } of fields)
      input.value = fuse[limit] === null ? '' : String(fuse[limit])
    said.textContent = 'Set. It applies from the next call on.'
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    save().catch((error) => {
      calm()
      if (error instanceof FieldError) said.textContent = ''
      else if (error instanceof RefusedError)
        said.replaceChildren(
          element(
            'span',
            { class: 'fault', role: 'alert' },
            `Nothing was changed. ${error.message}`,
          ),
        )
      else fail(error)
    })
  })
  return form
}

/**
 * @param {any[]} keys
 * @param {() => Promise<void>} changed
 * @param {(error: unknown) => void} fail
 */
export function showKeys(keys, changed, fail) {
  find('#keys')?.replaceChildren(
    ...keys.map((key) => {
      const { key_id: id, name, prefix, backpack_id: pack, current } = key
      const terms = pack === null ? `manages (${key.scopes.join(', ')})` : `bound to ${pack}`
      const own = current ? ' This page acts as it: revoking it signs you out.' : ''
      return element(
        'li',
        {},
        element(
          'div',
          { class: 'spread' },
          element('b', {}, name, ' ', element('code', { class: 'small dim' }, `${prefix}…`)),
          askingButton(
            'Revoke',
            'Revoke for good?',
            `the key ${name}`,
            async () => {
              await ask('DELETE', `/api/keys/${id}`)
              await changed()
            },
            fail,
          ),
        ),
        element('p', { class: 'small dim' }, `${terms}.${own}`),
      )
    }),
  )
}
