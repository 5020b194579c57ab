import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { readTypedAmount } from '../../core/typed-amount.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import { STRANGE_AMOUNTS } from '../support/http/strange-amounts.ts'

/** The reader of the pages, which no program of the station imports. */
const path = pathToFileURL(join(REPOSITORY_ROOT, 'web/assets/typed-amount.js')).href
const pages = (await import(path)) as { readTypedAmount: typeof readTypedAmount }

t.test('a typed amount is digits with one point or comma, and else a fault in words', async (t) => {
  for (const [text, usdc] of STRANGE_AMOUNTS) {
    const read = readTypedAmount(text)
    if (usdc === null) t.match(read, { fault: /^(is|has|can|begins) \S/ }, JSON.stringify(text))
    else t.strictSame(read, { usdc }, text)
    t.strictSame(pages.readTypedAmount(text), read, `the pages read ${JSON.stringify(text)} alike`)
  }
})

t.test('one separator before three digits is refused with both readings', async (t) => {
  for (const [text, readings] of [
    ['1,000', 'can mean 1 or 1000: type 1.00 or 1000'],
    ['1.000', 'can mean 1 or 1000: type 1.00 or 1000'],
    ['12,500', 'can mean 12.5 or 12500: type 12.5 or 12500'],
    ['1.234', 'can mean 1.234 or 1234: type 1.2340 or 1234'],
  ] as const)
    t.strictSame(readTypedAmount(text), { fault: readings }, text)
})
