/** Tables of the owner's page: calls with their receipts, and the statement. */

import { element, find } from './dom.js'
import { ask } from './owner-session.js'

/** @param {number | null | undefined} usdc */
export const formatUsdc = (usdc) => (typeof usdc === 'number' ? `${usdc} USDC` : '–')

/** @param {string} at */
export const formatTime = (at) => `${at.slice(0, 10)} ${at.slice(11, 19)}`

/**
 * A list that is read page by page into a table.
 *
 * @param {{ place: string, more: string, path: string, name: string, head: string[], toCells: (row: any) => (Node | string)[], none: string, fail: (error: unknown) => void }} settings
 */
function createPagedTable({ place, more, path, name, head, toCells, none, fail }) {
  const body = element('tbody')
  const button = find(more)
  /** @type {string | null} */
  let cursor = null

  async function readPage() {
    const query = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const answer = await ask('GET', `${path}?limit=20${query}`)
    for (const row of answer[name])
      body.append(element('tr', {}, ...toCells(row).map((cell) => element('td', {}, cell))))
    cursor = answer.next_cursor
    button?.toggleAttribute('hidden', cursor === null)
  }

  button?.addEventListener('click', () => void readPage().catch(fail))
  return async function show() {
    cursor = null
    body.replaceChildren()
    await readPage()
    const heads = head.map((text) => element('th', { scope: 'col' }, text))
    find(place)?.replaceChildren(
      body.childElementCount === 0
        ? element('p', { class: 'dim' }, none)
        : element('table', {}, element('thead', {}, element('tr', {}, ...heads)), body),
    )
  }
}

/** @param {(error: unknown) => void} fail */
export const createCallsTable = (fail) =>
  createPagedTable({
    place: '#calls',
    more: '#more-calls',
    path: '/api/calls',
    name: 'calls',
    head: ['Time (UTC)', 'Tool', 'Result', 'Cost', 'Paid by', 'Receipt'],
    none: 'No calls yet.',
    fail,
    toCells: (call) => {
      const button = element('button', { type: 'button', class: 'quiet slim' }, 'Receipt')
      button.setAttribute('aria-label', `Receipt of ${call.tool ?? call.operation}`)
      button.addEventListener('click', () => void showReceipt(call.call_id).catch(fail))
      return [
        formatTime(call.created_at),
        call.tool ?? call.operation,
        call.success ? 'ok' : String(call.error_code ?? 'failed'),
        formatUsdc(call.cost_usdc),
        call.rail,
        call.success ? button : '–',
      ]
    },
  })

/** @param {string} callId */
async function showReceipt(callId) {
  const { receipt, tool } = await ask('GET', `/api/calls/${callId}`)
  const words =
    receipt === null
      ? ['This call has no receipt.']
      : [
          `Receipt of ${tool}: `,
          element(
            'a',
            { href: `/api/receipts/${encodeURIComponent(receipt)}` },
            element('code', {}, receipt),
          ),
        ]
  find('#receipt')?.replaceChildren(...words)
}

/** @param {(error: unknown) => void} fail */
export const createStatementTable = (fail) =>
  createPagedTable({
    place: '#statement',
    more: '#more-statement',
    path: '/api/agent/statement',
    name: 'movements',
    head: ['Time (UTC)', 'What', 'Amount', 'Credits after it'],
    none: 'No movements yet.',
    fail,
    toCells: (movement) => [
      formatTime(movement.created_at),
      movement.description,
      formatUsdc(movement.amount_usdc),
      formatUsdc(movement.balance?.total_usdc),
    ],
  })

/** Shows what was refused and why, equal refusals as one row. */
export async function showRefused() {
  const { refusals } = await ask('GET', '/api/why?limit=20')
  const heads = ['Last (UTC)', 'Times', 'Refused by', 'Reason']
  const rows = refusals.map((/** @type {any} */ { last_at: at, count, actor, title, detail }) =>
    element(
      'tr',
      {},
      element('td', {}, formatTime(at)),
      element('td', {}, String(count)),
      element('td', {}, actor.name === '' ? actor.kind : actor.name),
      element('td', {}, detail ?? title),
    ),
  )
  find('#refused')?.replaceChildren(
    rows.length === 0
      ? element('p', { class: 'dim' }, 'No limit has refused anything yet.')
      : element(
          'table',
          {},
          element(
            'thead',
            {},
            element('tr', {}, ...heads.map((text) => element('th', { scope: 'col' }, text))),
          ),
          element('tbody', {}, ...rows),
        ),
  )
}
