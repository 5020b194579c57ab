/** Elements of the page. Text of strangers becomes text nodes only, never markup. */

const SVG = 'http://www.w3.org/2000/svg'

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {Readonly<Record<string, unknown>>} Props
 */

/**
 * An HTML element. A property that starts with `on` is a listener, the others are attributes; null,
 * undefined and false leave an attribute out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Props} [props] @param {...Child} children
 */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children)
}

/** The same for SVG.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag @param {Props} [props] @param {...Child} children
 */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children)
}

/** @template {Element} E @param {E} element @param {Props} props @param {Child[]} children @returns {E} */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue
    if (name.startsWith('on'))
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value))
    else
      element.setAttribute(name, value === true ? '' : `${/** @type {string | number} */ (value)}`)
  }
  append(element, children)
  return element
}

/** @param {Element} element @param {Child[]} children */
function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue
    element.append(child instanceof Node ? child : document.createTextNode(String(child)))
  }
}

/** Replaces the content of an element. @param {Element} element @param {...Child} children */
export function refill(element, ...children) {
  element.replaceChildren()
  append(element, children)
}

/** Sets a text when it differs. @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text
}

/** @param {string | number} value */
const two = (value) => String(value).padStart(2, '0')

/** `mm:ss.mmm` of an instant. @param {string | number | null} at */
export function toClock(at) {
  if (at === null) return ''
  const time = new Date(at)
  return `${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, '0')}`
}

/** Day and time of an instant. @param {string | number | null} at */
export function toDayTime(at) {
  if (at === null) return ''
  const time = new Date(at)
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${toClock(at)}`
}

/** Runs a task at most once an animation frame. @param {() => void} task */
export function oncePerFrame(task) {
  let due = false
  return () => {
    if (due) return
    due = true
    requestAnimationFrame(() => {
      due = false
      task()
    })
  }
}
