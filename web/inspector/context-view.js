import { h } from './dom.js'

/** A context as indented JSON, and the differences between two of them. */

/**
 * Lines of JSON; the names of fields are dim, changed ones are marked.
 * @param {unknown} context @param {ReadonlySet<string>} [changed] JSON Pointers.
 */
export function jsonLines(context, changed = new Set()) {
  const block = h('pre', { class: 'json' })
  /** @param {unknown} value @param {string} path @param {string} indent @param {string | null} name @param {string} end */
  const print = (value, path, indent, name, end) => {
    const label = name === null ? null : h('span', { class: 'name' }, `${name}: `)
    const mark = changed.has(path) ? 'json-line changed' : 'json-line'
    const nested = typeof value === 'object' && value !== null
    const entries = nested ? Object.entries(value) : []
    const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}']
    if (!nested || entries.length === 0) {
      const text = nested ? open + close : (JSON.stringify(value) ?? 'undefined')
      block.append(
        h(
          'span',
          { class: mark },
          indent,
          label,
          h('span', { class: kindOf(value) }, text),
          end,
          '\n',
        ),
      )
      return
    }
    block.append(h('span', { class: mark }, indent, label, open, '\n'))
    entries.forEach(([key, inner], at) =>
      print(
        inner,
        `${path}/${key}`,
        `${indent}  `,
        Array.isArray(value) ? null : key,
        at < entries.length - 1 ? ',' : '',
      ),
    )
    block.append(h('span', { class: 'json-line' }, indent, close, end, '\n'))
  }
  print(context, '', '', null, '')
  return block
}

/** @param {unknown} value */
const kindOf = (value) =>
  value === '[redacted]' ? 'redacted' : value === null ? 'null' : typeof value

/** @param {readonly {path: string, from?: unknown, to?: unknown}[]} diff */
export function diffLines(diff) {
  if (diff.length === 0) return h('p', { class: 'empty' }, 'No field differs.')
  return h(
    'div',
    { class: 'diff' },
    ...diff.flatMap(({ path, from, to }) => [
      h('div', { class: 'diff-path' }, path === '' ? '/' : path),
      from === undefined ? null : h('div', { class: 'diff-from' }, `− ${JSON.stringify(from)}`),
      to === undefined ? null : h('div', { class: 'diff-to' }, `+ ${JSON.stringify(to)}`),
    ]),
  )
}
