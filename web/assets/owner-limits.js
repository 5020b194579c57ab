/** Backpacks with their fuses, and keys, on the owner's page. */

import { element, find } from './dom.js'
import { formatTime, formatUsdc } from './owner-lists.js'
import { ask, OutdatedError, RefusedError } from './owner-session.js'
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

/** How long a question stands before it can be answered: a double click or a held key answers nothing. */
const READ_MS = 1_000

/**
 * Keeps a button deaf until the question on it can have been read; resolves then.
 *
 * @param {Element | null | undefined} button
 */
export async function letRead(button) {
  const focused = document.activeElement
  button?.toggleAttribute('disabled', true)
  await new Promise((resolve) => setTimeout(resolve, READ_MS))
  button?.toggleAttribute('disabled', false)
  if (focused === button && focused instanceof HTMLElement) focused.focus()
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
      return void letRead(button)
    }
    button.disabled = true
    deed().catch((error) => {
      button.disabled = false
      fail(error)
    })
  })
  return button
}

/** The forms that are shown, by their Backpacks. @type {Map<string, { show: (pack: any) => void, isTyped: () => boolean }>} */
const forms = new Map()

/**
 * Shows what the station has now, and leaves what somebody is typing.
 *
 * @param {any[]} packs
 * @param {() => Promise<void>} changed
 * @param {(error: unknown) => void} fail
 */
export function refreshBackpacks(packs, changed, fail) {
  const open = packs.filter(({ state }) => state === 'active')
  const isKnown = open.length === forms.size && open.every(({ backpack_id: id }) => forms.has(id))
  if (!isKnown && ![...forms.values()].some(({ isTyped }) => isTyped()))
    return showBackpacks(packs, changed, fail)
  for (const pack of open) forms.get(pack.backpack_id)?.show(pack)
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
  forms.clear()
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

/** @param {any} pack */
const describeTotal = ({ spent_total_usdc: spent, expires_at: end, tools }) =>
  `Spent ${formatUsdc(spent)} in all. Ends ${formatTime(end)}. Tools: ${tools === null ? 'all' : tools.join(', ')}.`

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
  const keptText = (/** @type {string} */ limit) =>
    fuse[limit] === null ? '' : String(fuse[limit])
  const isTypedIn = (/** @type {{ limit: string, input: HTMLInputElement }} */ { limit, input }) =>
    input.value !== keptText(limit)
  /** Shows what the station has, also in the fields that hold what it had. @param {any} now */
  const show = (now) => {
    const untouched = fields.filter((one) => !isTypedIn(one))
    fuse = now.fuse
    for (const { limit, input } of untouched)
      if (document.activeElement !== input) input.value = keptText(limit)
    kept.replaceChildren(...describeLimits(now))
    total.textContent = describeTotal(now)
  }
  const total = element('p', { class: 'small dim' }, describeTotal(pack))
  forms.set(id, { show, isTyped: () => fields.some(isTypedIn) })
  const form = element(
    'form',
    { class: 'pack' },
    element('h3', {}, name, ' ', element('code', { class: 'small dim' }, id)),
    total,
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
    // Only what was typed: another limit may have been changed elsewhere.
    const typed = fields
      .map(({ limit, span, input }) => ({ limit, span, usdc: readLimit(input) }))
      .filter(({ limit, usdc }) => usdc !== fuse[limit])
    const before = fuse
    const { fuse: has } = await ask('GET', `/api/backpack/${id}`).then((now) => (show(now), now))
    const moved = LIMITS.filter(([limit]) => has[limit] !== before[limit])
    if (moved.length > 0) {
      const spans = moved.map(([, span]) => span).join(', ')
      said.textContent = `Nothing was changed. The limit ${spans} was changed elsewhere: see above, then press again.`
      return calm()
    }
    const removed = typed.filter(({ limit, usdc }) => usdc === null && fuse[limit] !== null)
    const names = removed.map(({ limit }) => limit)
    if (names.length > 0 && asked !== names.join()) {
      const spans = removed.map(({ span }) => span).join(', ')
      asked = names.join()
      said.textContent = `Nothing was changed yet. This removes the limit ${spans}. Press again to remove it.`
      button.textContent = 'Remove the limit'
      button.classList.add('danger')
      return letRead(button)
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
      const hasLimit = LIMITS.some(([limit]) => fuse[limit] !== null)
      said.textContent = hasLimit
        ? 'Set. The station has these limits already.'
        : 'Nothing was changed: it has no limit.'
      for (const { limit, input } of fields) input.value = keptText(limit)
      return
    }
    const now = await ask('PATCH', `/api/backpack/${id}`, body)
    show(now)
    for (const { limit, input } of fields) input.value = keptText(limit)
    said.textContent = 'Set. It applies from the next call on.'
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    if (button.hasAttribute('disabled')) return
    button.toggleAttribute('disabled', true)
    const work = save().catch((error) => {
      calm()
      if (error instanceof FieldError) said.textContent = ''
      else if (error instanceof OutdatedError) return
      else if (error instanceof RefusedError)
        said.replaceChildren(
          element('span', { class: 'fault', role: 'alert' }, `${error.outcome}${error.message}`),
        )
      else fail(error)
    })
    void work.finally(() => button.toggleAttribute('disabled', false))
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
