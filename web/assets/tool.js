/** The page of a tool: reads its form, shows the price before and the answer with its charge after. */

import { ask, element, enableCopying, find, formatUsdc, renderProblem } from './dom.js'
import { connectTabKey, showTabBalance, tabKey } from './tab-key.js'

const QUOTE_AFTER_MS = 350
/** What a field says that cannot be read, by its kind. @type {Record<string, string>} */
const FAULTS = {
  integer: 'Type a whole number in digits, without separators.',
  number: 'Type a number such as 0.5, with one point or comma and no groups.',
}

const form = /** @type {HTMLFormElement | null} */ (find('#call'))
const price = find('#price')
const run = /** @type {HTMLButtonElement | null} */ (find('#run'))
const answer = find('#answer')
if (form !== null && price !== null && run !== null && answer !== null)
  connect(form, price, run, answer)
enableCopying()

/**
 * @param {HTMLFormElement} form
 * @param {HTMLElement} price
 * @param {HTMLButtonElement} run
 * @param {HTMLElement} answer
 */
function connect(form, price, run, answer) {
  const tool = form.dataset['tool'] ?? ''
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let later
  let quotes = 0

  const showPrice = async () => {
    const mine = (quotes += 1)
    const fields = readFields(form)
    if (fields === null || !form.checkValidity()) return
    const { ok, body } = await ask('/api/quote', { key: tabKey(), body: { tool, ...fields } })
    if (mine !== quotes) return
    price.textContent = ok ? describeQuote(body) : String(body['detail'] ?? body['title'])
  }
  const showPriceSoon = () => {
    clearTimeout(later)
    later = setTimeout(showPrice, QUOTE_AFTER_MS)
  }
  form.addEventListener('input', showPriceSoon)
  const call = async () => {
    const fields = readFields(form)
    if (fields === null) {
      form.reportValidity()
      return
    }
    run.disabled = true
    answer.replaceChildren(element('p', { class: 'dim' }, 'Running…'))
    const reply = await ask('/api/refuel', { key: tabKey(), body: { tool, ...fields }, once: true })
    run.disabled = false
    answer.replaceChildren(...(reply.ok ? renderAnswer(reply.body) : [renderProblem(reply.body)]))
    if (tabKey() !== null) showTabBalance(reply.body['_meta']?.balance_usdc)
    showPriceSoon()
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void call()
  })
  run.disabled = false
  connectTabKey(showPriceSoon)
}

/** @param {Record<string, any>} quote */
function describeQuote({ price_usdc: usdc, rail, free_calls_left: left, would_refuse: refused }) {
  if (refused?.remedy?.action === 'onboard')
    return `${formatUsdc(usdc)}. Make a key first: its starter credits pay it.`
  if (refused !== null) return `${formatUsdc(usdc)}. Now it would be refused: ${refused.detail}`
  if (rail === 'free' || usdc === 0)
    return typeof left === 'number' ? `free, ${left} free calls left today` : 'free'
  return `${formatUsdc(usdc)} from your ${rail}`
}

/** @param {Record<string, any>} body */
function renderAnswer({
  _meta: meta,
  echo_recycled: _echo,
  ghost_protocol: _ghost,
  hive: _hive,
  ...output
}) {
  const facts = element('dl', { class: 'facts' })
  const add = (/** @type {string} */ name, /** @type {string} */ value) =>
    facts.append(element('dt', {}, name), element('dd', {}, value))
  add('Charged', formatUsdc(meta.cost_usdc))
  if (typeof meta.balance_usdc === 'number') add('Left', formatUsdc(meta.balance_usdc))
  add('Took', `${meta.ms} ms`)
  add('Call', meta.call_id)
  const text = element('pre', { tabindex: '0', role: 'region', 'aria-label': 'Answer of the tool' })
  text.append(element('code', {}, JSON.stringify(output, null, 2)))
  return [facts, text]
}

/**
 * The fields that are filled in; null when one cannot be read, which its field then says.
 *
 * @param {HTMLFormElement} form
 * @returns {Record<string, unknown> | null}
 */
function readFields(form) {
  /** @type {Record<string, unknown>} */
  const fields = Object.create(null)
  let readable = true
  for (const control of form.elements) {
    const input = /** @type {HTMLInputElement} */ (control)
    const { kind, name } = input.dataset
    if (kind === undefined || name === undefined) continue
    input.setCustomValidity('')
    if (input.value.trim() === '') continue
    try {
      fields[name] = readValue(kind, input.value)
    } catch {
      input.setCustomValidity(FAULTS[kind] ?? 'This is not JSON.')
      readable = false
    }
  }
  return readable ? fields : null
}

/**
 * @param {string} kind
 * @param {string} text
 * @returns {unknown}
 */
function readValue(kind, text) {
  if (kind === 'integer' || kind === 'number') return readNumber(kind, text)
  if (kind === 'boolean') return text === 'true'
  if (kind === 'lines')
    return text
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean)
  return kind === 'json' ? parseFiniteJson(text) : text
}

/**
 * A number as a person types it: a point or a comma, and nothing that means two numbers. Throws for anything else.
 *
 * @param {string} kind
 * @param {string} text
 */
function readNumber(kind, text) {
  const form = kind === 'integer' ? /^-?(0|[1-9]\d*)$/ : /^-?(0|[1-9]\d*)([.,]\d+)?$/
  const value = form.test(text) ? Number(text.replace(',', '.')) : Number.NaN
  const isTwo = /^-?[1-9]\d{0,2}[.,]\d{3}$/.test(text)
  if (isTwo || !Number.isFinite(value) || (kind === 'integer' && !Number.isSafeInteger(value)))
    throw new RangeError(text)
  return value
}

/** JSON, without numbers that would be sent as null. @param {string} text */
const parseFiniteJson = (text) =>
  JSON.parse(text, (_name, value) => {
    if (typeof value !== 'number' || Number.isFinite(value)) return value
    throw new RangeError('not finite')
  })
