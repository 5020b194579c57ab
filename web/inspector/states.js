/** Values of machine states as paths and as words. */

/**
 * The paths of all active states, the root's empty path first.
 * @param {unknown} value @returns {Set<string>}
 */
export function activePaths(value) {
  const paths = new Set([''])
  collect(value, '', paths)
  return paths
}

/** @param {unknown} value @param {string} prefix @param {Set<string>} paths */
function collect(value, prefix, paths) {
  if (typeof value === 'string') paths.add(prefix + value)
  else if (typeof value === 'object' && value !== null)
    for (const [key, inner] of Object.entries(value)) {
      paths.add(prefix + key)
      collect(inner, `${prefix}${key}.`, paths)
    }
}

/** The active leaves in brief: `low · busy`. @param {unknown} value @returns {string} */
export function briefState(value) {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null) return ''
  return Object.entries(value)
    .map(([key, inner]) => briefState(inner) || key)
    .join(' · ')
}

/** @param {unknown} value */
export const stateText = (value) =>
  value === undefined || value === null
    ? ''
    : typeof value === 'string'
      ? value
      : JSON.stringify(value)

/**
 * The differences between two contexts, by JSON Pointer.
 * @param {unknown} before @param {unknown} after @param {string} [path]
 * @returns {{path: string, from?: unknown, to?: unknown}[]}
 */
export function diffOf(before, after, path = '') {
  if (Object.is(before, after)) return []
  if (!isObject(before) || !isObject(after) || Array.isArray(before) !== Array.isArray(after))
    return JSON.stringify(before) === JSON.stringify(after)
      ? []
      : [
          {
            path,
            ...(before === undefined ? {} : { from: before }),
            ...(after === undefined ? {} : { to: after }),
          },
        ]
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].flatMap((name) => diffOf(before[name], after[name], `${path}/${name}`))
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === 'object' && value !== null

/** The life of an actor in words. @param {import('./store.js').Actor | undefined} actor */
export const lifeOf = (actor) =>
  actor?.archived ? 'at rest' : actor?.ended ? 'ended' : actor?.status
