import { setTimeout as sleep } from 'node:timers/promises'
import type { Locator, Page } from 'playwright-core'
import { PageActionError } from './browser-host-protocol.ts'

/** Locates controls in a page by the names that people use. */

const TEXT_CONTROL_SELECTOR = [
  'input:not([type="hidden" i], [type="submit" i], [type="button" i], [type="reset" i], [type="image" i], [type="checkbox" i], [type="radio" i], [type="file" i])',
  'textarea',
  '[contenteditable=""]',
  '[contenteditable="true" i]',
].join(', ')
const TICK_CONTROL_SELECTOR =
  'input[type="checkbox" i], input[type="radio" i], [role="checkbox"], [role="radio"], [role="switch"]'
const CONTROL_SELECTORS = {
  text: TEXT_CONTROL_SELECTOR,
  choice: 'select',
  tick: TICK_CONTROL_SELECTOR,
} as const
const SELECTOR = /^[#.[]\S+$/
const LOCATE_ATTEMPTS = 15
const LOCATE_RETRY_MS = 100

/** Locates a control by its label, then by its names in the page. */
export function locateFormControl(
  page: Page,
  kind: keyof typeof CONTROL_SELECTORS,
  name: string,
): Promise<Locator> {
  const among = page.locator(CONTROL_SELECTORS[kind])
  const [quoted, exactly, loosely] = nameMatchers(name)
  const having = (selector: string) => among.and(page.locator(selector))
  return locateFirstVisible(
    [
      ...(SELECTOR.test(name) ? [having(name)] : []),
      among.and(page.getByLabel(exactly)),
      having(`[name=${quoted} i]`),
      having(`[id=${quoted} i]`),
      among.and(page.getByPlaceholder(exactly)),
      ...(kind === 'tick' ? [having(`[value=${quoted} i]`)] : [having(`[type=${quoted} i]`)]),
      among.and(page.getByLabel(loosely)),
      among.and(page.getByPlaceholder(loosely)),
      having(`[name*=${quoted} i]`),
    ],
    `there is no ${CONTROL_NOUNS[kind]} "${name}"`,
  )
}

const CONTROL_NOUNS = {
  text: 'field',
  choice: 'selection',
  tick: 'checkbox or radio button',
} as const

/** Locates something to click: a button, a link or a tab, then any element with this text. */
export function locateClickTarget(page: Page, name: string): Promise<Locator> {
  const [quoted, exactly, loosely] = nameMatchers(name)
  const roles = ['button', 'link', 'tab', 'menuitem', 'checkbox', 'radio', 'option'] as const
  const inRole = (spelling: RegExp) => roles.map((role) => page.getByRole(role, { name: spelling }))
  return locateFirstVisible(
    [
      ...(SELECTOR.test(name) ? [page.locator(name)] : []),
      ...inRole(exactly),
      page.locator(`[id=${quoted} i]`),
      page.locator(`button[name=${quoted} i], input[name=${quoted} i]`),
      page.getByText(exactly),
      ...inRole(loosely),
      page.getByText(loosely),
    ],
    `there is nothing to click that is called "${name}"`,
  )
}

/** Locates a form by its name, label or text. */
export function locateForm(page: Page, name: string): Promise<Locator> {
  const [quoted, exactly, loosely] = nameMatchers(name)
  const forms = page.locator('form')
  return locateFirstVisible(
    [
      ...(SELECTOR.test(name) ? [forms.and(page.locator(name))] : []),
      forms.and(page.locator(`[name=${quoted} i]`)),
      forms.and(page.locator(`[id=${quoted} i]`)),
      page.getByRole('form', { name: exactly }),
      forms.filter({ hasText: loosely }),
    ],
    `there is no form "${name}"`,
  )
}

/** Matchers of a name: quoted for a selector; as a whole text without trailing marks; as part of one. */
function nameMatchers(name: string): [quoted: string, exactly: RegExp, loosely: RegExp] {
  const words = name
    .trim()
    .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replace(/\s+/g, '\\s+')
  const quoted = `"${name.replace(/["\\]/g, '\\$&').replace(/[\n\r\f]/g, ' ')}"`
  return [quoted, new RegExp(`^\\s*${words}\\s*[:*]*\\s*$`, 'i'), new RegExp(words, 'i')]
}

/** Returns the first visible match; waits, because scripts may still create it. */
export async function locateFirstVisible(
  candidates: readonly Locator[],
  otherwise: string,
  rounds = LOCATE_ATTEMPTS,
): Promise<Locator> {
  for (let round = 0; round < rounds; round += 1) {
    if (round > 0) await sleep(LOCATE_RETRY_MS)
    for (const candidate of candidates) {
      const visible = candidate.filter({ visible: true }).first()
      if ((await visible.count()) > 0) return visible
    }
  }
  throw new PageActionError({ kind: 'failed', detail: otherwise })
}
