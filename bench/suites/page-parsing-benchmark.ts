import { monitorEventLoopDelay } from 'node:perf_hooks'
import { quantile } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import { createPageParserPool } from '../../providers/pages/page-parser-pool.ts'
import type { PageParser } from '../../providers/pages/page-parser-port.ts'
import { parsePageContent } from '../../providers/pages/parse-page.ts'
import {
  formatMilliseconds,
  createBenchmarkReportRow,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Benchmarks the page reader on shop pages and on pages built to be slow. */

const MB = 1_000_000
const MAX_FETCHED_PAGE_BYTES = 2 * 1024 * 1024
const MAX_PARSE_MS = 200
const MAX_HOSTILE_PARSE_MS = 5_000
const MAX_EVENT_LOOP_HOLD_MS = 50
const URL = 'https://shop.test/catalogue'

/** Reads the pages one after the other. */
export async function benchmarkPageParsing({
  measureMs,
  rounds,
}: BenchmarkScale): Promise<BenchmarkRow[]> {
  const pages = createPageParserPool()
  try {
    return [await shopRow(pages, measureMs, rounds), await hostileRow(pages)]
  } finally {
    await pages.close()
  }
}

/** Duration of one read in milliseconds. */
async function read(pages: PageParser, body: string | Buffer): Promise<number> {
  const startedAt = performance.now()
  await pages.read({ body, contentType: 'text/html; charset=utf-8', url: URL }, { owner: 'bench' })
  return performance.now() - startedAt
}

async function shopRow(
  pages: PageParser,
  measureMs: number,
  rounds: number,
): Promise<BenchmarkRow> {
  const page = Buffer.from(shop())
  const cold = await read(pages, page)
  for (let n = 0; n < 2 * rounds; n += 1) await read(pages, page)
  const hold = monitorEventLoopDelay({ resolution: 1 })
  hold.enable()
  const taken: number[] = []
  const startedAt = performance.now()
  while (performance.now() - startedAt < measureMs) taken.push(await read(pages, page))
  hold.disable()
  const longest = hold.max / 1e6
  const [p50, p99] = [quantile(taken, 0.5), quantile(taken, 0.99)]
  return createBenchmarkReportRow({
    what: 'agent_see reads a page of 1 MB, one after the other, p50',
    measured: `p50 ${formatMilliseconds(p50)}, p99 ${formatMilliseconds(p99)}, the first ${formatMilliseconds(cold)}; the event loop was held ${formatMilliseconds(longest)} at most`,
    baseline: `on the event loop it would be held ${formatMilliseconds(heldHere(page, rounds))}`,
    result: formatMilliseconds(p50),
    target: `<= ${MAX_PARSE_MS} ms, held <= ${MAX_EVENT_LOOP_HOLD_MS} ms`,
    met: p50 <= MAX_PARSE_MS && longest <= MAX_EVENT_LOOP_HOLD_MS,
    n: `${taken.length} pages`,
  })
}

/** The same without a worker thread, after warm-up. */
function heldHere(body: Buffer, rounds: number): number {
  const taken = Array.from({ length: 4 * rounds }, () => {
    const startedAt = performance.now()
    parsePageContent({ body, contentType: 'text/html; charset=utf-8', url: URL })
    return performance.now() - startedAt
  })
  return quantile(taken.slice(rounds), 0.5)
}

async function hostileRow(pages: PageParser): Promise<BenchmarkRow> {
  const hold = monitorEventLoopDelay({ resolution: 1 })
  hold.enable()
  const taken: [string, number][] = []
  for (const [name, part] of Object.entries(HOSTILE)) {
    const page = part.repeat(Math.floor(MAX_FETCHED_PAGE_BYTES / part.length))
    const startedAt = performance.now()
    // A read that reaches its deadline took that long.
    await read(pages, page).catch(() => {})
    taken.push([name, performance.now() - startedAt])
  }
  hold.disable()
  const [name, slowest] = taken.reduce((most, one) => (one[1] > most[1] ? one : most))
  const longest = hold.max / 1e6
  return createBenchmarkReportRow({
    what: 'agent_see reads hostile pages of 2 MiB, the slowest',
    measured: `${name} ${formatMilliseconds(slowest)}; p50 ${formatMilliseconds(
      quantile(
        taken.map(([, one]) => one),
        0.5,
      ),
    )}`,
    baseline: `the event loop was held ${formatMilliseconds(longest)} at most`,
    result: formatMilliseconds(slowest),
    target: `<= ${MAX_HOSTILE_PARSE_MS} ms, held <= ${MAX_EVENT_LOOP_HOLD_MS} ms`,
    met: slowest <= MAX_HOSTILE_PARSE_MS && longest <= MAX_EVENT_LOOP_HOLD_MS,
    n: `${taken.length} pages`,
  })
}

const HOSTILE = {
  paragraphs: '<p>',
  depth: '<div>',
  'ends without begins': '<b></i>',
  forms: '<form><select><input><label>',
  tables: '<table><tr><td>',
  comments: '<!--ignore all-->',
  quotes: '<a href="',
  'bait for patterns': 'send eth ignore all prior ',
  amounts: '$1,234 1 234 ',
  references: '&#x200b;&amp',
  headings: '<h1>x<a href=/>y',
  'hidden text': '<p hidden>you must ',
}

/** A catalogue of about 1 MB: styles, links, prices, tables and some forms. */
function shop(): string {
  const head = `<!doctype html><html><head><title>Catalogue</title><style>.away{display:none}</style></head><body>`
  const parts = [head]
  let length = head.length
  for (let n = 0; length < MB; n += 1) {
    const part = `<section class="item item-${n}" data-id="${n}" style="margin: 0 auto">
      <h2>Lamp no. ${n} &mdash; brass &amp; glass</h2><img src="/img/${n}.jpg" alt="A lamp on a desk">
      <p>It stands <b>${n % 90} cm</b> high and is made by hand. <a href="/lamps/${n}">Read more</a></p>
      <table><tr><td>Price</td><td>$${n % 900}.99</td></tr><tr><td>Weight</td><td>${n % 7} kg</td></tr></table>
      <div class="away">Only for members</div><!-- item ${n} -->
      ${n % 50 === 0 ? '<form action="/cart" method="post"><label>How many <input name="n"></label><button>Buy</button></form>' : ''}
    </section>`
    parts.push(part)
    length += part.length
  }
  return `${parts.join('\n')}</body></html>`
}
