/** The first page: live figures, the search of the catalogue, and the key in the example. */

import { enableCopying, find } from './dom.js'
import { connectTabKey, tabKey } from './tab-key.js'

const PLACEHOLDER = '$key'

connectTabKey(() => {
  const key = tabKey() ?? PLACEHOLDER
  for (const place of document.querySelectorAll('[data-key]')) place.textContent = key
})
enableCopying()
followFigures()
connectSearch()

/** Shows the figures as the station sends them; they stay as they are without a stream. */
function followFigures() {
  const stream = new EventSource('/api/stats/live')
  stream.addEventListener('stats', ({ data }) => {
    const figures = JSON.parse(data)
    for (const place of document.querySelectorAll('[data-figure]')) {
      const value = figures[place.getAttribute('data-figure') ?? '']
      const text = formatFigure(value, place.getAttribute('data-unit') ?? '')
      if (place.textContent !== text) place.textContent = text
    }
  })
  addEventListener('pagehide', () => stream.close())
}

/**
 * @param {unknown} value
 * @param {string} unit
 */
function formatFigure(value, unit) {
  if (typeof value !== 'number') return '–'
  if (unit === '%') return `${(value * 100).toFixed(1)} %`
  const number = value.toLocaleString('en', { maximumFractionDigits: 2 })
  return unit === '' ? number : `${number} ${unit}`
}

function connectSearch() {
  const input = /** @type {HTMLInputElement | null} */ (find('#search'))
  const none = find('#none-found')
  if (input === null || none === null) return
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean)
    let found = 0
    for (const group of document.querySelectorAll('.group')) {
      let shown = 0
      for (const item of group.querySelectorAll('li')) {
        const text = (item.textContent ?? '').toLowerCase()
        item.hidden = !words.every((word) => text.includes(word))
        if (!item.hidden) shown += 1
      }
      group.toggleAttribute('hidden', shown === 0)
      found += shown
    }
    none.textContent =
      found === 0 ? 'No tool has these words.' : words.length === 0 ? '' : `${found} tools`
  }
  const box = input.closest('[hidden]')
  if (box !== null) box.removeAttribute('hidden')
  input.addEventListener('input', filter)
  if (input.value !== '') filter()
}
