/** Backpacks with their fuses, and keys, on the owner's page. */

import { element, find } from './dom.js'
import { formatTime, formatUsdc } from './owner-lists.js'
import { ask } from './owner-session.js'

const LIMITS = /** @type {const} */ ([
  ['per_call_usdc', 'a call'],
  ['per_day_usdc', 'a day'],
  ['per_month_usdc', 'a month'],
])

/** A number, or null for an empty field. @param {string} text */
export const toLimit = (text) => (text.trim() === '' ? null : Number(text))

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

/** @param {any} pack @param {() => Promise<void>} changed @param {(error: unknown) => void} fail */
function backpackForm(pack, changed, fail) {
  const { backpack_id: id, agent_name: name, fuse } = pack
  const fields = LIMITS.map(([limit, span]) => {
    const input = /** @type {HTMLInputElement} */ (
      element('input', {
        id: `${id}-${limit}`,
        name: limit,
        inputmode: 'decimal',
        value: fuse[limit] === null ? '' : String(fuse[limit]),
      })
    )
    return { limit, input, label: element('label', { for: `${id}-${limit}` }, `USDC ${span}`) }
  })
  const said = element('p', { role: 'status' })
  const form = element(
    'form',
    { class: 'pack' },
    element('h3', {}, name, ' ', element('code', { class: 'small dim' }, id)),
    element(
      'p',
      { class: 'small dim' },
      `Spent ${formatUsdc(pack.spent_today_usdc)} today, ${formatUsdc(pack.spent_month_usdc)} this month, ${formatUsdc(pack.spent_total_usdc)} in all. Ends ${formatTime(pack.expires_at)}. Tools: ${pack.tools === null ? 'all' : pack.tools.join(', ')}.`,
    ),
    element(
      'div',
      { class: 'limits' },
      ...fields.map(({ label, input }) => element('div', {}, label, input)),
    ),
    element(
      'div',
      { class: 'row' },
      element('button', { class: 'slim', 'aria-label': `Set the fuse of ${name}` }, 'Set the fuse'),
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
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const limits = Object.fromEntries(
      fields.map(({ limit, input }) => [limit, toLimit(input.value)]),
    )
    ask('PATCH', `/api/backpack/${id}`, { fuse: limits }).then(() => {
      said.textContent = 'Set. It applies from the next call on.'
    }, fail)
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
