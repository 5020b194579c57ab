import { SECOND } from '../../core/clock.ts'
import { createWorkerPool, type WorkerPlace } from '../../core/concurrency/worker-pool.ts'
import type { WorkerExhaustedError } from '../../core/concurrency/worker-process.ts'
import { ServiceError } from '../../core/errors.ts'
import { parseExactJson } from '../../core/json/exact.ts'
import type { PageParser, ReceivedBody, ReceivedWebPage } from './page-parser-port.ts'
import { extractPageText } from './page-text.ts'
import {
  decodeResponseText,
  parseResponseBody,
  type ParsedBody,
} from '../egress/parse-response-body.ts'
import type { PageParserWorkerAnswers, PageParserWorkerRequest } from './worker.ts'

/** Parses untrusted pages and bodies in worker processes. */

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
const MAX_WAITING_PAGES_OF_OWNER = 16
/** A smaller body is parsed at once: handing it over would cost as much. */
const MAX_SMALL_BODY = 16 * 1024
const PAGE_DEADLINE_MS = 5 * SECOND
/** The program is beside this file and, like it, built or source. */
const PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js',
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
    maxWaitingOfOwner: MAX_WAITING_PAGES_OF_OWNER,
    exhausted: (request, cause) => pageTooComplexError(request, deadlineMs, cause),
  })
  const submit = async <E extends PageParserWorkerRequest>(request: E, place: WorkerPlace) =>
    (await pool.run(request, place)) as PageParserWorkerAnswers[E['type']]
  return {
    read: (source, place) => submit({ type: 'read', source }, place),
    forms: (source, place) => submit({ type: 'forms', source }, place),
    extract: (source, what, place) => submit({ type: 'extract', source, what }, place),
    decodeText: (source, most, place) => submit({ type: 'plain', source, most }, place),
    text: async (source, place) =>
      isSmall(source)
        ? extractPageText(decodeResponseText(source))
        : submit({ type: 'text', source }, place),
    parseBody: async (source, format, place) =>
      toReceivedBody(
        isSmall(source)
          ? parseResponseBody(format, source)
          : await submit({ type: 'body', source, format }, place),
      ),
    close: () => pool.close(),
  }
}

const isSmall = ({ body }: ReceivedWebPage) => body.length <= MAX_SMALL_BODY

const toReceivedBody = (parsed: ParsedBody): ReceivedBody =>
  'json' in parsed ? { data: parseExactJson(parsed.json) } : parsed

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
