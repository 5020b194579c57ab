/** Elements, texts and requests of the pages. Text is only ever set as text. */

/**
 * A new element with attributes and children.
 *
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  made.append(...children)
  return made
}

/** @param {string} selector */
export const find = (selector) =>
  /** @type {HTMLElement | null} */ (document.querySelector(selector))

/** Lets the button of every `.copyable` copy the text of its `pre` or `code`. */
export function enableCopying() {
  for (const box of document.querySelectorAll('.copyable')) {
    const button = box.querySelector('button')
    const source = box.querySelector('code') ?? box.querySelector('pre')
    if (button === null || source === null) continue
    button.hidden = false
    button.addEventListener('click', () => void copyText(button, source))
  }
}

/**
 * @param {HTMLElement} button
 * @param {Element} source
 */
async function copyText(button, source) {
  const label = 'Copy'
  try {
    await navigator.clipboard.writeText(source.textContent ?? '')
    button.textContent = 'Copied'
  } catch {
    getSelection()?.selectAllChildren(source)
    button.textContent = 'Selected'
  }
  setTimeout(() => (button.textContent = label), 2000)
}

/**
 * A request to this station. Problems are answers like others.
 *
 * @param {string} path
 * @param {{ key?: string | null, body?: unknown, once?: boolean }} [asked]
 * @returns {Promise<{ ok: boolean, status: number, body: Record<string, any> }>}
 */
export async function ask(path, { key = null, body, once = false } = {}) {
  /** @type {Record<string, string>} */
  const headers = { accept: 'application/json' }
  if (key !== null) headers['x-api-key'] = key
  if (body !== undefined) headers['content-type'] = 'application/json'
  if (once) headers['idempotency-key'] = randomName(32)
  try {
    const reply = await fetch(path, {
      method: body === undefined ? 'GET' : 'POST',
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { ok: reply.ok, status: reply.status, body: await reply.json() }
  } catch {
    const detail = 'The station did not answer. Check the connection, then try again.'
    return { ok: false, status: 0, body: { title: 'No answer', detail } }
  }
}

/**
 * Random lower-case letters and digits.
 *
 * @param {number} length
 */
export const randomName = (length) =>
  Array.from(crypto.getRandomValues(new Uint8Array(length)), (byte) =>
    (byte % 36).toString(36),
  ).join('')

/**
 * A problem in its own words: what went wrong, each field, and what to do.
 *
 * @param {Record<string, any>} problem
 */
export function renderProblem({ title, detail, code, errors, remedy }) {
  const box = element('div', { class: 'problem' })
  box.append(element('p', {}, element('b', {}, String(title ?? 'The request failed.'))))
  if (detail !== undefined && detail !== title) box.append(element('p', {}, String(detail)))
  if (Array.isArray(errors) && errors.length > 1) {
    const lines = errors.map((one) =>
      element('li', {}, `${String(one.pointer ?? '').slice(1)} ${String(one.detail)}`.trim()),
    )
    box.append(element('ul', {}, ...lines))
  }
  const advice = describeRemedy(remedy)
  if (advice !== null) box.append(element('p', {}, advice))
  if (typeof code === 'string')
    box.append(
      element(
        'p',
        {},
        element('a', { href: `/problems/${encodeURIComponent(code)}` }, `About ${code}`),
      ),
    )
  return box
}

/** @param {Record<string, any> | undefined} remedy */
function describeRemedy(remedy) {
  if (remedy === undefined || remedy === null) return null
  if (remedy['action'] === 'onboard') return 'What to do: make a key, then run it again.'
  const { action, method, url, command } = remedy
  const what = String(action ?? '').replaceAll('_', ' ')
  const where = [method, url].filter((part) => typeof part === 'string').join(' ')
  return ['What to do:', what, command ?? where].filter((part) => part !== '').join(' ')
}

/** @param {unknown} usdc */
export const formatUsdc = (usdc) =>
  typeof usdc === 'number' ? `${usdc.toLocaleString('en', { maximumFractionDigits: 6 })} USDC` : '–'
