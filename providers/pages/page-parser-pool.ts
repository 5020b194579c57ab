import { SECOND } from '../../core/clock.ts'
import { createWorkerPool } from '../../core/concurrency/worker-pool.ts'
import type { WorkerExhaustedError } from '../../core/concurrency/worker-process.ts'
import { ServiceError } from '../../core/errors.ts'
import type { PageParser } from './page-parser-port.ts'
import type { PageParserWorkerAnswers, PageParserWorkerRequest } from './page-worker.ts'

/** Parses untrusted pages in worker processes. */

export interface PageParserPoolSettings {
  /** Maximum number of processes. */
  readonly size?: number
  /** Limit per page in milliseconds; after it the process is killed. */
  readonly deadlineMs?: number
}

export interface ClosablePageParser extends PageParser {
  close(): Promise<void>
}

const MAX_WAITING_PAGES = 64
const PAGE_DEADLINE_MS = 5 * SECOND
/** The program is beside this file and, like it, built or source. */
const PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? './page-worker.ts' : './page-worker.js',
  import.meta.url,
).href

/** Creates the pool; a page that takes too long or too much memory fails alone. */
export function createPageParserPool(settings: PageParserPoolSettings = {}): ClosablePageParser {
  const { size, deadlineMs = PAGE_DEADLINE_MS } = settings
  const pool = createWorkerPool<PageParserWorkerRequest>({
    program: PROGRAM,
    size,
    deadlineMs,
    maxWaiting: MAX_WAITING_PAGES,
    exhausted: (request, cause) => pageTooComplexError(request, deadlineMs, cause),
  })
  const submit = async <E extends PageParserWorkerRequest>(request: E, signal: AbortSignal) =>
    (await pool.run(request, { owner: null, signal })) as PageParserWorkerAnswers[E['type']]
  return {
    read: (source, signal) => submit({ type: 'read', source }, signal),
    forms: (source, signal) => submit({ type: 'forms', source }, signal),
    extract: (source, what, signal) => submit({ type: 'extract', source, what }, signal),
    decodeText: (source, most, signal) => submit({ type: 'plain', source, most }, signal),
    close: () => pool.close(),
  }
}

/** Too long, too large, or nested beyond any page that a browser could show. */
const pageTooComplexError = (
  { source }: PageParserWorkerRequest,
  deadlineMs: number,
  cause: WorkerExhaustedError,
) =>
  new ServiceError(
    'upstream_error',
    {
      host: new URL(source.url).hostname,
      reason: 'page_too_complex',
      detail: `This page takes more than ${deadlineMs / SECOND} s or too much memory to read.`,
    },
    cause,
  )
