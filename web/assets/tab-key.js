/** The key of a visitor: made by a button only, and kept in this tab until it is closed. */

import { ask, find, formatUsdc, randomName, renderProblem } from './dom.js'

const KEY = 'gas.key'
const AGENT = 'gas.agent'

/** @returns {string | null} */
export const tabKey = () => sessionStorage.getItem(KEY)

/** Agent of the key. */
const tabAgent = () => sessionStorage.getItem(AGENT)

/** Connects the part of the page about the key; `changed` runs now and whenever the key changes. */
export function connectTabKey(/** @type {() => void} */ changed) {
  const box = find('#key')
  const make = /** @type {HTMLButtonElement | null} */ (find('#make-key'))
  const forget = find('#forget-key')
  const failed = find('#key-problem')
  const offer = find('#own-key-step')
  if (box === null || make === null || forget === null || failed === null) return changed()
  const show = () => {
    const key = tabKey()
    make.hidden = key !== null
    if (offer !== null) offer.hidden = key !== null
    box.hidden = key === null
    const value = box.querySelector('code')
    if (value !== null) value.textContent = key ?? ''
    const fund = box.querySelector('a')
    const agent = tabAgent()
    if (fund !== null && agent !== null) fund.href = `/fund/${encodeURIComponent(agent)}`
    if (key !== null) void showBalance(box, key)
    changed()
  }
  const makeKey = async () => {
    make.disabled = true
    failed.replaceChildren()
    const body = { name: `visitor-${randomName(8)}`, source: 'page' }
    const reply = await ask('/api/onboard', { body, once: true })
    make.disabled = false
    if (!reply.ok) return failed.replaceChildren(renderProblem(reply.body))
    sessionStorage.setItem(KEY, reply.body['api_key'])
    sessionStorage.setItem(AGENT, reply.body['agent_id'])
    show()
  }
  make.addEventListener('click', () => void makeKey())
  forget.addEventListener('click', () => {
    sessionStorage.removeItem(KEY)
    sessionStorage.removeItem(AGENT)
    show()
  })
  make.disabled = false
  show()
}

/**
 * @param {HTMLElement} box
 * @param {string} key
 */
async function showBalance(box, key) {
  const place = box.querySelector('[data-balance]')
  if (place === null) return
  const { ok, body } = await ask('/api/credits/balance', { key })
  place.textContent = ok ? formatUsdc(body['balance_usdc']) : ''
}

/** Shows what a call has left of the balance. @param {unknown} usdc */
export function showTabBalance(usdc) {
  const place = find('[data-balance]')
  if (place !== null && typeof usdc === 'number') place.textContent = formatUsdc(usdc)
}
