import { domainToUnicode } from 'node:url'
import { resolvePageHref, formActionUrl } from '../html/page-urls.ts'
import type { PageMoneyAmount } from '../content/parse-money-amounts-in-page-text.ts'
import type { PageAnomaly, PagePrice } from '../page-parser-port.ts'
import { descendantElements, elementTextLine, type HtmlElement } from '../html/html-parser.ts'

/** Detects links, forms and prices that mislead. */

const URL_ATTRIBUTES: Readonly<Record<string, readonly string[]>> = {
  a: ['href', 'xlink:href'],
  area: ['href'],
  form: ['action'],
  iframe: ['src'],
  frame: ['src'],
  embed: ['src'],
  object: ['data'],
  button: ['formaction'],
  input: ['formaction'],
}
/** Harmless `javascript:` URLs without blanks; each word has one possible reading. */
const HARMLESS_SCRIPT_URL =
  /^javascript:(?:;|void\(?0?\)?|history\.(?:back|go)\([-\d]*\)|returnfalse|window\.print\(\))*(?:\/\/)?$/i
const MAX_HARMLESS_SCRIPT_CHARS = 200

/** Detects links, forms and frames whose target differs from what they show. */
export function* detectDeceptiveLinks(
  root: HtmlElement,
  page: URL,
  base: URL,
): Generator<PageAnomaly> {
  const hosts = new Set([page.hostname])
  for (const element of descendantElements(root)) {
    const { name, attributes } = element
    for (const attribute of URL_ATTRIBUTES[name] ?? []) {
      const written = attributes.get(attribute)
      if (written === undefined) continue
      const bad = detectScriptScheme(written)
      if (bad !== null) yield bad
      else if (name === 'a') hosts.add(resolvePageHref(written, base)?.hostname ?? '')
    }
    if (name === 'form') yield* detectFormTargets(element, page, base)
    if (name === 'meta') yield* detectMetaRefresh(element, page, base)
  }
  for (const host of hosts) yield* detectLookalikeHosts(host)
}

function detectScriptScheme(written: string): PageAnomaly | null {
  // Browsers drop these characters too, so they can hide a scheme.
  const target = written.replace(/[\t\n\r]/g, '').replace(/^[\p{Cc} ]+/u, '')
  const scheme = /^(javascript|vbscript|data):/i.exec(target)?.[1]?.toLowerCase()
  if (scheme === undefined || isHarmlessScript(target)) return null
  if (scheme !== 'data') return { type: 'script_link', severity: 'medium', excerpt: target }
  const active = /^data:(?:text\/html|application\/xhtml|image\/svg)/i.test(target)
  return { type: 'data_link', severity: active ? 'high' : 'low', excerpt: target }
}

function isHarmlessScript(target: string): boolean {
  const bare = target.replace(/\s+/g, '')
  return bare.length <= MAX_HARMLESS_SCRIPT_CHARS && HARMLESS_SCRIPT_URL.test(bare)
}

function* detectFormTargets(form: HtmlElement, page: URL, base: URL): Generator<PageAnomaly> {
  const inputs = [...descendantElements(form)].filter(({ name }) => name === 'input')
  const secret = inputs.some(
    ({ attributes }) => attributes.get('type')?.toLowerCase() === 'password',
  )
  const targets = [form, ...descendantElements(form)].flatMap(({ attributes }) => [
    ...(attributes.has('action') ? [attributes.get('action') ?? ''] : []),
    ...(attributes.has('formaction') ? [attributes.get('formaction') ?? ''] : []),
  ])
  const urls = [...targets, ...(targets.length === 0 ? [''] : [])]
    .map((target) => formActionUrl(target, page, base))
    .filter((url) => url !== null && /^https?:$/.test(url.protocol)) as URL[]
  const foreign = urls.find(({ origin }) => origin !== page.origin)
  if (foreign !== undefined) {
    yield {
      type: 'foreign_form',
      severity: secret ? 'high' : 'medium',
      excerpt: `${foreign.href} ${elementTextLine(form, 100)}`,
    }
  }
  const open = page.protocol === 'http:' || urls.some(({ protocol }) => protocol === 'http:')
  if (secret && open) {
    const target = urls.find(({ protocol }) => protocol === 'http:') ?? page
    yield { type: 'insecure_password', severity: 'medium', excerpt: target.href }
  }
}

function* detectMetaRefresh(
  { attributes }: HtmlElement,
  page: URL,
  base: URL,
): Generator<PageAnomaly> {
  if (attributes.get('http-equiv')?.toLowerCase() !== 'refresh') return
  const content = attributes.get('content') ?? ''
  const target = /url\s*=\s*["']?([^"']*)/i.exec(content.slice(0, 2_000))?.[1]
  const url = target === undefined ? page : resolvePageHref(target.trim(), base)
  const stays = url !== null && url.origin === page.origin
  yield { type: 'meta_refresh', severity: stays ? 'low' : 'medium', excerpt: content }
}

const UNICODE_SCRIPTS = ['Latin', 'Cyrillic', 'Greek', 'Armenian', 'Cherokee'].map(
  (script) => new RegExp(`\\p{Script=${script}}`, 'u'),
)
/** Cyrillic and Greek letters that look like Latin ones. */
const LATIN_LOOKALIKES =
  /^[\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u03bf\u03bd\u03c1\d-]+$/u

function* detectLookalikeHosts(host: string): Generator<PageAnomaly> {
  if (!/(?:^|\.)xn--/.test(host)) return
  const shown = domainToUnicode(host)
  const disguised = shown
    .split('.')
    .some(
      (label) =>
        UNICODE_SCRIPTS.filter((one) => one.test(label)).length > 1 || LATIN_LOOKALIKES.test(label),
    )
  const severity = disguised ? 'high' : 'low'
  yield { type: 'punycode_link', severity, excerpt: `${host} = ${shown === '' ? '?' : shown}` }
}

/** Detects prices in metadata that differ from the visible ones. */
export function* detectPriceMismatches(
  declared: readonly PagePrice[],
  visible: readonly PageMoneyAmount[],
): Generator<PageAnomaly> {
  for (const { amount, currency } of declared) {
    const comparable = visible.filter((one) => currency === null || one.currency === currency)
    const near = ({ amount: other }: { amount: number }) =>
      Math.abs(other - amount) <= Math.max(amount, other) * 0.005
    if (comparable.length === 0 || amount === 0 || comparable.some(near)) continue
    const shown = [...new Set(comparable.map((one) => one.amount))].slice(0, 5).join(', ')
    const unit = currency ?? ''
    yield {
      type: 'price_mismatch',
      severity: 'medium',
      excerpt: `JSON-LD ${amount} ${unit}; shown ${shown} ${unit}`,
    }
  }
}
