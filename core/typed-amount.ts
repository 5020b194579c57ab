/** How a person types an amount of USDC (decision 431). `web/assets/typed-amount.js` reads the same texts. */

/** What a text says, or why it says nothing: a clause that follows the text. */
export type TypedAmount = { readonly usdc: number } | { readonly fault: string }

const MAX_TYPED_USDC = 1_000_000
const AMOUNT = /^(0|[1-9]\d*)(?:[.,](\d+))?$/
/** One group of three digits: a fraction to some people, thousands to others. */
const BOTH = /^([1-9]\d{0,2})[.,](\d{3})$/

const FAULTS: readonly (readonly [RegExp, string])[] = [
  [/^$/, 'is empty: type an amount such as 0.50'],
  [/\s/, 'has a space or a line break: type the digits only'],
  [/\p{Sc}|^usdc?|usdc?$/iu, 'has a currency sign or name: type the digits only'],
  [/^[-\u2212\u2013]/, 'is below zero'],
  [/(?![0-9])\p{Nd}/u, 'has other digits than 0 to 9'],
  [/[.,].*[.,]/, 'has two separators: type one point or comma, before the decimals'],
  [/^0\d/, 'begins with a zero too many'],
]

/**
 * Reads digits with at most one point or comma, and nothing else. `1,000` and `1.000` are refused, since both
 * readings are common; a fault spells them out.
 */
export function readTypedAmount(text: string): TypedAmount {
  const [, whole, three = ''] = BOTH.exec(text) ?? []
  if (whole !== undefined) return { fault: describeBoth(whole, three) }
  const [spelling, , decimals = ''] = AMOUNT.exec(text) ?? []
  if (spelling === undefined) {
    const known = FAULTS.find(([form]) => form.test(text))
    return { fault: known?.[1] ?? 'is no amount: type one such as 0.50' }
  }
  if (decimals.length > 6) return { fault: `has ${decimals.length} decimals, and USDC has six` }
  const usdc = Number(text.replace(',', '.'))
  return usdc > MAX_TYPED_USDC ? { fault: `is above ${MAX_TYPED_USDC}` } : { usdc }
}

function describeBoth(whole: string, three: string): string {
  const decimals = three.replace(/0+$/, '')
  const small = `${whole}.${decimals === '' ? '00' : decimals}${decimals.length === 3 ? '0' : ''}`
  return `can mean ${Number(small)} or ${whole}${three}: type ${small} or ${whole}${three}`
}
