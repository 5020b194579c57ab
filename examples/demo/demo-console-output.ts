/** One line of the demo's output. */
export interface DemoOutputLine {
  /** The request, or the action on a chain. */
  readonly call: string
  /** Status of the response; absent for actions on a chain. */
  readonly status?: number
  readonly result: string
  /** In USDC. */
  readonly cost?: number
  readonly remaining?: string
}

const COLUMN_WIDTHS = { call: 32, said: 48, cost: 10 } as const

export const printChapterTitle = (title: string): void => console.log(`\n${title}`)

export function printDemoOutputLine({
  call,
  status,
  result,
  cost,
  remaining = '',
}: DemoOutputLine): void {
  const price = cost === undefined ? '' : cost === 0 ? 'free' : `cost ${cost}`
  const cells = [
    call.padEnd(COLUMN_WIDTHS.call),
    String(status ?? '').padEnd(3),
    result.padEnd(COLUMN_WIDTHS.said),
    price.padEnd(COLUMN_WIDTHS.cost),
    remaining,
  ]
  console.log(`  ${cells.join('  ')}`.trimEnd())
}

/** Shortens addresses and hashes to their ends. */
export const shortenHex = (hex: string): string => `${hex.slice(0, 6)}…${hex.slice(-4)}`

/** Throws and ends the demo unless the expectation holds. */
export function assertDemoExpectation(
  holds: boolean,
  promise: string,
  instead: unknown,
): asserts holds {
  if (holds) return
  const seen = typeof instead === 'string' ? instead : JSON.stringify(instead)
  throw new Error(`not so: ${promise}; instead: ${seen}`)
}
