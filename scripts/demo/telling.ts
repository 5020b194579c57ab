/** One thing that happened in the demo, as a line of it. */
export interface Deed {
  /** What was called, or what was done on a chain. */
  readonly call: string
  /** The status of the answer; nothing for what no station answers. */
  readonly status?: number
  readonly said: string
  /** In USDC. */
  readonly cost?: number
  readonly left?: string
}

const WIDTHS = { call: 32, said: 48, cost: 10 } as const

export const chapter = (title: string): void => console.log(`\n${title}`)

export function tell({ call, status, said, cost, left = '' }: Deed): void {
  const price = cost === undefined ? '' : cost === 0 ? 'free' : `cost ${cost}`
  const cells = [
    call.padEnd(WIDTHS.call),
    String(status ?? '').padEnd(3),
    said.padEnd(WIDTHS.said),
    price.padEnd(WIDTHS.cost),
    left,
  ]
  console.log(`  ${cells.join('  ')}`.trimEnd())
}

/** Addresses and hashes as people compare them: by their ends. */
export const brief = (hex: string): string => `${hex.slice(0, 6)}…${hex.slice(-4)}`

/** Ends the demo unless what was promised is so. */
export function insist(holds: boolean, promise: string, instead: unknown): asserts holds {
  if (holds) return
  const seen = typeof instead === 'string' ? instead : JSON.stringify(instead)
  throw new Error(`not so: ${promise}; instead: ${seen}`)
}
