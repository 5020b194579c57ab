import { domainToUnicode } from 'node:url'
import { absolute, actionOf } from './address.ts'
import type { Amount } from './amounts.ts'
import type { Anomaly, PagePrice } from './port.ts'
import { elementsOf, lineOf, type PageElement } from './tree.ts'

const LEADING: Readonly<Record<string, readonly string[]>> = {
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
/** Without its blanks, and so that each of its words can be read in one way only. */
const HARMLESS =
  /^javascript:(?:;|void\(?0?\)?|history\.(?:back|go)\([-\d]*\)|returnfalse|window\.print\(\))*(?:\/\/)?$/i
const LONGEST_HARMLESS = 200

/** Where the links, forms and frames of a page lead, as far as that is not what it seems. */
export function* targetAnomalies(root: PageElement, page: URL, base: URL): Generator<Anomaly> {
  const hosts = new Set([page.hostname])
  for (const element of elementsOf(root)) {
    const { name, attributes } = element
    for (const attribute of LEADING[name] ?? []) {
      const written = attributes.get(attribute)
      if (written === undefined) continue
      const bad = schemeAnomaly(written)
      if (bad !== null) yield bad
      else if (name === 'a') hosts.add(absolute(written, base)?.hostname ?? '')
    }
    if (name === 'form') yield* formAnomalies(element, page, base)
    if (name === 'meta') yield* refreshAnomalies(element, page, base)
  }
  for (const host of hosts) yield* hostAnomalies(host)
}

function schemeAnomaly(written: string): Anomaly | null {
  // Browsers drop these too, so that they hide a scheme from whoever does not.
  const target = written.replace(/[\t\n\r]/g, '').replace(/^[\p{Cc} ]+/u, '')
  const scheme = /^(javascript|vbscript|data):/i.exec(target)?.[1]?.toLowerCase()
  if (scheme === undefined || isHarmless(target)) return null
  if (scheme !== 'data') return { type: 'script_link', severity: 'medium', excerpt: target }
  const active = /^data:(?:text\/html|application\/xhtml|image\/svg)/i.test(target)
  return { type: 'data_link', severity: active ? 'high' : 'low', excerpt: target }
}

function isHarmless(target: string): boolean {
  const bare = target.replace(/\s+/g, '')
  return bare.length <= LONGEST_HARMLESS && HARMLESS.test(bare)
}

function* formAnomalies(form: PageElement, page: URL, base: URL): Generator<Anomaly> {
  const inputs = [...elementsOf(form)].filter(({ name }) => name === 'input')
  const secret = inputs.some(
    ({ attributes }) => attributes.get('type')?.toLowerCase() === 'password',
  )
  const targets = [form, ...elementsOf(form)].flatMap(({ attributes }) => [
    ...(attributes.has('action') ? [attributes.get('action') ?? ''] : []),
    ...(attributes.has('formaction') ? [attributes.get('formaction') ?? ''] : []),
  ])
  const urls = [...targets, ...(targets.length === 0 ? [''] : [])]
    .map((target) => actionOf(target, page, base))
    .filter((url) => url !== null && /^https?:$/.test(url.protocol)) as URL[]
  const foreign = urls.find(({ origin }) => origin !== page.origin)
  if (foreign !== undefined) {
    yield {
      type: 'foreign_form',
      severity: secret ? 'high' : 'medium',
      excerpt: `${foreign.href} ${lineOf(form, 100)}`,
    }
  }
  const open = page.protocol === 'http:' || urls.some(({ protocol }) => protocol === 'http:')
  if (secret && open) {
    const target = urls.find(({ protocol }) => protocol === 'http:') ?? page
    yield { type: 'insecure_password', severity: 'medium', excerpt: target.href }
  }
}

function* refreshAnomalies({ attributes }: PageElement, page: URL, base: URL): Generator<Anomaly> {
  if (attributes.get('http-equiv')?.toLowerCase() !== 'refresh') return
  const content = attributes.get('content') ?? ''
  const target = /url\s*=\s*["']?([^"']*)/i.exec(content.slice(0, 2_000))?.[1]
  const url = target === undefined ? page : absolute(target.trim(), base)
  const stays = url !== null && url.origin === page.origin
  yield { type: 'meta_refresh', severity: stays ? 'low' : 'medium', excerpt: content }
}

const SCRIPTS = ['Latin', 'Cyrillic', 'Greek', 'Armenian', 'Cherokee'].map(
  (script) => new RegExp(`\\p{Script=${script}}`, 'u'),
)
/** Cyrillic and Greek letters that look like Latin ones. */
const LOOKALIKE =
  /^[\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u03bf\u03bd\u03c1\d-]+$/u

function* hostAnomalies(host: string): Generator<Anomaly> {
  if (!/(?:^|\.)xn--/.test(host)) return
  const shown = domainToUnicode(host)
  const disguised = shown
    .split('.')
    .some((label) => SCRIPTS.filter((one) => one.test(label)).length > 1 || LOOKALIKE.test(label))
  const severity = disguised ? 'high' : 'low'
  yield { type: 'punycode_link', severity, excerpt: `${host} = ${shown === '' ? '?' : shown}` }
}

/** A price for machines that no reader sees. */
export function* priceAnomalies(
  declared: readonly PagePrice[],
  seen: readonly Amount[],
): Generator<Anomaly> {
  for (const { amount, currency } of declared) {
    const comparable = seen.filter((one) => currency === null || one.currency === currency)
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
