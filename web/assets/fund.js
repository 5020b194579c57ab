/** The funding page: copying, and the status while the page is visible. */

import { element, enableCopying, find } from './dom.js'

const POLL_MS = 5_000
const TRANSACTION = /(0x[0-9a-f]{64})/

const main = /** @type {HTMLElement} */ (find('main'))
enableCopying()
setInterval(() => void look(), POLL_MS)
document.addEventListener('visibilitychange', () => void look())

/**
 * Shows a text; transactions become links to the explorer of the chain.
 *
 * @param {string} id
 * @param {string} text
 */
function show(id, text) {
  const place = document.getElementById(id)
  if (place === null || place.textContent === text) return
  const explorer = main.dataset['explorer']
  const parts = text
    .split(TRANSACTION)
    .map((part) =>
      explorer !== undefined && TRANSACTION.test(part)
        ? element('a', { href: explorer + part, rel: 'noreferrer' }, part)
        : part,
    )
  place.replaceChildren(...parts)
}

async function look() {
  if (document.hidden) return
  try {
    const reply = await fetch(main.dataset['status'] ?? '', {
      headers: { accept: 'application/json' },
    })
    if (!reply.ok) return
    const { deposits, wallet_address: to, display } = await reply.json()
    const shown = deposits === 'on' ? `on ${to ?? ''}` : deposits
    if (shown !== main.dataset['shown']) return location.reload()
    show('tier', display.balance)
    show('deposit', display.deposits)
  } catch {
    // Offline: the next poll shows the state.
  }
}
