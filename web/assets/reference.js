/** The API reference in the colours of the pages, with the key of this tab and a tool filled in. */

import { element, find } from './dom.js'
import { tabKey } from './tab-key.js'

/** The security scheme of the document that takes the key. */
const KEY_SCHEME = 'ApiKey'
const THEMES = {
  light: {
    'bg-color': '#f6f5f1',
    'text-color': '#1d2329',
    'header-color': '#ffffff',
    'primary-color': '#8a5200',
    'secondary-color': '#0b6b4f',
    'nav-bg-color': '#ffffff',
    'nav-text-color': '#1d2329',
    'nav-hover-bg-color': '#fff3dc',
    'nav-hover-text-color': '#1d2329',
  },
  dark: {
    'bg-color': '#0d1014',
    'text-color': '#dfe6ee',
    'header-color': '#12161c',
    'primary-color': '#f5a524',
    'secondary-color': '#4fc79b',
    'nav-bg-color': '#12161c',
    'nav-text-color': '#dfe6ee',
    'nav-hover-bg-color': '#2b2011',
    'nav-hover-text-color': '#dfe6ee',
  },
}

const place = find('#reference')
if (place !== null) void show(place)

/** @param {HTMLElement} place */
async function show(place) {
  const dark = matchMedia('(prefers-color-scheme: dark)')
  const explorer = element('openapi-explorer', {
    'spec-url': '/api/openapi.json',
    'server-url': location.origin,
    'hide-server-selection': 'true',
    'hide-components': 'true',
    'default-schema-tab': 'body',
  })
  const paint = () => {
    for (const [name, colour] of Object.entries(dark.matches ? THEMES.dark : THEMES.light))
      explorer.setAttribute(name, colour)
  }
  paint()
  dark.addEventListener('change', paint)
  explorer.addEventListener('spec-loaded', () => setTimeout(() => void fillInKey(explorer)))
  // @ts-expect-error -- the bundle of the library, beside this file
  await import('./openapi-explorer.min.js')
  place.replaceChildren(explorer)
}

/** @param {any} explorer */
async function fillInKey(explorer) {
  const token = tabKey()
  if (token !== null) await explorer.setAuthenticationConfiguration(KEY_SCHEME, { token })
}
