/** Bounds the size of a shown value that is kept: what explains a refusal is stored a hundred times an agent. */

const MAX_MEMBERS = 50
const OMITTED = '…'

/** Keeps the first members of each long list and record, and says how many more there are. */
export function shortenLists(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const kept = value.slice(0, MAX_MEMBERS).map(shortenLists)
    const more = value.length - kept.length
    return more === 0 ? kept : [...kept, `${OMITTED} ${more} more`]
  }
  const all = Object.entries(value)
  const kept = all.slice(0, MAX_MEMBERS).map(([name, member]) => [name, shortenLists(member)])
  const more = all.length - kept.length
  return Object.fromEntries(more === 0 ? kept : [...kept, [OMITTED, `${more} more`]])
}
